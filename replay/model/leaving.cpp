// SPDX-License-Identifier: GPL-2.0-or-later
// A task that is woken on another CPU leaves the averages of its old one when it moves (sched_migrate_task,
// migrate_task_rq_fair), and joins those of the new one when it is queued there; one that execs does both while it runs
// (sched_exec). One that exits leaves for good.
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

/// It decays as far as the averages of its CPU did; what that leaves out of an idle time comes after, if at all.
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
    if (idle && table_.leavers_decay)
        t.pelt.accrue(t.group ? groups_.idle_clock(t.group, t.attached, now) : now, 0, false);
    t.pelt.fresh = fresh;
}

void Machine::move_running(TaskId p, Cpu c) {
    Task& t = tasks_[p.v];
    if (t.state != State::running || !t.counted || t.cpu == c) return;
    CpuState &from = cpus_[t.cpu.v], &to = cpus_[c.v];
    accrue(t.cpu), accrue(c);
    if (t.weight) accrue(t, true);
    view_.nr[t.cpu.v] -= 1, view_.nr[c.v] += 1;
    from.idle_h -= t.sidle, to.idle_h += t.sidle;
    if (t.weight) {
        view_.fair[t.cpu.v] -= 1, view_.fair[c.v] += 1;
        from.util_est -= t.util_est, to.util_est += t.util_est;
        if (t.group) {
            groups_.dequeue(t.group, at(t.cpu), t.weight, &t.pelt);
            groups_.attach(t.group, at(c), t.pelt, t.weight), groups_.enqueue(t.group, at(c), t.weight);
        } else {
            view_.cfs_nr[t.cpu.v] -= 1, view_.cfs_nr[c.v] += 1;
            load(LoadKind::weight)[t.cpu.v] -= t.weight, load(LoadKind::weight)[c.v] += t.weight;
            from.pelt.waiting -= t.pelt.load_avg, to.pelt.waiting += t.pelt.load_avg;
            from.pelt.detach(t.pelt), to.pelt.attach(t.pelt);
        }
        t.attached = c;
        publish(t.cpu), publish(c);
    }
    if (from.curr == p) from.curr = TaskId(t.cpu.v);
    if (is_idle_task(to.curr)) to.curr = p;
    refresh(std::exchange(t.cpu, c));
    refresh(c);
}

void Machine::on_exit(TaskId p, Ns ts) {
    grow(p);
    now_ = std::max(now_, ts);
    tasks_[p.v].exiting = true;
    n_exiting_ += !std::exchange(tasks_[p.v].rejoins, true);
}

/// Late in its exit a task leaves the group of its session: it leaves its queue and joins that of the root group, mostly the
/// same one (sched_autogroup_exit_task(), all kernels up to 7.2). Its memory is given up first (7.2: all of it after
/// sched_process_exit), its parent is woken next, and within some 30 us it is gone; who changes groups is asked to reschedule.
/// So that is taken to be when it wakes its parent or, before that, gives up its CPU.
void Machine::notifies(Cpu waker, TaskId wakee) {
    const CpuState& cpu = cpus_[waker.v];
    if (!cpu.curr_known || is_idle_task(cpu.curr)) return;
    Task& t = tasks_[cpu.curr.v];
    if (!t.rejoins || t.parent != wakee.v) return;
    accrue(waker);
    rejoin(t);
}

/// The averages of its CPU are up to date.
void Machine::rejoin(Task& t) {
    t.rejoins = false;
    --n_exiting_;
    if (!averages_ || t.state != State::running || !t.is_attached || t.attached != t.cpu || t.weight == 0) return;
    if (t.group) groups_.update(t.group, at(t.cpu), false);
    accrue(t, true);
    if (!t.group) return queue(t, t.cpu).rejoin(t.pelt);
    groups_.rejoin(t.group, at(t.cpu), t.weight, t.pelt);
    publish(t.cpu);
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
