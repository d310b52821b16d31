// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/capacity.hpp"

#include <algorithm>

namespace rewake {

int util_fits_cpu(Ctx& x, Cpu c) {
    const Wakeup& w = x.w;
    x.look(kUtil | kCapacity);
    const int64_t util = std::max(w.p_util, w.p_util_est);
    const bool fits = util * 1280 < int64_t{x.v.cap[c.v]} * 1024;
    if (!w.uclamp_used) return fits;
    const int cap_orig = x.t.cap_orig[c.v];
    const bool max_fits = w.uclamp_max <= cap_orig && !(cap_orig == 1024 && w.uclamp_max == 1024);
    if (!fits && !max_fits) return 0;
    const int low = std::min(w.uclamp_min, w.uclamp_max);
    return util < low && low > cap_orig - x.v.thermal[c.v] ? -1 : 1;
}

Fit::Fit() : Filter("fits (asymmetric machines)") {}

bool Fit::passes(Ctx& x, Cpu c) const { return util_fits_cpu(x, c) > 0; }

AsymScan::AsymScan()
    : Step(Stage::probe, "X5 capacity scan of target's asymmetric domain, else target (asymmetric machines)") {}

bool AsymScan::run(Ctx& x) const {
    const int domain = x.t.asym_domain[x.target.v];
    if (domain == Topology::kNone) return false;
    const CpuMask& span = x.t.domains[domain].span;
    auto cpus = [&](unsigned i) { return span.w[i] & x.w.allowed->w[i]; };
    x.look(kDomains | kAllowed | kIdlePolicy);
    int best_fits = 0;
    int64_t best_cap = 0;
    Cpu best = x.target;
    const bool fitting = for_each_in_wrap(
        x.t.words, x.target.v, [&](unsigned i) { return cpus(i) & x.usable_word(i); },
        [&](Cpu c) {
            const int fits = util_fits_cpu(x, c);
            if (fits > 0) {
                best = c;
                return true;
            }
            const int64_t cap = fits < 0 ? x.t.cap_orig[c.v] - x.v.thermal[c.v] : x.v.cap[c.v];
            if (fits < best_fits || (fits == best_fits && cap > best_cap)) {  // -1 ranks above 0
                best_fits = fits;
                best_cap = cap;
                best = c;
            }
            return false;
        });
    if (fitting)
        x.scanned(x.target.v, best, cpus);
    else
        x.scanned_all(cpus);
    return x.decide(best, Branch::x5);
}

}  // namespace rewake
