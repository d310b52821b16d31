// SPDX-License-Identifier: GPL-2.0-or-later
// Whom balancing finds on run queues, beside what runs there: who waits and, in 6.12 and 6.13, who sleeps and has not left its
// queue (detach_tasks() and h_nr_running; from 6.14 on can_migrate_task() refuses those).
#pragma once

#include <algorithm>
#include <cstdint>

#include "replay/model/fair/tree.hpp"
#include "replay/model/machine.hpp"

namespace rewake::closed {

/// At one moment.
class Movable {
  public:
    Movable(const FairTree& queues, const Machine& machine)
        : queues_(queues), late_(queues.moves_late() ? &machine.late() : nullptr) {}
    /// Sleepers count, and are moved.
    bool with_late() const { return late_ != nullptr; }
    /// CPUs where there are such sleepers, and those where there is anybody; a word of a mask.
    uint64_t late(int word) const { return late_ ? late_->w[word] : 0; }
    uint64_t cpus(int word) const { return queues_.crowded().w[word] | late(word); }
    bool late(Cpu c) const { return late_ && late_->test(c); }
    bool any(int words) const { return queues_.crowded().any(words) || (late_ && late_->any(words)); }
    /// f(task) of those on `c`, sleepers last, until it is true.
    template <class F>
    bool any_on(Cpu c, F f) const {
        return std::ranges::any_of(queues_.queue(c), f) || (late(c) && queues_.any_late(c, f));
    }

  private:
    const FairTree& queues_;
    const CpuMask* late_;
};

}  // namespace rewake::closed
