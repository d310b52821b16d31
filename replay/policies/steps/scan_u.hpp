// SPDX-License-Identifier: GPL-2.0-or-later
// SCAN_U, the idle search of 5.12 and later in the form of 6.1 (policies.md A7).
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// The siblings of prev while no idle core is promised, then one pass over LLC and allowed from target + 1: whole idle
/// cores while has_idle_cores is set, else usable CPUs. `sis_util`: at most nr_idle_scan CPUs; 0 means no scan at all.
class ScanU : public Step {
  public:
    explicit ScanU(bool sis_util);
    bool run(Ctx&) const override;

  private:
    bool sis_util_;
};

/// A CPU entered idle: sets has_idle_cores of its LLC when that completed an idle core (SMT machines).
void update_idle_core(PolicyState& s, const Topology& t, Cpu c, bool core_idle);

}  // namespace rewake
