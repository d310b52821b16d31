// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/affine.hpp"

namespace rewake {
namespace {

std::string text414(const WakeAffineRules& f) {
    std::string s = "wake_affine:";
    if (f.idle) {
        s += " idle waker CPU in prev's LLC (WA_IDLE), sync and alone";
        s += f.delayed ? " but for delayed tasks" : "";
        s += f.prev_idle ? ", prev idle;" : ";";
    }
    if (f.weight) s += f.bias ? " else lighter by WA_WEIGHT with WA_BIAS;" : " else lighter by WA_WEIGHT;";
    return s + " else prev";
}

}  // namespace

DomainWalk::DomainWalk(bool stop_unbalanced, bool at_prev)
    : Step(Stage::walk, stop_unbalanced
                            ? "lowest domain with WAKE_AFFINE that holds prev, below the first without LOAD_BALANCE"
                            : "lowest domain with WAKE_AFFINE that holds prev"),
      stop_unbalanced_(stop_unbalanced),
      at_prev_(at_prev) {}

bool DomainWalk::run(Ctx& x) const {
    x.target = x.w.prev;
    if (!x.want_affine || (!at_prev_ && x.w.waker == x.w.prev)) return false;  // the level would not be used
    x.look(kDomains);
    for (int i : x.t.stack[x.w.waker.v]) {
        const Domain& d = x.t.domains[i];
        if (stop_unbalanced_ && !d.load_balance) break;
        if (d.wake_affine && d.span.test(x.w.prev)) {
            x.affine_domain = i;
            break;
        }
    }
    return false;
}

std::vector<int16_t> level_imbalance(const Topology& t, const Imbalance& imb) {
    std::vector<int16_t> pct;
    for (const Domain& d : t.domains) {
        bool one_core = true;
        for_each_cpu(
            t.words, [&](int i) { return d.span.w[i]; }, [&](Cpu c) { return !(one_core = d.span == t.smt[c.v]); });
        pct.push_back(static_cast<int16_t>(!d.share_llc ? imb.pkg : one_core ? imb.smt : imb.llc));
    }
    return pct;
}

Affine::Affine(std::string text, const Topology& t, const Imbalance& imb) : Step(Stage::affine, std::move(text)) {
    for (int pct : level_imbalance(t, imb)) factor_.push_back(static_cast<int16_t>(100 + (pct - 100) / 2));
}

bool Affine::run(Ctx& x) const {
    if (x.affine_domain == Topology::kNone) return false;
    x.touch(x.w.waker);
    x.touch(x.w.prev);
    if (pulls(x, factor_[x.affine_domain])) x.target = x.w.waker;
    return false;
}

Affine45::Affine45(const Topology& t, const Imbalance& imb, bool task_cpu)
    : Affine("wake_affine: loads scaled by capacities", t, imb), task_cpu_(task_cpu) {}

bool Affine45::pulls(Ctx& x, int64_t factor) const {
    const Wakeup& w = x.w;
    const Cpu prev = task_cpu_ ? w.task_cpu : w.prev;
    x.look(kLoad | kSync | kCapacity);
    x.touch(prev);
    int64_t here = x.v.load[w.waker.v];
    if (x.sync) here -= w.curr_load;
    int64_t a = 100 * int64_t{x.v.cap[prev.v]}, b = factor * x.v.cap[w.waker.v];
    if (here > 0) {  // else only the capacities are compared
        a *= here + w.p_load;
        b *= x.v.load[prev.v];
    }
    return a <= b;
}

Affine414::Affine414(const Topology& t, const Imbalance& imb, WakeAffineRules rules)
    : Affine(text414(rules), t, imb), f_(rules) {}

bool Affine414::pulls(Ctx& x, int64_t factor) const {
    const Wakeup& w = x.w;
    const Cpu here = w.waker, prev = w.prev;
    if (f_.idle) {
        if (x.v.avail.test(here) && x.t.share_cache(here, prev)) return !x.v.avail.test(prev);
        x.look(kSync);
        if (x.sync) {
            x.look(kNr);
            if (x.v.nr[here.v] - (f_.delayed ? x.v.delayed[here.v] : 0) == 1) return true;
        }
        if (f_.prev_idle && x.v.avail.test(prev)) return false;
    }
    if (!f_.weight) return false;
    x.look(kLoad | kSync | kCapacity);
    int64_t a = x.v.load[here.v];
    if (x.sync) {
        if (w.curr_load > a) return true;
        a -= w.curr_load;
    }
    a += w.p_load;
    // With load_avg the sleeping p is still part of prev's load; with runnable_load_avg it is subtracted all the same.
    int64_t b = x.v.load[prev.v] - w.p_load;
    if (f_.bias) {
        a *= 100;
        b *= factor;
    }
    a *= x.v.cap[prev.v];
    b *= x.v.cap[here.v];
    return a < b + (x.sync ? 1 : 0);
}

}  // namespace rewake
