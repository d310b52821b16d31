// SPDX-License-Identifier: GPL-2.0-or-later
// The domain walk and the affine step of kernels before 4.5, and the node rule of 4.13 (policies.md A4, A5).
#pragma once

#include "replay/policies/steps/affine.hpp"

namespace rewake {

/// Walk of 3.8 - 3.10: a wakeup without an affine level keeps prev, unsearched; one on prev itself has a level too.
/// For machines where no domain sets BALANCE_WAKE.
class DomainWalk38 : public Step {
  public:
    DomainWalk38();
    bool run(Ctx&) const override;
};

/// 3.8 - 3.10. `at_prev`: also for a wakeup on prev itself (seed 2).
class Affine38 : public Affine {
  public:
    Affine38(const Topology& t, const Imbalance& imb, bool at_prev);
    bool pulls(Ctx&, int64_t factor) const override;

  private:
    bool at_prev_;
};

/// 4.13, and 4.12.3: always within an LLC, else by the loads of the two nodes. For a kernel with NUMA balancing built
/// in.
class Affine412 : public Affine {
  public:
    Affine412(const Topology& t, const Imbalance& imb);
    bool pulls(Ctx&, int64_t factor) const override;
};

}  // namespace rewake
