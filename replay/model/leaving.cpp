// SPDX-License-Identifier: GPL-2.0-or-later
// A task that is woken on another CPU leaves the averages of its old one when it moves (sched_migrate_task,
// migrate_task_rq_fair), and joins those of the new one when it is queued there. One that exits leaves for good.
#include <algorithm>
#include <utility>

#include "replay/model/machine.hpp"

namespace rewake {
namespace {

/// An update of a CPU's averages comes so long before the sched_switch or sched_wakeup that tells of it, on a CPU of full
/// capacity: what leaves in between is in them until the next one. In recordings with probes 1 to 2.5 us fit alike.
constexpr Ns kTold = 1'500;

}  // namespace

void Machine::leave_by_migration(Task& t, Cpu to) {
    if (!averages_ || !t.is_attached || t.attached == to || std::exchange(t.left, true)) return;
    leave(t, kTold * 1024 / topo_.cap_orig[t.attached.v]);
}

/// It decays as far as the averages of its CPU did; what that leaves out of an idle time comes after (6.0+).
void Machine::leave(Task& t, Ns told) {
    catch_up(t.attached, last_tick());
    CpuState& from = cpus_[t.attached.v];
    const bool idle = from.curr_known && is_idle_task(from.curr);
    const bool fresh = t.pelt.fresh;
    t.pelt.accrue(queue(t, t.attached).at, 0, false);
    if (t.group)
        groups_.detach_later(t.group, t.attached, t.pelt);
    else
        from.leaving.push_back({now_ + told, t.pelt});
    const Ns now = pelt_clock(t.attached);
    if (idle) t.pelt.accrue(t.group ? groups_.idle_clock(t.group, t.attached, now) : now, 0, false);
    t.pelt.fresh = fresh;
}

/// From sched_process_exit on a task belongs to no session's group: it leaves its queue and joins that of the root group,
/// mostly the same one (sched_autogroup_exit_task(), all kernels up to 7.2).
void Machine::on_exit(TaskId p, Ns ts) {
    grow(p);
    Task& t = tasks_[p.v];
    t.exiting = true;
    if (!averages_ || t.group || t.state != State::running || !t.is_attached || t.attached != t.cpu || t.weight == 0)
        return;
    now_ = ts;
    accrue(t.cpu), accrue(t, true);
    cpus_[t.cpu.v].pelt.rejoin(t.pelt);
}

/// The averages of a CPU are updated: whoever has left them until then is taken off.
void Machine::take_off(CpuState& s) {
    const Ns now = std::max(now_, switch_at_);
    std::erase_if(s.leaving, [&](const Leaving& x) {
        if (now < x.at) return false;
        s.pelt.detach_later(x.pelt);
        return true;
    });
}

}  // namespace rewake
