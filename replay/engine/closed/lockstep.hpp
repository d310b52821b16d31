// SPDX-License-Identifier: GPL-2.0-or-later
// Wakers that wait for their wakees to sleep (inferred): who wakes a futex until somebody was woken, or spins for the mutex that
// the wakee holds until it sleeps, gives its wakeup when the wakee sleeps, however long that took. Modelled.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "replay/engine/closed/script.hpp"
#include "replay/model/paged.hpp"

namespace rewake::closed {

/// A wakee's last look for a reason to stay awake, to its switch-out: so close to a sleep come wakeups that wait for it.
inline constexpr Ns kLockstep = 5'000;

/// Finds the tasks of a recording whose waker waits for them: where it has run for a while without an action, three quarters of its
/// wakeups come when the wakee is about to sleep, or has just fallen asleep.
class Lockstep {
  public:
    explicit Lockstep(size_t tasks) : n_(tasks), tasks_(tasks) {}
    void sleeps(TaskId t, Ns ts) { tasks_[t.v].asleep_at = ts; }
    void runs(TaskId t, Ns ts) { tasks_[t.v].acted_at = ts, tasks_[t.v].asleep_at = -1; }
    void woken(TaskId t, TaskId waker, Ns ts);
    /// By TaskId.
    std::vector<Awaited> awaited() const;

  private:
    static constexpr Ns kBusy = 10'000;  ///< at work for so long it does not go on because its wakee sleeps
    static constexpr int32_t kFewest = 50;
    static constexpr size_t kEnough = 1000;
    struct Task {
        Ns asleep_at = -1;  ///< negative: awake
        Ns acted_at = 0;  ///< got a CPU, or woke somebody
        Ns woken_at = 0;  ///< last, by `by`
        uint32_t by = kNone;  ///< who woke it most, by majority vote
        int32_t votes = 0, wakeups = 0, close = 0;
    };
    size_t n_;
    Paged<Task> tasks_;
    std::map<uint32_t, std::vector<Ns>> waited_;  ///< by wakee: from its wakeup to the sleep of `by` that it ended
};

}  // namespace rewake::closed
