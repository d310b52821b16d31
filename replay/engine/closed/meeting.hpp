// SPDX-License-Identifier: GPL-2.0-or-later
// Barriers (inferred): tasks that wait until all of them have come. Who comes last wakes the others, and that may be another one
// than in the recording. Modelled.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "replay/engine/closed/script.hpp"

namespace rewake::closed {

/// Finds the tasks of a recording that meet: again and again one of them wakes all the others before it sleeps itself, and which
/// of them it is changes.
class Meeting {
  public:
    explicit Meeting(size_t tasks) : bursts_(tasks), given_(tasks) {}
    void sleeps(TaskId t) { close(t.v); }
    void woken(TaskId t, TaskId waker);
    /// By TaskId: number of the group that it belongs to; kNone: none.
    std::vector<uint32_t> groups() const;

  private:
    static constexpr size_t kLeast = 3, kMost = 256;  ///< tasks of a group
    static constexpr size_t kSets = 4096;  ///< a barrier's tasks are one of the first
    static constexpr int64_t kFewest = 20;
    struct Set {
        int64_t times = 0;
        std::vector<bool> woke;  ///< by place in the set: it has woken the others
    };
    void close(uint32_t waker);
    std::vector<std::vector<uint32_t>> bursts_;  ///< by waker: whom it has woken since it slept, each once
    std::vector<int64_t> given_;  ///< by waker: bursts
    std::map<std::vector<uint32_t>, Set> sets_;  ///< waker and wakees, ascending
};

/// Puts the meetings into the scripts of those that meet, in place of the sleeps that they end and of the wakeups that end them.
/// `groups`: by TaskId; `stretches` of those tasks are used up.
void add_meetings(Script& script, const std::vector<uint32_t>& groups, std::vector<std::vector<Stretch>>& stretches);

}  // namespace rewake::closed
