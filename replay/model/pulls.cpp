// SPDX-License-Identifier: GPL-2.0-or-later
// Tasks that a balance moves: all are taken off their run queue, each with its sched_migrate_task, before the first is put on
// the new one (detach_tasks, attach_tasks).
#include <algorithm>
#include <optional>
#include <utility>

#include "replay/model/machine.hpp"

namespace rewake {

/// `by` takes it off its run queue, once its own averages are up to date (sched_balance_newidle()).
void Machine::pull(TaskId id, Task& t, Cpu to, Cpu by, Ns ts) {
    if (by == to && groups_.any() && pulled_.empty()) update_blocked(by);
    unlink(id, t);
    drop_pending(t);
    const bool moves = t.counted && t.cpu != to;
    uncount(t, moves);
    if (moves && averages_ && t.is_attached) {
        if (!t.group) cpus_[t.attached.v].pelt.detach(t.pelt);  // else uncount() has taken it off
        publish(t.attached);
        t.left = true;
    }
    t.cpu = to;
    t.state = State::waking;
    const Ns at = ts + pulling_ * 1024 / topo_.cap_orig[by.v];
    for (Pulled& x : pulled_)
        if (x.by == by) x.at = at;
    pulled_.push_back({id, to, by, at});
}

/// Puts those on their new run queue that are due, or all that `by` pulled, which does something else now.
void Machine::put_pulled(std::optional<Cpu> by) {
    const Ns now = now_;
    std::erase_if(pulled_, [&](const Pulled& x) {
        if (by ? x.by != *by : now < x.at) return false;
        Task& t = tasks_[x.p.v];
        now_ = std::min(now, x.at);
        if (t.state == State::waking && !t.pending && !t.counted && t.cpu == x.to) enqueue(x.p, t, x.to);
        return true;
    });
    now_ = now;
}

}  // namespace rewake
