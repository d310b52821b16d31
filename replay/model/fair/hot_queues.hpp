// SPDX-License-Identifier: GPL-2.0-or-later
// Run queues of which balancing is known to find nobody to take: all that wait there ran a moment ago (task_hot()). A search for
// a task to pull passes them by without a look, so that it does not grow with the queues of the machine.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "replay/model/ids.hpp"
#include "replay/model/mask.hpp"

namespace rewake {

/// A set of CPUs, each for some time; one may leave it earlier than that. Times of at() never go back.
class HotQueues {
  public:
    /// `c` is in the set, at most until then.
    void set(Cpu c, Ns until, Ns now) {
        const Ns step = std::min(until >> kStepBits, (now >> kStepBits) + kSteps - 1);
        if (step <= now >> kStepBits) return;
        all_.set(c);
        leave_[static_cast<size_t>(step) % kSteps].set(c);
    }
    void clear(Cpu c) { all_.clear(c); }
    const CpuMask& at(Ns now) {
        const Ns step = now >> kStepBits;
        if (step > step_) pass(step);
        return all_;
    }

  private:
    static constexpr int kStepBits = 17;  ///< 131 us: a quarter of how long a task is hot
    static constexpr Ns kSteps = 8;
    void pass(Ns step) {
        for (Ns k = std::max(step_, step - kSteps) + 1; k <= step; ++k) {
            CpuMask& gone = leave_[static_cast<size_t>(k) % kSteps];
            for (int i = 0; i < kMaskWords; ++i) all_.w[i] &= ~gone.w[i];
            gone = {};
        }
        step_ = step;
    }

    CpuMask all_;
    std::array<CpuMask, kSteps> leave_;  ///< by step modulo kSteps: who leaves when it begins
    Ns step_ = std::numeric_limits<Ns>::min();
};

}  // namespace rewake
