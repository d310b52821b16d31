// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/slow_path.hpp"

#include <limits>

namespace rewake {
namespace {

bool has_flag(const Domain& d, Kind kind) {
    return kind == Kind::wake ? d.balance_wake : kind == Kind::fork ? d.balance_fork : d.balance_exec;
}

std::string path_text(const SlowRules& r) {
    std::string s = "slow path: idlest group by ";
    s += r.group == GroupRule::gl ? "load" : r.group == GroupRule::gs ? "loads and spare capacity" : "type";
    if (r.fork_hints) s += " and fork hints";
    s += ", its idlest CPU by ";
    s += r.idle_states ? "idle state" : "load";
    if (r.avoids_heavy) s += ", without interrupt-heavy ones";
    return s + ", downwards";
}

}  // namespace

SlowWalk::SlowWalk(const SlowRules& rules)
    : Step(Stage::walk, "lowest domain with WAKE_AFFINE that holds prev, else the highest with the flag of the kind",
           kDomains),
      rules_(rules) {}

bool SlowWalk::run(Ctx& x) const {
    const Wakeup& w = x.w;
    const bool wake = w.kind == Kind::wake;
    x.target = rules_.from_waker && !wake ? w.waker : w.prev;
    x.look(kDomains);
    for (int i : x.t.stack[w.waker.v]) {
        const Domain& d = x.t.domains[i];
        if (rules_.walk_needs_balance && !d.load_balance) {
            if (rules_.walk_stops) break;
            continue;
        }
        if (x.want_affine && d.wake_affine && d.span.test(w.prev)) {
            if (rules_.walk_38 || rules_.walk_at_prev || w.waker != w.prev) x.affine_domain = i;
            x.slow_domain = Topology::kNone;
            if (x.affine_domain == Topology::kNone)
                WHY(x, "affine level: not used, prev is the waker CPU");
            else if (x.reasons)
                tell_affine_level(x);
            return false;
        }
        if (has_flag(d, w.kind))
            x.slow_domain = i;
        else if (!x.want_affine && !rules_.walk_38)
            break;
    }
    if (x.slow_domain == Topology::kNone)
        WHY(x, "domain walk: no affine level, and none to balance at");
    else
        WHY(x, "domain walk: balances from ", std::string_view(x.t.domains[x.slow_domain].name), " (",
            &x.t.domains[x.slow_domain].span, ")");
    return wake && rules_.walk_38 && x.slow_domain == Topology::kNone && x.decide(w.prev, Branch::nosearch);
}

/// What the group rule and the idlest CPU look at.
uint32_t path_inputs(const SlowRules& r) {
    uint32_t inputs = kAllowed | kDomains | kLoad;
    if (r.group != GroupRule::gl) inputs |= kUtil;
    if (r.group == GroupRule::gt) inputs |= kNr | kCapacity;
    return inputs;
}

SlowPath::SlowPath(const SlowRules& rules, const Topology& t)
    : Step(Stage::slow, path_text(rules), path_inputs(rules)),
      rules_(rules),
      pct_(level_imbalance(t, rules.imbalance)) {}

bool SlowPath::run(Ctx& x) const {
    const Wakeup& w = x.w;
    if (x.slow_domain == Topology::kNone) {
        WHY(x, "slow path: no level to balance at");
        return w.kind != Kind::wake && x.decide(x.target, Branch::nosearch);
    }
    x.look(kAllowed | kDomains | kLoad);
    Cpu c = w.waker, found = x.target;
    if (rules_.at_waker) {
        const CpuMask& span = x.t.domains[x.slow_domain].span;
        if (!first_in_wrap(x.t.words, 0, [&](unsigned i) { return span.w[i] & w.allowed->w[i]; }))
            return x.decide(w.prev, Branch::slow);
        found = w.waker;
    }
    auto level_of = [&](Cpu cpu, int domain) {
        const std::vector<int>& stack = x.t.stack[cpu.v];
        for (int l = 0; l < static_cast<int>(stack.size()); ++l)
            if (stack[l] == domain) return l;
        return -1;
    };
    int level = level_of(c, x.slow_domain);
    while (level >= 0) {
        const int domain = x.t.stack[c.v][level];
        const Domain& d = x.t.domains[domain];
        const CpuMask* g = has_flag(d, w.kind) ? idlest_group(x, d, pct_[domain], c) : nullptr;
        if (!g) {
            WHY(x, "slow path: ", std::string_view(d.name), " (", &d.span, "): the group of CPU ", c, " stays");
            --level;
            continue;
        }
        const auto cpu = idlest_cpu(x, *g, c);
        if (cpu) found = *cpu;
        WHY(x, "slow path: ", std::string_view(d.name), " (", &d.span, "): idlest group ", g, ", its idlest CPU ",
            found);
        if (!cpu || *cpu == c) {
            --level;
            continue;
        }
        c = *cpu;  // go on below, in the domains of the new CPU
        level = -1;
        const std::vector<int>& stack = x.t.stack[c.v];
        for (int l = 0; l < static_cast<int>(stack.size()) && x.t.domains[stack[l]].weight < d.weight; ++l)
            if (has_flag(x.t.domains[stack[l]], w.kind)) level = l;
    }
    return x.decide(found, Branch::slow);
}

const CpuMask* SlowPath::idlest_group(Ctx& x, const Domain& d, int pct, Cpu c) const {
    switch (rules_.group) {
        case GroupRule::gl: return idlest_group_gl(x, d, pct, c);
        case GroupRule::gs: return idlest_group_gs(x, rules_, d, pct, c);
        case GroupRule::gt: break;
    }
    return idlest_group_gt(x, rules_, d, pct, rules_.partial_asym ? d.asym : d.asym_full, c);
}

std::optional<Cpu> SlowPath::idlest_cpu(Ctx& x, const CpuMask& group, Cpu c) const {
    const int words = x.t.words;
    if (rules_.single_cpu && group.count(words) == 1)
        return first_in_wrap(words, 0, [&](unsigned i) { return group.w[i]; });
    std::optional<Cpu> least, shallowest, soft, backup;
    if (rules_.idle_states) least = c;
    int64_t least_load = std::numeric_limits<int64_t>::max(), best_latency = least_load;
    Ns stamp = 0;
    const SlowInputs* in = x.v.slow;
    const bool at_once = for_each_cpu(
        words, [&](int i) { return group.w[i] & x.w.allowed->w[i]; },
        [&](Cpu i) {
            x.touch(i);
            ++x.d.scanned;
            if (rules_.soft == SlowRules::Soft::at_once && x.soft.test(i)) {
                soft = i;
                return true;
            }
            if (rules_.idle_states && x.idle.test(i)) {
                x.look(kIdleState);
                const int64_t latency = in->exit_latency[i.v];  // negative: no cpuidle state
                if (latency >= 0 && latency < best_latency) {
                    best_latency = latency;
                    stamp = in->idle_stamp[i.v];
                    (rules_.avoids_heavy && x.v.heavy(i) ? backup : shallowest) = i;
                } else if ((latency < 0 || latency == best_latency) && in->idle_stamp[i.v] > stamp) {
                    stamp = in->idle_stamp[i.v];
                    shallowest = i;
                }
                return false;
            }
            if (shallowest || soft) return false;
            if (rules_.soft == SlowRules::Soft::last && x.soft.test(i)) {
                soft = i;
                return false;
            }
            const int64_t load = x.v.load[i.v];
            if (load < least_load || (rules_.tie_waker && load == least_load && i == c)) {
                least_load = load;
                least = i;
            }
            return false;
        });
    if (at_once) return soft;
    return shallowest ? shallowest : soft ? soft : backup ? backup : least;
}

}  // namespace rewake
