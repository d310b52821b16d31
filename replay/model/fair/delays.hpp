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
    /// As FairRecord.
    Delays(const TaskTable& tasks, FairSettings settings, Machine& machine,
           std::optional<std::vector<bool>> yielders = std::nullopt, bool with_fifo = false)
        : machine_(machine), record_(tasks, settings, machine, std::move(yielders), with_fifo) {
        record_.listen();
        machine_.watch_limits();
    }
    FairRecord& record() { return record_; }
    const FairRecord& record() const { return record_; }
    /// In place of Machine::apply().
    void apply(const Batch& b, Event e, size_t i);
    /// Then: groups that the machine has throttled or let go on. `refilled`: who gets to see what else it says of them.
    template <class F>
    void limits(Ns ts, F refilled) {
        if (!record_.queues().any()) return;
        Machine::LimitNews& news = machine_.limit_news();
        record_.limits(news, ts);
        for (const auto& [g, at] : news.refills) refilled(g, at);
        news.turned.clear(), news.refills.clear();
    }
    /// `p` sleeps and is on its run queue still: who wakes it finds it there, and nothing is placed.
    bool delayed(TaskId p) const { return record_.queues().delayed(p); }
    /// Before the wakeup of `p` is decided: whether it is placed, so far as the queues tell. `certain`: it is, so `p` had left its
    /// run queue by then, whatever they say.
    bool places(TaskId p, bool certain, Ns ts);
    /// Before Machine::on_waking(). The wakeup of `p` was placed, on `chosen`.
    void placed(TaskId p, Cpu chosen, Ns ts);

  private:
    void let_go(Ns ts);
    Machine& machine_;
    FairRecord record_;
};

}  // namespace rewake
