// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/affine_old.hpp"

#include <algorithm>

namespace rewake {

DomainWalk38::DomainWalk38()
    : Step(Stage::walk, "lowest balanced domain with WAKE_AFFINE that holds prev; without one: prev, not searched") {}

bool DomainWalk38::run(Ctx& x) const {
    x.target = x.w.prev;
    x.look(kDomains);
    if (x.want_affine)
        for (int i : x.t.stack[x.w.waker.v]) {
            const Domain& d = x.t.domains[i];
            if (!d.load_balance || !d.wake_affine || !d.span.test(x.w.prev)) continue;
            x.affine_domain = i;
            return false;
        }
    return x.decide(x.w.prev, Branch::nosearch);
}

Affine38::Affine38(const Topology& t, const Imbalance& imb, bool at_prev)
    : Affine("wake_affine: loads scaled by capacities, or light enough", t, imb), at_prev_(at_prev) {}

bool Affine38::pulls(Ctx& x, int64_t factor) const {
    const Wakeup& w = x.w;
    if (!at_prev_ && w.waker == w.prev) return false;
    x.look(kLoad | kSync | kCapacity | kNr);
    const int64_t here = x.v.load[w.waker.v] - (x.sync ? w.curr_load : 0), there = x.v.load[w.prev.v];
    const bool balanced =
        here <= 0 || 100 * int64_t{x.v.cap[w.prev.v]} * (here + w.p_load) <= factor * x.v.cap[w.waker.v] * there;
    if (balanced) return true;
    const int64_t nr = x.v.nr[w.waker.v];
    return here <= there && here + there <= (nr ? x.v.load[w.waker.v] / nr : 0);
}

Affine412::Affine412(const Topology& t, const Imbalance& imb)
    : Affine("wake_affine: always within an LLC, else loads of the nodes scaled by their capacities", t, imb) {}

bool Affine412::pulls(Ctx& x, int64_t factor) const {
    const Wakeup& w = x.w;
    if (x.t.share_cache(w.waker, w.prev)) return true;
    x.look(kLoad | kSync | kCapacity);
    struct Node {
        int64_t load = 0, cap = 0;
    };
    auto sum = [&](Cpu c) {
        Node n;
        const CpuMask& span = x.t.node_span[x.t.node[c.v]];
        for_each_cpu(
            x.t.words, [&](int i) { return span.w[i]; },
            [&](Cpu o) {
                x.touch(o);
                n.load += x.v.load[o.v];
                n.cap += x.v.cap[o.v];
                return false;
            });
        return n;
    };
    Node here = sum(w.waker);
    if (x.sync) here.load -= std::min(here.load, w.curr_load);
    if (here.load == 0) return true;
    const Node there = sum(w.prev);
    return 100 * there.cap * (here.load + w.p_load) <= factor * here.cap * (there.load - w.p_load);
}

}  // namespace rewake
