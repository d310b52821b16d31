// SPDX-License-Identifier: GPL-2.0-or-later
// How a wakee comes to its run queue and from there to its CPU in a simulated window, and what that takes, as recorded
// (engine/closed/costs.hpp; policies.md D2.4, D2.7).
#include <algorithm>
#include <limits>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

/// What it takes to ask for a placement is the waker's time, which queues the wakee on its own CPU. Its script has that in it,
/// unless one of this wakeup and the recorded one asked and the other did not (6.12+: the wakee was on its run queue still).
void Simulation::charge_asking(const Stim& s, const Task& t, TaskId curr) {
    const bool asked = s.cls == DecisionClass::moved || s.cls == DecisionClass::stayed;
    if (!s.chosen_known || (bypasses(t.target) ? !asked : s.cls != DecisionClass::bypass_on_rq)) return;
    Task& waker = tasks_[curr.v];
    if (idle(curr) || waker.state != Task::State::running || !waker.script) return;
    const Ns more = costs_.draw(Path::busy, Relation::same_cpu, true, t.target, t.luck).queue -
                    costs_.draw(Path::busy, Relation::same_cpu, true, other_way(t.target), t.luck).queue;
    const int64_t before = waker.left;
    waker.left = std::max<int64_t>(0, waker.left + more * topo_.cap_orig[waker.cpu.v]);
    added_ += waker.left - before;
}

/// Until the wakee is on its run queue, and from there on. Where the recorded kernel had another CPU queue its wakeups and the
/// policy's does not, the waker does it itself, as with a busy CPU, and the interrupt that follows is that of a preemption.
Cost Simulation::cost_of(const Stim& s, const Task& t, Path path, Relation relation) const {
    if (opt_.queues_wakeups || !opt_.queued_wakeups || relation == Relation::same_cpu)
        return costs_.draw(path, relation, s.in_task, t.target, t.luck);
    return {costs_.draw(Path::busy, Relation::same_llc, true, t.target, t.luck).queue,
            costs_.draw(Path::preempt, Relation::same_llc, true, t.target, t.luck).run};
}

/// The wakee is put on its run queue.
void Simulation::arrive(TaskId id) {
    Task& t = tasks_[id.v];
    if (t.state != Task::State::waking) return;
    const Cpu c = t.cpu;
    fetch(id), fetch(c);
    if (t.by_other && now_ < cpus_[c.v].handling) return push(cpus_[c.v].handling, What::arrive, id.v);
    settle(c);
    if (!limits_.empty()) starve(id, c);
    const Machine::Task& there = machine_.task(id);
    const bool born = there.born && !there.is_attached;
    machine_.on_wakeup(id, t.prio, c, now_);
    fair_.enqueue(c, id, there.weight, born ? FairQueues::How::fork : FairQueues::How::wakeup, now_);
    t.state = Task::State::queued;
    t.queued_at = now_;
    if (fair_.held(id)) {
        t.state = Task::State::held;
        if (!limits_.empty()) for_limits(id, [&](uint16_t g) { stands(g, c); });
        return;
    }
    wait_begins(t);
    CpuState& cpu = cpus_[c.v];
    if (cpu.reserved || cpu.leaving) return;
    Ns free = std::max(now_, cpu.handling), takes = 0;
    if (idle(cpu.curr)) {
        fair_.told_idle(c);
        cpu.resched = -1;  // another interrupt on its way out of idle: it gets there later, and chooses then
        takes = t.to_idle ? t.exit : costs_.draw(Path::idle, t.from, t.by_task, t.target & ~3, t.luck).run;
    } else if ((!limits_.empty() && spent_up(c)) || preempts(c, id)) {
        if (told_lazily(c, t)) {
            cpu.told_lazily = true;
            return joined(c, true);
        }
        // What wakes somebody itself finishes that first.
        const bool in_call = cpu.calling > now_ && t.from != Relation::same_cpu && costs_.has(Path::in_call);
        takes = costs_.draw(in_call ? Path::in_call : Path::preempt, t.from, t.by_task, t.target, t.preempt_luck).run;
        if (in_call) free = std::max(free, cpu.calling);
    } else {
        if (has_ties_) tell_spinners(id);
        if (t.by_other) in_kernel(c);
        return joined(c, !t.by_other && t.from != Relation::same_cpu);
    }
    cpu.takes = static_cast<uint32_t>(std::min<Ns>(takes, std::numeric_limits<uint32_t>::max()));
    request(c, free + takes);
}

}  // namespace rewake::closed
