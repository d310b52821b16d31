// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/affine_old.hpp"

#include <algorithm>
#include <bit>

namespace rewake {

DomainWalk38::DomainWalk38()
    : Step(Stage::walk, "lowest balanced domain with WAKE_AFFINE that holds prev; without one: prev, not searched",
           kDomains) {}

bool DomainWalk38::run(Ctx& x) const {
    x.target = x.w.prev;
    x.look(kDomains);
    if (x.want_affine && x.t.all_affine)
        x.affine_domain = common_level(x);
    else if (x.want_affine)
        for (int i : x.t.stack[x.w.waker.v]) {
            const Domain& d = x.t.domains[i];
            if (!d.load_balance || !d.wake_affine || !d.span.test(x.w.prev)) continue;
            x.affine_domain = i;
            break;
        }
    if (x.affine_domain != Topology::kNone) {
        if (x.reasons) tell_affine_level(x);
        return false;
    }
    WHY(x, "affine level: ", x.want_affine ? "none holds prev" : "not searched, no want_affine",
        " -> prev, not searched");
    return x.decide(x.w.prev, Branch::nosearch);
}

Affine38::Affine38(const Topology& t, const Imbalance& imb, bool at_prev)
    : Affine("wake_affine: loads scaled by capacities, or light enough", t, imb, kLoad | kSync | kCapacity | kNr),
      at_prev_(at_prev) {}

bool Affine38::pulls(Ctx& x, int64_t factor) const {
    const Wakeup& w = x.w;
    if (!at_prev_ && w.waker == w.prev) return false;
    x.look(kLoad | kSync | kCapacity | kNr);
    const int64_t here = x.v.load[w.waker.v] - (x.sync ? w.curr_load : 0), there = x.v.load[w.prev.v];
    const bool balanced =
        here <= 0 || 100 * int64_t{x.v.cap[w.prev.v]} * (here + w.p_load) <= factor * x.v.cap[w.waker.v] * there;
    if (x.reasons) tell_loads(x, w.prev, factor, balanced);
    if (balanced) return true;
    const int64_t nr = x.v.nr[w.waker.v];
    const bool light = here <= there && here + there <= (nr ? x.v.load[w.waker.v] / nr : 0);
    WHY(x, "wake_affine: both CPUs together are ", light ? "light enough" : "too heavy", ": ", here, " + ", there,
        " against ", nr ? x.v.load[w.waker.v] / nr : 0, " a task");
    return light;
}

namespace {

struct Node {
    int64_t load = 0, cap = 0;
};

/// Sum of at most 64 values, as a rule 64: capacities do not overflow.
template <class T>
int64_t added(const T* values, size_t count) {
    T sum = 0;
#pragma GCC unroll 4
    for (size_t i = 0; i < count; ++i) sum += values[i];
    return sum;
}

/// Of all CPUs of a node.
Node sum(Ctx& x, uint16_t node) {
    Node n;
    const CpuMask& span = x.t.node_span[node];
    x.touch(span);
    for_each_run(
        x.t.words, [&](int i) { return span.w[i]; },
        [&](size_t first, size_t count) {
            n.load += added(x.v.load.data() + first, count);
            n.cap += added(x.v.cap.data() + first, count);
        });
    return n;
}

}  // namespace

Affine412::Affine412(const Topology& t, const Imbalance& imb)
    : Affine("wake_affine: always within an LLC, else loads of the nodes scaled by their capacities", t, imb,
             kLoad | kSync | kCapacity) {}

bool Affine412::pulls(Ctx& x, int64_t factor) const {
    const Wakeup& w = x.w;
    if (x.t.share_cache(w.waker, w.prev)) {
        WHY(x, "wake_affine: prev ", w.prev, " is in the LLC of waker CPU ", w.waker);
        return true;
    }
    x.look(kLoad | kSync | kCapacity);
    Node here = sum(x, x.t.node[w.waker.v]);
    const Node there = x.t.node[w.prev.v] == x.t.node[w.waker.v] ? here : sum(x, x.t.node[w.prev.v]);
    if (x.sync) here.load -= std::min(here.load, w.curr_load);
    if (here.load == 0) {
        WHY(x, "wake_affine: no load on the waker's node");
        return true;
    }
    const bool lighter = 100 * there.cap * (here.load + w.p_load) <= factor * here.cap * (there.load - w.p_load);
    WHY(x, "wake_affine: load ", here.load, " of the waker's node with w(p) ", w.p_load, lighter ? " is" : " is not",
        " lighter than ", there.load, " of prev's node without it, factor ", factor);
    return lighter;
}

}  // namespace rewake
