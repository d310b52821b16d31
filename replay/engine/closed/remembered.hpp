// SPDX-License-Identifier: GPL-2.0-or-later
// What the recorded kernel remembers of tasks when a window begins: wakee_flips and whom they woke last, by the rule (policies.md
// A3) from an inferred hypothesis on, and recent_used_cpu (A6), inferred from where its search moved them.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/engine/closed/script.hpp"
#include "replay/engine/flips.hpp"
#include "replay/model/paged.hpp"
#include "replay/policies/policy.hpp"

namespace rewake::closed {

inline uint64_t jiffies_at(Ns ts, uint32_t hz) { return static_cast<uint64_t>(ts) / (1'000'000'000 / hz); }

class Remembered {
  public:
    /// `first`: what tasks older than the recording begin with; `recent`: the kernel's search sets recent_used_cpu of the wakee
    /// (5.14+; before, of the waker).
    Remembered(size_t tasks, const FlipHypothesis& first, uint32_t hz, bool recent);
    /// The recording begins at `ts`. `rates`: flip_rates().
    void begin(Ns ts, const std::vector<float>& rates);
    /// The recorded kernel decided a wakeup, a fork or an exec. `busy`: the CPU that it chose.
    void decided(const Opening& o, Ns ts, bool busy);
    void fork(TaskId parent, TaskId child);
    /// By TaskId, as of now.
    Paged<PolicyState::Task> tasks() const;
    /// A page of tasks (model/paged.hpp).
    void forget(size_t page) {
        if (page < there_.size()) there_[page] = false;  // else nobody of it was ever touched
    }

  private:
    void touch(TaskId t);
    FlipHypothesis first_;
    uint32_t hz_;
    bool recent_;
    PolicyState state_;
    PolicyState::Task unborn_;
    std::vector<uint8_t> there_;  ///< by page: some of them are not as unborn ones
};

/// `own` begins with these. Where recent_used_cpu is not known, it keeps its own.
void remember(PolicyState& own, const Paged<PolicyState::Task>& tasks);

}  // namespace rewake::closed
