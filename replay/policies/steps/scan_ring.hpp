// SPDX-License-Identifier: GPL-2.0-or-later
// SCAN_RING, the idle search of 3.8 - 4.7 (policies.md A7).
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// From sd_llc(target) down target's stack, the domain's groups in ring order from target's own: the first group whose
/// CPUs are all idle gives its lowest allowed CPU. 4.5/4.6 reject a group that holds target; `target_counts` lifts that
/// (seed 1).
class ScanRing : public Step {
  public:
    explicit ScanRing(bool target_counts);
    bool run(Ctx&) const override;

  private:
    bool target_counts_;
};

}  // namespace rewake
