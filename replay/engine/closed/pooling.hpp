// SPDX-License-Identifier: GPL-2.0-or-later
// Pools of threads (inferred): threads of a process that wait for any work there is, as a runtime's have it (Go's Ms). Who of
// them is woken tells nothing of the work: here, too, one that sleeps takes what comes to one that is awake. Modelled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/engine/closed/script.hpp"

namespace rewake::closed {

/// Finds the pools of a recording: of the wakeups that threads of a process give each other, at least 50, more than twice as many
/// as by chance go to the one that fell asleep last; and half of those that are woken so, three at least, have three wakers.
class Pooling {
  public:
    explicit Pooling(size_t tasks) : tasks_(tasks) {}
    /// By TaskId, of those that are known; negative: that of this task is not.
    void processes(const std::vector<int64_t>& of);
    void sleeps(TaskId t);
    /// `waker`: by a task, nullptr: from outside.
    void woken(TaskId t, const TaskId* waker);
    /// By TaskId: the number of its pool; kNone: it is in none.
    std::vector<uint32_t> pools() const;

  private:
    static constexpr size_t kSeveral = 3;
    static constexpr int64_t kFewest = 50;
    static constexpr double kOften = 2;  ///< times as by chance
    struct Task {
        uint32_t process = kNone;
        uint32_t n_wakers = 0;  ///< different ones of its process, of the first few
        std::array<uint32_t, kSeveral> wakers{};
    };
    struct Process {
        std::vector<uint32_t> asleep;  ///< its threads, the last one last
        int64_t given = 0, last = 0;  ///< wakeups among its threads; of these, to who fell asleep last
        double chance = 0;  ///< those expected by chance
    };
    std::vector<Task> tasks_;
    std::vector<Process> processes_;
};

}  // namespace rewake::closed
