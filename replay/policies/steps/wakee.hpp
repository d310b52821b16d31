// SPDX-License-Identifier: GPL-2.0-or-later
// Who wakes whom: record_wakee, wake_wide (policies.md A3) and the gate in front of the affine step (A4).
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// Notes that `curr` woke `p`. `jiffies` wraps like the kernel's.
void record_wakee(PolicyState& s, TaskId curr, TaskId p, uint64_t jiffies, uint32_t hz);

/// Many partners on one side and more than an LLC full of switches on the other.
bool wake_wide(uint32_t curr_flips, uint32_t p_flips, int llc_size);

/// record_wakee: before the core asks the class (4.5/4.6: also for pinned tasks) or in the class hook (4.8+).
class RecordWakee : public Step {
  public:
    explicit RecordWakee(bool pre_core);
    bool run(Ctx&) const override;
};

/// want_affine = waker's CPU allowed and not wake_wide. `exiting`: sync is forced off while curr exits (4.19+).
class Gate : public Step {
  public:
    explicit Gate(bool exiting);
    bool run(Ctx&) const override;

  private:
    bool exiting_;
};

}  // namespace rewake
