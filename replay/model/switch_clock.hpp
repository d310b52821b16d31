// SPDX-License-Identifier: GPL-2.0-or-later
// What the run queue's clock stood at when a task came on its CPU or left it: averages and quotas go by that, and not by
// the time of sched_switch.
#pragma once

#include <algorithm>

#include "replay/model/ids.hpp"

namespace rewake {

/// Of one CPU.
class SwitchClock {
  public:
    /// `p` was woken here, and the clock read for that.
    void woke(TaskId p, Ns ts) { woken_ = p, woken_at_ = ts; }
    bool last_woke(TaskId p) const { return woken_ == p; }
    TaskId last_woken() const { return woken_; }  ///< nobody: a number that no task has
    /// At the sched_switch at `ts`. `preempted`: by a wakeup, or the idle task was. `capacity`: of the CPU, of 1024.
    Ns at(Ns ts, bool preempted, TaskId next, int32_t capacity) {
        const bool skipped = preempted && last_woke(next) && ts - woken_at_ < kSkip;
        const Ns now = skipped ? woken_at_ : std::max(woken_at_, ts - kRead * 1024 / capacity);
        woken_ = TaskId(kNobody);
        return now;
    }

  private:
    static constexpr uint32_t kNobody = 0xffffffff;
    /// A wakeup that preempts who runs, the idle task or another, updates the clock, and the switch skips that
    /// (rq_clock_skip_update): the wakee runs since its wakeup, and the other one only until then. A wakeup longer ago
    /// was not what the switch followed.
    static constexpr Ns kSkip = 20'000;
    /// Else the clock is read when __schedule() begins. sched_switch comes so much longer after that, once the next task
    /// is picked, than sched_wakeup comes after the clock of a wakeup was read, on a CPU of full capacity. Fitted to the
    /// probed utilisation of all recordings with probes; 250 to 450 ns fit nearly alike.
    static constexpr Ns kRead = 350;
    TaskId woken_{kNobody};
    Ns woken_at_ = 0;
};

}  // namespace rewake
