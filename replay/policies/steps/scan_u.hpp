// SPDX-License-Identifier: GPL-2.0-or-later
// SCAN_U, the idle search of 5.12 and later (policies.md A7).
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// What distinguishes the kernels from 6.1.
struct ScanURules {
    bool sis_util = true;          ///< at most nr_idle_scan CPUs; 0 means no scan at all
    bool waker_llc = false;        ///< nothing is scanned when the waker's CPU has no LLC domain (until 6.0)
    bool prev_itself = false;      ///< prev counts among its siblings (until 6.0)
    bool siblings_in_llc = true;   ///< siblings of prev must be in the LLC domain (not in 6.8.1)
    bool remember_in_scan =
        true;  ///< a thread is remembered only if it may be scanned, not just allowed (6.1.192, 6.12+)
    bool clusters = false;         ///< target's cluster is scanned first (6.8+)
    bool empty_keeps_flag = false; ///< LLC without allowed CPU: no search, has_idle_cores stays (7.2)
    int util_pct = kUtilPct;       ///< weight of the utilisation in nr_idle_scan
    static constexpr int kUtilPct = 117;
};

/// The siblings of prev while no idle core is promised, then one pass over LLC and allowed from target + 1: whole idle
/// cores while has_idle_cores is set, else usable CPUs.
class ScanU : public Step {
  public:
    explicit ScanU(ScanURules rules);
    bool run(Ctx&) const override;

  private:
    ScanURules rules_;
};

/// SIS_UTIL for a scan of `weight` CPUs: how many may be examined. For the LLC of target itself it is nr_idle_scan; for
/// another weight or util_pct the utilisation is worked back from that, to within a CPU.
int sis_util_bound(Ctx& x, const ScanURules& rules, int weight);

/// A CPU entered idle: sets has_idle_cores of its LLC when that completed an idle core (SMT machines).
void update_idle_core(PolicyState& s, const Topology& t, Cpu c, bool core_idle);

}  // namespace rewake
