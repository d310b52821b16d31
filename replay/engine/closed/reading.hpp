// SPDX-License-Identifier: GPL-2.0-or-later
// Readers (inferred): a task that several others wake, or that has more to do the longer it waited to run, works off messages,
// of which the recording shows only those that found it asleep. How many it worked off between two sleeps is told by its work;
// that its senders sent the others in turn is a guess. Modelled.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <vector>

#include "replay/engine/closed/script.hpp"

namespace rewake::closed {

/// Work of a reader from a sleep to the next, ns x capacity.
struct Pace {
    int64_t first = -1;  ///< for one message, and to sleep and wake up; negative: it is no reader
    int64_t next = 0;  ///< for each further one
};

/// Finds the readers of a recording: at least three tasks wake them, and half of their sleeps come after so little work that
/// they read few messages; or what they do until the next sleep grows with how long they waited for a CPU.
class Reading {
  public:
    explicit Reading(size_t tasks) : tasks_(tasks) {}
    void ran(TaskId t, int64_t work) { tasks_[t.v].work += work; }
    void sleeps(TaskId t);
    void woken(TaskId t, TaskId waker, Ns ts);
    void runs(TaskId t, Ns ts) {
        if (Task& x = tasks_[t.v]; x.waited < 0 && x.woken_at >= 0) x.waited = ts - x.woken_at;
    }
    /// By TaskId.
    std::vector<Pace> readers() const;

  private:
    static constexpr size_t kSeveral = 3, kFewest = 20, kMost = 500;
    static constexpr int64_t kFew = 4;  ///< times the work for one message
    static constexpr double kSure = 4;  ///< standard deviations
    static constexpr int64_t kLong = 4;  ///< times the work for one message: a wait in which others come
    struct Work {
        int64_t work = 0;
        Ns waited = -1;  ///< to run, before that; negative: not known
        auto operator<=>(const Work&) const = default;
    };
    struct Task {
        int64_t work = 0;  ///< since its last sleep
        Ns woken_at = -1, waited = -1;  ///< since then; negative: not yet
        std::vector<Work> works;  ///< of the first sleeps
        std::array<uint32_t, kSeveral> wakers{};
        size_t n_wakers = 0;
    };
    static bool grows(std::vector<Work> works, int64_t first);
    std::vector<Task> tasks_;
};

/// Puts the messages that found their readers awake into the scripts: each is sent by somebody who ran then, and read later on.
/// In a simulation in which all goes as recorded they change nothing. `paces`: by TaskId, see SimOptions; `serves`: see
/// Serving, they answer and send nothing else.
void add_messages(Script& script, const std::vector<Pace>& paces, const std::vector<bool>& serves,
                  const std::vector<std::vector<Stretch>>& stretches);

}  // namespace rewake::closed
