// SPDX-License-Identifier: GPL-2.0-or-later
// Delayed dequeues (DELAY_DEQUEUE, 6.12+; policies.md A11): who sleeps before its turn stays on its run queue and counts in
// what placement reads there, its load and nr_running. No event tells; it follows from the queues of the fair class. Modelled.
#pragma once

#include "replay/model/fair/record.hpp"
#include "replay/model/machine.hpp"

namespace rewake {

/// Keeps a machine that follows a recording told of them.
class Delays {
  public:
    Delays(const TaskTable& tasks, FairSettings settings, Machine& machine)
        : machine_(machine), record_(tasks, settings, machine, std::nullopt) {
        record_.listen();
        machine_.watch_limits();
    }
    /// In place of Machine::apply().
    void apply(const Batch& b, Event e, size_t i);
    /// `p` sleeps and is on its run queue still: who wakes it finds it there, and nothing is placed.
    bool delayed(TaskId p) const { return record_.queues().delayed(p); }
    /// Before Machine::on_waking(). The wakeup of `p` was placed, on `chosen`. `certain`: as of FairRecord::placed().
    void placed(TaskId p, Cpu chosen, Ns ts, bool certain);

  private:
    void let_go(Ns ts);
    Machine& machine_;
    FairRecord record_;
};

}  // namespace rewake
