// SPDX-License-Identifier: GPL-2.0-or-later
// Whom balancing finds on run queues, beside what runs there: who waits and, in 6.12 and 6.13, who sleeps and has not left its
// queue (detach_tasks() and h_nr_running; from 6.14 on can_migrate_task() refuses those, which it meets all the same).
#pragma once

#include <cstdint>

#include "replay/model/fair/tree.hpp"
#include "replay/model/machine.hpp"

namespace rewake::closed {

/// At one moment.
class Movable {
  public:
    Movable(const FairTree& queues, const Machine& machine)
        : queues_(queues), late_(machine.late()), moves_late_(queues.settings().moves_late) {}
    /// CPUs where there is anybody; a word of a mask.
    uint64_t cpus(int word) const { return queues_.crowded().w[word] | (moves_late_ ? late_.w[word] : 0); }
    bool any(int words) const { return queues_.crowded().any(words) || (moves_late_ && late_.any(words)); }
    /// f(task) of those on `c`, sleepers of all kernels and what runs included, until it is true.
    template <class F>
    bool any_on(Cpu c, F f) const {
        return queues_.any_by_age(c, late_.test(c), f);
    }
    /// `t`, which any_on() met, may be moved as far as that goes.
    bool takes(TaskId t) const { return moves_late_ || !queues_.delayed(t); }

  private:
    const FairTree& queues_;
    const CpuMask& late_;
    bool moves_late_;
};

}  // namespace rewake::closed
