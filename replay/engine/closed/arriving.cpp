// SPDX-License-Identifier: GPL-2.0-or-later
// How a wakee comes to its run queue and from there to its CPU in a simulated window, and what that takes, as recorded
// (engine/closed/costs.hpp; policies.md D2.4, D2.7).
#include <algorithm>
#include <limits>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

/// What a wakeup takes of its waker: until the wakee is on its run queue where it does that itself, and about as long as the
/// search where it leaves that to the wakee's CPU (where that is not told, half of the other).
Ns Simulation::of_waker(bool by_other, bool asked, Ns queue, int scanned) const {
    const Ns all = queue + static_cast<Ns>(opt_.search_ns[true] * scanned);
    if (!by_other) return all;
    return opt_.looks == 0 ? all / 2 : asked ? opt_.looks : 0;
}

/// The same of a recorded wakeup.
Ns Simulation::of_recorded_waker(const Stim& s, double luck) const {
    const Relation there = relation_of(topo_, s.waker, s.chosen);
    const uint8_t target = target_of(0, topo_.cap_orig[s.chosen.v], s.chosen != s.prev, !was_asked(s.cls));
    return of_waker(s.by_other, was_asked(s.cls), costs_.draw(Path::busy, there, true, target, luck).queue, s.scanned);
}

/// `waker` has given `s`, which woke somebody as `given_` says: its script has in it what the recorded wakeup took. Which of a
/// reader's messages wake it is made up, so with them nothing is charged.
void Simulation::charge_waker(const Stim& s, Task& waker) {
    const Given& g = *given_;
    if (!s.in_task || s.hidden || !s.chosen_known || tasks_[wakee(s).v].pace.first > 0) return;
    Ns more = 0;
    if (s.by_other != g.by_other)
        more = g.took - of_recorded_waker(s, g.luck);
    else if (const bool asked = was_asked(s.cls), asks = !bypasses(g.target);
             g.from == Relation::same_cpu && (asks ? s.cls == DecisionClass::bypass_on_rq : asked))
        // 6.12+: the wakee was on its run queue still, and is not here, or the other way round.
        more = costs_.draw(Path::busy, Relation::same_cpu, true, g.target, g.luck).queue -
               costs_.draw(Path::busy, Relation::same_cpu, true, other_way(g.target), g.luck).queue;
    const int64_t before = waker.left;
    waker.left = std::max<int64_t>(0, before + more * topo_.cap_orig[waker.cpu.v]);
    if (!g.by_other && goes_to_sleep(waker)) waker.left = std::max(waker.left, work_in(g.took, speed(waker.cpu)));
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

/// What runs on `c` has woken who takes its CPU at `at`: it does nothing else before that call is over.
void Simulation::leaves_own_call(Cpu c, Ns at) {
    CpuState& cpu = cpus_[c.v];
    Task& t = tasks_[cpu.curr.v];
    cpu.own_call = true;
    if (cpu.plan == 0 || !t.script || !goes_to_sleep(t)) return;
    const int64_t before = t.left;
    t.left = std::max(before, work_in(at - now_ + 1, speed(c)));
    if (t.left == before) return;
    added_ += t.left - before;
    plan(c);
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
        if (t.from == Relation::same_cpu && t.by_task) leaves_own_call(c, free + takes);
    } else {
        if (has_ties_) tell_spinners(id);
        if (t.by_other) in_kernel(c);
        return joined(c, !t.by_other && t.from != Relation::same_cpu);
    }
    cpu.takes = static_cast<uint32_t>(std::min<Ns>(takes, std::numeric_limits<uint32_t>::max()));
    request(c, free + takes);
}

}  // namespace rewake::closed
