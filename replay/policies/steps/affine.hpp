// SPDX-License-Identifier: GPL-2.0-or-later
// The domain walk (policies.md A4.5) and the affine step "pull to the waker?" (A5).
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// imbalance_pct of a column by level kind. The recorded machine's own values belong to the recorded kernel.
struct Imbalance {
    int smt = 110, llc = 117, pkg = 117;
};

/// imbalance_pct per domain of the machine.
std::vector<int16_t> level_imbalance(const Topology& t, const Imbalance& imb);

/// The affine level where every domain has WAKE_AFFINE and LOAD_BALANCE.
int common_level(const Ctx& x);

/// Tells which affine level the walk found, if any.
void tell_affine_level(Ctx& x);
/// Tells the loads that the affine steps before 4.13 compare, and whether they count as balanced.
void tell_loads(Ctx& x, Cpu prev, int64_t factor, bool balanced);

/// Finds the affine level of a wakeup. `stop_unbalanced`: the walk ends at a level without LOAD_BALANCE (4.5 - 5.4).
/// `at_prev`: also for a wakeup on prev itself, which kernels leave alone (seed 2).
/// For machines where no domain sets BALANCE_WAKE; SlowWalk (slow_path.hpp) serves the others.
class DomainWalk : public Step {
  public:
    DomainWalk(bool stop_unbalanced, bool at_prev);
    bool run(Ctx&) const override;

  private:
    int level(const Ctx& x) const;
    bool stop_unbalanced_, at_prev_;
};

/// Moves Ctx::target to the waker's CPU or leaves it at prev. Reached with an affine level and waker CPU != prev only.
class Affine : public Step {
  public:
    Affine(std::string text, const Topology& t, const Imbalance& imb, uint32_t inputs);
    bool run(Ctx&) const final;
    /// Whether to pull. `factor` is 100 + (imbalance_pct - 100) / 2 of the affine level.
    virtual bool pulls(Ctx&, int64_t factor) const = 0;

  private:
    std::vector<int16_t> factor_;  ///< per domain
};

/// 4.5 - 4.12.0: compares loads scaled by capacities. `task_cpu`: reads task_cpu(p) whatever prev is (4.5).
class Affine45 : public Affine {
  public:
    Affine45(const Topology& t, const Imbalance& imb, bool task_cpu);
    bool pulls(Ctx&, int64_t factor) const override;

  private:
    bool task_cpu_;
};

/// Scheduler features of 4.14+, and the rules that came later.
struct WakeAffineRules {
    bool idle = true, weight = true, bias = true;  ///< WA_IDLE, WA_WEIGHT, WA_BIAS
    bool prev_idle = true;  ///< an idle prev is kept (upstream 5.11)
    bool delayed = false;   ///< delayed-dequeue tasks do not count (6.12)
};

/// 4.14+.
class Affine414 : public Affine {
  public:
    Affine414(const Topology& t, const Imbalance& imb, WakeAffineRules rules);
    bool pulls(Ctx&, int64_t factor) const override;

  private:
    WakeAffineRules f_;
};

}  // namespace rewake
