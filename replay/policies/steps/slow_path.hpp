// SPDX-License-Identifier: GPL-2.0-or-later
// The slow path of forks, execs and, where domains set BALANCE_WAKE, wakeups: the idlest group of a domain, the idlest
// CPU of that group, and so on downwards (policies.md A4.5, A8).
#pragma once

#include "replay/policies/steps/affine.hpp"
#include "replay/policies/steps/capacity.hpp"

namespace rewake {

/// How a kernel compares the groups of a domain.
enum class GroupRule : uint8_t {
    gl,  ///< by load (3.8 - 4.6)
    gs,  ///< by two loads and spare capacity (4.11 - 5.4)
    gt,  ///< by type (5.5+)
};
/// When GT keeps a task on its node although another one has more idle CPUs.
enum class NumaRule : uint8_t {
    local_idle,  ///< an idle CPU is left (5.9, 5.10)
    quarter_busy,  ///< less than a quarter of the CPUs would be busy (5.15.100)
    imb_numa_nr,  ///< not more tasks than imb_numa_nr, and about as many idle CPUs (6.0+)
};

/// What distinguishes the kernels.
struct SlowRules {
    GroupRule group = GroupRule::gt;
    Imbalance imbalance{};
    FitRule fit = FitRule::boost;  ///< GT: whether p fits a CPU
    int fit_margin = kFitMargin;
    NumaRule numa = NumaRule::imb_numa_nr;
    bool allowed_only = true;  ///< GT: statistics over allowed CPUs only
    bool partial_asym = true;  ///< GT: a level with any two capacities is asymmetric (5.13+), else all of them
    bool late_gs = false;  ///< GS of 4.19 and 5.4
    bool est_removed = true;  ///< p's estimate is removed while it runs (5.4+)
    bool est_odd = false;  ///< the estimate's lowest bit is set (4.19 - 5.10)
    bool util_est = true;  ///< the CPU's estimate counts (4.19+)
    bool from_waker = false;  ///< a fork without any group stays on the waker's CPU, not prev (3.8, 3.10)
    bool at_waker = true;  ///< the search starts with the waker's CPU as the answer (4.19+), else prev
    bool walk_stops = false;  ///< the walk ends at a level without LOAD_BALANCE (4.5 - 5.4), else skips it
    bool walk_needs_balance = false;  ///< levels without LOAD_BALANCE do not count (until 5.4)
    bool walk_38 = false;  ///< the walk of 3.8: no early stop; wakeups without affine level are not searched
    // The idlest CPU of a group.
    bool idle_states = true;  ///< idle CPUs by exit latency and idle stamp (4.5+), else by load alone
    bool single_cpu = true;  ///< a group of one CPU is not examined (4.11+)
    bool tie_waker = false;  ///< of equal loads the searching CPU's wins (until 4.12.3)
    enum class Soft : uint8_t { none, last, at_once } soft = Soft::at_once;  ///< idle-policy CPUs: none, 5.4, 5.9+
    // Seeds.
    bool walk_at_prev = false;  ///< seed 2: wakeups on prev itself have an affine level too
    bool fork_hints = false;  ///< seed 5: FORK_AFFINE, FORK_SPREAD
    int affine_divisor = 2;  ///< seed 5: FORK_AFFINE stays while more than this part of the local CPUs is idle
    uint8_t hint = 0;  ///< seed 5: hints of every task, beside its own
    bool avoids_heavy = false;  ///< seed 3
};

/// Hints of seed 5 as prctl gives them, and the one that its posting only describes.
enum Hint : uint8_t { kForkAffine = 1, kForkSpread = 2, kWakeAffine = 4, kWakeHold = 8, kWakeWide = 16 };
constexpr uint8_t kAllHints = 31;

/// The domain walk with all of its outcomes: affine level, level where the slow path starts, or neither.
class SlowWalk : public Step {
  public:
    explicit SlowWalk(const SlowRules& rules);
    bool run(Ctx&) const override;

  private:
    SlowRules rules_;
};

/// Decides when there is a level to start from, and every fork and exec.
class SlowPath : public Step {
  public:
    SlowPath(const SlowRules& rules, const Topology& t);
    bool run(Ctx&) const override;
    /// IDLEST_CPU(g, p, c) of A8. Nothing: no CPU is allowed (3.8 only).
    std::optional<Cpu> idlest_cpu(Ctx& x, const CpuMask& group, Cpu c) const;

  private:
    const CpuMask* idlest_group(Ctx& x, const Domain& d, int pct, Cpu c) const;
    SlowRules rules_;
    std::vector<int16_t> pct_;  ///< per domain: imbalance_pct
};

/// The groups of GL, GS and GT. `group` of a result is nullptr to stay with the local group.
const CpuMask* idlest_group_gl(Ctx& x, const Domain& d, int pct, Cpu c);
const CpuMask* idlest_group_gs(Ctx& x, const SlowRules& rules, const Domain& d, int pct, Cpu c);
const CpuMask* idlest_group_gt(Ctx& x, const SlowRules& rules, const Domain& d, int pct, bool asym, Cpu c);

}  // namespace rewake
