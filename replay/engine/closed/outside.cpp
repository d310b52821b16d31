// SPDX-License-Identifier: GPL-2.0-or-later
// What comes to a simulated machine from outside: timers, interrupt handlers, tasks of higher classes.
#include <algorithm>
#include <utility>

#include "replay/engine/closed/simulation.hpp"
#include "replay/engine/closed/stalls.hpp"

namespace rewake::closed {

void Simulation::set_timer(Cpu c, uint32_t stim) {
    const Stim& s = script_.stims[stim];
    const Ns due = now_ + s.delay;
    if (!s.device) timers_[c.v].push_back({due, stim});
    push(s.device ? answered(script_.stalls, s.p, due) : due, What::outside, stim);
}

/// A timer interrupt on `c`: whoever may be woken by now, though it need not.
void Simulation::serve_timers(Cpu c) {
    std::vector<Timer>& set = timers_[c.v];
    // One that fired was due by then, with its slack: of others that need not be looked up.
    std::erase_if(set, [&](const Timer& t) { return t.due - kTimerSlack <= now_ && fired_at_[t.stim] >= 0; });
    std::ranges::sort(set, {}, &Timer::due);
    Ns at = now_;
    for (const Timer& t : set) {
        if (t.due - kTimerSlack > now_) break;
        push(at += script_.timer_step, What::outside, t.stim);
    }
}

/// A handler has the CPU of whatever runs there: that stands still.
void Simulation::interrupt(uint32_t index) {
    const Interrupt& x = script_.interrupts[index];
    CpuState& cpu = cpus_[x.cpu.v];
    if (irq_) {
        irq_->irq(x.cpu, true, now_);
        push(x.to, What::irq_over, index);
    }
    settle(x.cpu);
    cpu.handling = x.to;
    cpu.since = std::max(cpu.since, x.to);
    if (!idle(cpu.curr) && !cpu.reserved && !cpu.leaving) plan(x.cpu);
    in_kernel(x.cpu);
}

/// A task of a higher class is woken: its CPU is not idle any more.
void Simulation::expect(uint32_t index) {
    const Reservation& r = script_.reservations[index];
    if (machine_.task(r.task).state != Machine::State::running) machine_.on_waking(r.task, r.prio, true, r.cpu);
    if (r.timed && !opt_.absolute_timers) serve_timers(r.cpu);
}

void Simulation::reserve(uint32_t index) {
    const Reservation& r = script_.reservations[index];
    CpuState& cpu = cpus_[r.cpu.v];
    const bool follows = cpu.reserved && script_.reservations[cpu.reservation].next == index;
    if (cpu.reserved && !follows) {
        ++out_.skipped_reservations;
        return;
    }
    if (cpu.leaving) leave(r.cpu);
    const TaskId prev = cpu.curr;
    settle(r.cpu);
    if (!limits_.empty()) spend(r.cpu);
    tasks_[r.task.v].prio = r.prio;
    if (prev != r.task) {
        if (!idle(prev) && !follows) {
            fair_.stop(r.cpu, now_);
            tasks_[prev.v].state = Task::State::queued;
            wait_begins(tasks_[prev.v]);
        }
        // The task of higher class comes from wherever it was; nothing of it is modelled but that it has the CPU.
        const Machine::Task& rt = machine_.task(r.task);
        if (rt.state == Machine::State::running) {
            ++out_.skipped_reservations;
            if (follows)
                leave_reserved(r.cpu);
            else if (!idle(prev))
                switch_to(r.cpu, prev, kRuns, prev);
            return;
        }
        machine_.on_waking(r.task, r.prio, true, r.cpu);
        machine_.on_wakeup(r.task, r.prio, r.cpu, now_);
        if (idle(prev)) machine_.on_idle_state(r.cpu, std::nullopt);
        SwitchColumns row;
        row.n = 1;
        row.ts = &now_, row.cpu = &r.cpu.v;
        const int16_t prev_prio = tasks_[prev.v].prio, prio = r.prio;
        row.prev_task = &prev.v, row.prev_prio = &prev_prio, row.prev_state = follows ? &kSleeps : &kRuns;
        row.next_task = &r.task.v, row.next_prio = &prio;
        machine_.on_switch(row, 0);
    }
    if (irq_) irq_->idle(r.cpu, false, now_);
    cpu.reserved = true;
    cpu.reservation = index;
    cpu.curr = r.task;
    cpu.since = now_;
    cpu.plan = 0;
    cpu.resched = -1;
    if (idle(prev)) retime_sibling(r.cpu);
}

void Simulation::release(uint32_t index) {
    const Reservation& r = script_.reservations[index];
    CpuState& cpu = cpus_[r.cpu.v];
    if (!cpu.reserved || cpu.reservation != index || r.next != kNone) return;
    leave_reserved(r.cpu);
}

/// The task of a higher class that has `c` leaves it.
void Simulation::leave_reserved(Cpu c) {
    cpus_[c.v].reserved = false;
    schedule(c, cpus_[c.v].curr, kSleeps);
}

}  // namespace rewake::closed
