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

void tell_affine_level(Ctx& x) {
    if (x.affine_domain == Topology::kNone) {
        WHY(x, "affine level: none holds prev ", x.w.prev);
    } else {
        const Domain& d = x.t.domains[x.affine_domain];
        WHY(x, "affine level found: ", std::string_view(d.name), " (", &d.span, ")");
    }
}

DomainWalk::DomainWalk(bool stop_unbalanced, bool at_prev)
    : Step(Stage::walk,
           stop_unbalanced ? "lowest domain with WAKE_AFFINE that holds prev, below the first without LOAD_BALANCE"
                           : "lowest domain with WAKE_AFFINE that holds prev",
           kDomains),
      stop_unbalanced_(stop_unbalanced),
      at_prev_(at_prev) {}

int common_level(const Ctx& x) { return x.w.common ? *x.w.common : x.t.common(x.w.waker, x.w.prev); }

int DomainWalk::level(const Ctx& x) const {
    for (int i : x.t.stack[x.w.waker.v]) {
        const Domain& d = x.t.domains[i];
        if (stop_unbalanced_ && !d.load_balance) break;
        if (d.wake_affine && d.span.test(x.w.prev)) return i;
    }
    return Topology::kNone;
}

bool DomainWalk::run(Ctx& x) const {
    x.target = x.w.prev;
    if (!x.want_affine || (!at_prev_ && x.w.waker == x.w.prev)) {  // the level would not be used
        WHY(x, "affine level: not searched, ", x.want_affine ? "prev is the waker CPU" : "no want_affine");
        return false;
    }
    x.look(kDomains);
    x.affine_domain = x.t.all_affine ? common_level(x) : level(x);
    if (x.reasons) tell_affine_level(x);
    return false;
}

std::vector<int16_t> level_imbalance(const Topology& t, const Imbalance& imb) {
    std::vector<int16_t> pct;
    for (const Domain& d : t.domains)
        pct.push_back(static_cast<int16_t>(!d.share_llc ? imb.pkg : d.share_core ? imb.smt : imb.llc));
    return pct;
}

Affine::Affine(std::string text, const Topology& t, const Imbalance& imb, uint32_t inputs)
    : Step(Stage::affine, std::move(text), inputs) {
    for (int pct : level_imbalance(t, imb)) factor_.push_back(static_cast<int16_t>(100 + (pct - 100) / 2));
}

bool Affine::run(Ctx& x) const {
    if (x.affine_domain == Topology::kNone) {
        WHY(x, "affine step: none without an affine level -> target ", x.target);
        return false;
    }
    x.touch(x.w.waker);
    x.touch(x.w.prev);
    const bool pulled = pulls(x, factor_[x.affine_domain]);
    if (pulled) x.target = x.w.waker;
    WHY(x, pulled ? "affine step: pulled -> target " : "affine step: not pulled -> target ", x.target);
    return false;
}

void tell_loads(Ctx& x, Cpu prev, int64_t factor, bool balanced) {
    const Cpu here = x.w.waker;
    if (x.sync) WHY(x, "wake_affine: sync takes w(curr) ", x.w.curr_load, " off L(", here, ")");
    WHY(x, "wake_affine: L(", here, ") ", x.v.load[here.v], ", L(", prev, ") ", x.v.load[prev.v], ", w(p) ", x.w.p_load,
        ", factor ", factor, balanced ? " -> balanced" : " -> not balanced");
}

Affine45::Affine45(const Topology& t, const Imbalance& imb, bool task_cpu)
    : Affine("wake_affine: loads scaled by capacities", t, imb, kLoad | kSync | kCapacity), task_cpu_(task_cpu) {}

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
    if (x.reasons) tell_loads(x, prev, factor, a <= b);
    return a <= b;
}

Affine414::Affine414(const Topology& t, const Imbalance& imb, WakeAffineRules rules)
    : Affine(text414(rules), t, imb, (rules.idle ? kSync | kNr : 0u) | (rules.weight ? kLoad | kSync | kCapacity : 0u)),
      f_(rules) {}

bool Affine414::pulls(Ctx& x, int64_t factor) const {
    const Wakeup& w = x.w;
    const Cpu here = w.waker, prev = w.prev;
    if (f_.idle) {
        if (x.avail(here) && x.t.share_cache(here, prev)) {
            WHY(x, "wa_idle: waker CPU ", here, " is idle and in prev's LLC; prev ", prev,
                x.avail(prev) ? " is idle too" : " is not idle");
            return !x.avail(prev);
        }
        x.look(kSync);
        if (x.sync) {
            x.look(kNr);
            if (x.v.nr[here.v] - (f_.delayed ? x.v.delayed[here.v] : 0) == 1) {
                WHY(x, "wa_idle: sync, and the waker is alone on CPU ", here);
                return true;
            }
        }
        if (f_.prev_idle && x.avail(prev)) {
            WHY(x, "wa_idle: prev ", prev, " is idle");
            return false;
        }
        WHY(x, "wa_idle: waker CPU ", here, x.avail(here) ? " is idle, but not in prev's LLC" : " is not idle",
            x.sync ? "; sync, but nr is " : "; no sync; nr is ", x.v.nr[here.v]);
    }
    if (!f_.weight) return false;
    x.look(kLoad | kSync | kCapacity);
    int64_t a = x.v.load[here.v];
    if (x.sync) {
        if (w.curr_load > a) {
            WHY(x, "wa_weight: sync, and w(curr) ", w.curr_load, " > L(", here, ") ", a);
            return true;
        }
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
    const bool lighter = a < b + (x.sync ? 1 : 0);
    if (x.sync) WHY(x, "wa_weight: sync takes w(curr) ", w.curr_load, " off L(", here, ")");
    WHY(x, "wa_weight: L(", here, ") ", x.v.load[here.v], ", L(", prev, ") ", x.v.load[prev.v], ", w(p) ", w.p_load,
        ", factor ", factor, ": ", a, lighter ? " < " : " >= ", b + (x.sync ? 1 : 0));
    return lighter;
}

}  // namespace rewake
