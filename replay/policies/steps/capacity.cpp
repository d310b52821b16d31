// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/capacity.hpp"

#include <algorithm>

namespace rewake {
namespace {

/// Capacity by which CPUs that p does not fit are compared.
int64_t rank_capacity(const Ctx& x, Cpu c, int fits) {
    return fits < 0 ? x.t.cap_orig[c.v] - x.v.thermal[c.v] : x.v.cap[c.v];
}

bool core_idle(Ctx& x, Cpu c) {
    for (uint16_t s : x.t.siblings(c)) {
        x.touch(Cpu(s));
        if (s != c.v && !x.v.avail.test(Cpu(s))) return false;
    }
    return true;
}

std::string scan_text(const AsymScan::Rules& r) {
    std::string s = std::string(branch_name(r.exit)) + " capacity scan of target's asymmetric domain, else target";
    if (r.bounded) s += ", at most nr_idle_scan";
    if (r.ranks_cores) s += ", idle cores first";
    return s + " (asymmetric machines)";
}

}  // namespace

int util_fits_cpu(Ctx& x, Cpu c, FitRule rule, int margin) {
    const Wakeup& w = x.w;
    x.look(kUtil | kCapacity);
    int64_t util = std::max(w.p_util, rule == FitRule::clamp_odd ? w.p_util_est | 1 : w.p_util_est);
    const bool clamps = rule == FitRule::clamp || rule == FitRule::clamp_odd;
    if (clamps && w.uclamp_used)  // the kernel's clamp(): the minimum wins over a smaller maximum last
        util = util < w.uclamp_min ? w.uclamp_min : util > w.uclamp_max ? w.uclamp_max : util;
    const bool fits = util * margin < int64_t{x.v.cap[c.v]} * 1024;
    if (!w.uclamp_used || clamps) return fits;
    const int cap_orig = x.t.cap_orig[c.v];
    const bool max_fits = w.uclamp_max <= cap_orig && !(cap_orig == 1024 && w.uclamp_max == 1024);
    if (!fits && !max_fits) return 0;
    const int low = std::min(w.uclamp_min, w.uclamp_max);
    const bool boosted = util < low && low > cap_orig - x.v.thermal[c.v];
    if (rule == FitRule::bounds) return !(boosted && cap_orig != 1024);
    return boosted ? -1 : 1;
}

Fit::Fit(FitRule rule, int margin, bool whole_core)
    : Filter(whole_core ? "fits, its whole core idle (asymmetric machines)" : "fits (asymmetric machines)",
             kUtil | kCapacity),
      rule_(rule),
      margin_(margin),
      whole_core_(whole_core) {}

bool Fit::passes(Ctx& x, Cpu c) const {
    if (!x.t.asym) return true;  // the CPUs that differed are offline
    return util_fits_cpu(x, c, rule_, margin_) > 0 && (!whole_core_ || !x.t.smt_active || core_idle(x, c));
}

AsymScan::AsymScan(Rules rules)
    : Step(Stage::probe, scan_text(rules),
           kUtil | kCapacity | kDomains | kAllowed | kIdlePolicy | (rules.bounded ? kNrIdleScan : 0u) |
               (rules.bounded || rules.ranks_cores ? kHasIdleCores : 0u)),
      rules_(rules) {}

bool AsymScan::run(Ctx& x) const {
    x.look(kDomains);
    const int domain = x.t.asym_domain[x.target.v];
    if (domain == Topology::kNone) {
        WHY(x, "capacity scan: target ", x.target, " has no asymmetric domain");
        return false;
    }
    const Domain& d = x.t.domains[domain];
    const CpuMask& span = d.span;
    x.look(kAllowed | kIdlePolicy);
    auto cpus = [&](unsigned i) { return span.w[i] & x.w.allowed->w[i]; };
    x.look_in_turn(x.t.words, x.target.v, cpus);
    if (rules_.bounded || rules_.ranks_cores) return ranked(x, d);
    int best_fits = 0;
    int64_t best_cap = 0;
    Cpu best = x.target;
    const bool fitting = for_each_in_wrap(
        x.t.words, x.target.v, [&](unsigned i) { return cpus(i) & x.usable_word(i); },
        [&](Cpu c) {
            const int fits = util_fits_cpu(x, c, rules_.fit, rules_.margin);
            if (fits > 0) {
                best = c;
                return true;
            }
            const int64_t cap = rank_capacity(x, c, fits);
            if (fits < best_fits || (fits == best_fits && cap > best_cap)) {  // -1 ranks above 0
                best_fits = fits;
                best_cap = cap;
                best = c;
            }
            return false;
        });
    if (fitting)
        x.scanned(x.t.words, x.target.v, best, cpus);
    else
        x.scanned_all(x.t.words, cpus);
    if (fitting)
        WHY(x, "capacity scan of ", &span, " from ", x.target, ": CPU ", best, " is the first idle one that p fits");
    else
        WHY(x, "capacity scan of ", &span, ": p fits no idle CPU -> ",
            best_cap || best_fits ? "idle CPU with most capacity, " : "none is idle: target ", best);
    return x.decide(best, rules_.exit);
}

/// 7.2: a bound, and on SMT machines while has_idle_cores is set a rank: fitting idle core, then fitting but boosted
/// and not fitting idle cores, then the same of busy cores.
/// Both are the domain's, which may have several LLCs (sd_balance_shared): the bound is taken as the sum of theirs, and the flag
/// is set where one of them has it. A domain of several nodes has neither, and uses the flag of target's LLC.
bool AsymScan::ranked(Ctx& x, const Domain& d) const {
    const CpuMask& span = d.span;
    auto each_llc = [&](auto f) {
        if (d.numa) return f(x.t.llc[x.target.v].v);
        for (size_t l = 0; l < x.t.llc_span.size(); ++l)
            if ((x.t.llc_span[l] & span).any(x.t.words)) f(l);
    };
    bool cores = false;
    if (rules_.ranks_cores && x.t.smt_active) each_llc([&](size_t l) { cores |= x.s.hic[l] != 0; });
    if (x.t.smt_active) x.look(kHasIdleCores);
    int left = kMaxCpus + 1;
    if (rules_.bounded && !d.numa) {
        x.look(kNrIdleScan);
        left = 1;
        each_llc([&](size_t l) { left += x.v.nr_idle_scan[l]; });
        if (left == 1) {
            WHY(x, "capacity scan: nr_idle_scan is 0 -> target ", x.target);
            return x.decide(x.target, rules_.exit);
        }
    }
    int best_rank = 0;
    int64_t best_cap = 0;
    Cpu best = x.target;
    const bool early = for_each_in_wrap(
        x.t.words, x.target.v, [&](unsigned i) { return span.w[i] & x.w.allowed->w[i]; },
        [&](Cpu c) {
            if (!cores && --left <= 0) return true;
            ++x.d.scanned;
            if (!x.usable(c)) return false;
            const bool preferred = !cores || core_idle(x, c);
            const int fits = util_fits_cpu(x, c, rules_.fit, rules_.margin);
            if (fits > 0 && preferred) {
                best = c;
                return true;
            }
            const int rank = (fits > 0 ? -2 : fits) - (cores && preferred ? 3 : 0);
            const int64_t cap = rank_capacity(x, c, fits);
            if (rank < best_rank || (rank == best_rank && cap > best_cap)) {
                best_rank = rank;
                best_cap = cap;
                best = c;
            }
            return false;
        });
    if (cores && !early && best_rank > -3) each_llc([&](size_t l) { x.s.hic[l] = 0; });
    WHY(x, "capacity scan of ", &span, " from ", x.target, cores ? ", idle cores first: CPU " : ": CPU ", best,
        best_cap || best_rank ? " ranks best" : " is the first that fits, or target");
    return x.decide(best, rules_.exit);
}

}  // namespace rewake
