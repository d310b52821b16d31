// SPDX-License-Identifier: GPL-2.0-or-later
// The domain walk (policies.md A4.5) and the affine step "pull to the waker?" (A5).
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// imbalance_pct of a column by level kind. The recorded machine's own values belong to the recorded kernel.
struct Imbalance {
    int smt = 110, llc = 117, pkg = 117;
};

/// Finds the affine level. `stop_unbalanced`: the walk ends at a level without LOAD_BALANCE (4.5 - 5.4).
/// There is no slow path for wakeups here: make_policy refuses machines that set BALANCE_WAKE.
class DomainWalk : public Step {
  public:
    explicit DomainWalk(bool stop_unbalanced);
    bool run(Ctx&) const override;

  private:
    bool stop_unbalanced_;
};

/// Moves Ctx::target to the waker's CPU or leaves it at prev. Reached with an affine level and waker CPU != prev only.
class Affine : public Step {
  public:
    Affine(std::string text, const Topology& t, const Imbalance& imb);
    bool run(Ctx&) const final;
    /// Whether to pull. `factor` is 100 + (imbalance_pct - 100) / 2 of the affine level.
    virtual bool pulls(Ctx&, int64_t factor) const = 0;

  private:
    std::vector<int16_t> factor_;  ///< per domain
};

/// 4.5 - 4.12.0: compares loads scaled by capacities.
class Affine45 : public Affine {
  public:
    Affine45(const Topology& t, const Imbalance& imb);
    bool pulls(Ctx&, int64_t factor) const override;
};

/// Scheduler features of 4.14+ and the rule "idle prev" (5.11+ upstream).
struct WakeAffineFeatures {
    bool idle = true, weight = true, bias = true;
};

/// 4.14+ with the idle-prev rule of 5.15/6.0+.
class Affine414 : public Affine {
  public:
    Affine414(const Topology& t, const Imbalance& imb, WakeAffineFeatures features);
    bool pulls(Ctx&, int64_t factor) const override;

  private:
    WakeAffineFeatures f_;
};

}  // namespace rewake
