// SPDX-License-Identifier: GPL-2.0-or-later
// For whom softirqs of a recording run.
#pragma once

#include <cstddef>
#include <vector>

#include "replay/model/ids.hpp"

namespace rewake::closed {

/// Whether softirqs are the second half of an interrupt or run for what is current there: a packet to a task of the same machine.
class SoftirqContext {
  public:
    explicit SoftirqContext(size_t cpus) : interrupted_at_(cpus, kLongAgo) {}
    /// An interrupt's handler begins or ends.
    void on_irq(Cpu c, Ns ts) { interrupted_at_[c.v] = ts, saw_any_ = true; }
    bool for_curr(Cpu c, Ns ts) const { return saw_any_ && ts - interrupted_at_[c.v] > kSecondHalf; }

  private:
    static constexpr Ns kLongAgo = -1'000'000'000'000;
    static constexpr Ns kSecondHalf = 20'000;  ///< so soon after an interrupt a softirq is its second half
    std::vector<Ns> interrupted_at_;  ///< when one last began or ended, by CPU
    bool saw_any_ = false;  ///< the recording has them
};

}  // namespace rewake::closed
