// SPDX-License-Identifier: GPL-2.0-or-later
// Who wakes whom: record_wakee, wake_wide (policies.md A3) and the gate in front of the affine step (A4).
#pragma once

#include <algorithm>

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// Notes that `curr` woke `p`. `jiffies` wraps like the kernel's.
void record_wakee(PolicyState& s, TaskId curr, TaskId p, uint64_t jiffies, uint32_t hz);

/// Many partners on one side and more than an LLC full of switches on the other.
inline bool wake_wide(uint32_t curr_flips, uint32_t p_flips, int llc_size) {
    const uint64_t most = std::max(curr_flips, p_flips), least = std::min(curr_flips, p_flips);
    const uint64_t factor = static_cast<uint64_t>(llc_size);
    return (least >= factor) & (most >= least * factor);
}

/// Tells why there is a want_affine, or none: wide, or the waker's CPU not allowed.
void tell_affine(Ctx& x);

/// record_wakee: before the core asks the class (4.5/4.6: also for pinned tasks) or in the class hook (4.8+).
class RecordWakee : public Step {
  public:
    explicit RecordWakee(bool pre_core);
    bool run(Ctx&) const override;
};

/// want_affine of 3.8 and 3.10: waker's CPU allowed.
class GateAllowed : public Step {
  public:
    GateAllowed();
    bool run(Ctx&) const override;
};

/// Sets Ctx::sync. want_affine = waker's CPU allowed and not wake_wide. `exiting`: sync is forced off while curr exits
/// (4.19+). `wide_factor`: flips that make wake_wide; 0: size of the waker's LLC.
class Gate : public Step {
  public:
    Gate(bool exiting, int wide_factor);
    bool run(Ctx&) const override;

  private:
    static void tell(Ctx& x, uint32_t curr_flips, uint32_t p_flips, int factor);
    bool exiting_;
    int wide_factor_;
};

/// After Gate, on machines with different capacities (4.8 - 5.4): no affine wakeup when p needs more than the smaller
/// of the two CPUs has, unless that is within an eighth of the largest of the root domain.
class WakeCap : public Step {
  public:
    enum class Rule : uint8_t {
        util_avg,  ///< 4.8 - 4.19
        util_est,  ///< 5.4: the larger of util_avg and estimate
    };
    WakeCap(Rule rule, int margin);
    bool run(Ctx&) const override;

  private:
    Rule rule_;
    int margin_;
};

/// After the affine step (4.19 - 5.10): a wakeup that may be affine makes the waker's CPU the recent one of the *waker*.
class WakerRecent : public Step {
  public:
    WakerRecent();
    bool run(Ctx&) const override;
};

}  // namespace rewake
