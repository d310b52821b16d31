// SPDX-License-Identifier: GPL-2.0-or-later
// Tasks that yield (inferred): sched_yield() leaves no event but a switch from a task that could run on, for which nothing
// else accounts. Where nobody else waits for the CPU it leaves none at all. Modelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/model/ids.hpp"

namespace rewake {

/// Finds the tasks of a recording that yield: half of the times that they are switched out while they can run on, nobody was
/// sent to that CPU since they got it or shortly before, and no slice is over so soon.
class Yielding {
  public:
    Yielding(size_t tasks, size_t cpus) : tasks_(tasks), cpus_(cpus) {}
    /// Somebody is sent to `c`, or moved there.
    void sent(Cpu c, Ns ts) { cpus_[c.v].sent = ts; }
    /// `goes_on`: `prev` can, and gives way to another task. Whether it does so though nobody was sent there since it came.
    bool switched(Cpu c, TaskId prev, bool goes_on, Ns ts);
    /// `t` does, as far as is known by now.
    bool yields(TaskId t) const {
        const Task& task = tasks_[t.v];
        return task.yields >= kFewest && 2 * task.yields >= task.gave_way;
    }
    /// By TaskId.
    std::vector<bool> yielders() const;

  private:
    static constexpr Ns kArrives = 20'000;  ///< who is sent is on the run queue by then
    static constexpr Ns kSlice = 500'000;  ///< no slice is shorter
    static constexpr int64_t kFewest = 50;
    struct Task {
        int64_t gave_way = 0, yields = 0;
    };
    struct CpuState {
        Ns sent = 0, came = 0;
    };
    std::vector<Task> tasks_;
    std::vector<CpuState> cpus_;
};

}  // namespace rewake
