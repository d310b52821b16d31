// SPDX-License-Identifier: GPL-2.0-or-later
// SCAN_3, the idle search of 4.8 - 5.10 in three passes: core, CPU, siblings of target (policies.md A7).
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// What distinguishes the kernels.
struct Scan3Rules {
    bool sis_prop = true;           ///< the CPU pass is bounded by avg_idle and the average scan cost (4.12.3+)
    bool counts_disallowed = true;  ///< CPUs that are not allowed count against the bound (until 4.19)
    bool soft_last = false;         ///< 5.4: a CPU with only idle-policy tasks is taken when nothing better is met
    bool siblings_in_llc = false;   ///< the sibling pass stays in the LLC domain (5.9.2+)
    int idle_divisor = 512;         ///< part of avg_idle that a scan may cost
    int least = 4;                  ///< smallest bound
};

/// Pass 1: the first wholly idle core of LLC and allowed in wrap order from target, while has_idle_cores is set;
/// clears it otherwise.
class CorePass : public Step {
  public:
    /// `inputs`: that the choice of the sibling looks at besides.
    explicit CorePass(const std::string& more = {}, uint32_t inputs = 0);
    bool run(Ctx&) const final;

  protected:
    /// Which CPU of the idle core whose sibling `first` was met to take.
    virtual Cpu pick(Ctx&, Cpu first) const { return first; }
};

/// Pass 2: the first usable CPU from target. Writes the average scan cost of the waker's CPU.
class CpuPass : public Step {
  public:
    explicit CpuPass(Scan3Rules rules);
    bool run(Ctx&) const override;

  private:
    Scan3Rules rules_;
};

/// Pass 3: siblings of target.
class SiblingPass : public Step {
  public:
    explicit SiblingPass(Scan3Rules rules);
    bool run(Ctx&) const override;

  private:
    Scan3Rules rules_;
};

/// SIS_PROP for a scan of `weight` CPUs: one more than may be examined.
int sis_prop_bound(Ctx& x, const Scan3Rules& rules, int weight);

/// A CPU pass of `weight` CPUs that examines `examined` of them unless the bound runs out: by each of View::scan_clocks
/// with which it comes to that end, averages its cost over the earlier ones. Tells which come to the same.
void count_scan(Ctx& x, const Scan3Rules& rules, int weight, int examined);

}  // namespace rewake
