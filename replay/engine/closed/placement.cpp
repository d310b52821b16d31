// SPDX-License-Identifier: GPL-2.0-or-later
// Where simulated tasks go: the policy's decisions at wakeups, and load balancing between them.
#include <algorithm>

#include "replay/engine/closed/imbalance.hpp"
#include "replay/engine/closed/movable.hpp"
#include "replay/engine/closed/remembered.hpp"
#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

/// A waker on `waker` does not know of that decision.
bool Simulation::overlooked(const Fresh& f, Cpu waker) const {
    if ((now_ >= f.until || f.waker == waker) && now_ < f.again) return false;
    return opt_.hidden >= 1 || uniform(opt_.seed, f.p.v, static_cast<uint64_t>(now_)) < opt_.hidden;
}

/// A search looks some time after its wakeup began: CPUs that a task of a higher class has left by then are idle for it.
void Simulation::foresee() {
    freed_.clear();
    const Ns by = now_ + opt_.looks;
    events_.each_planned([by](const Happening& e) { return e.at < by; },
                         [this](const Happening& e) {
                             if (e.what != What::release) return;
                             const Cpu c = script_.reservations[e.a].cpu;
                             const CpuState& cpu = cpus_[c.v];
                             if (!cpu.reserved || cpu.reservation != e.a) return;
                             if (script_.reservations[e.a].next != kNone) return;
                             if (fair_.size(c) == 0 && !machine_.expects(c)) freed_.push_back(c);
                         });
    for (Cpu c : freed_) machine_.suppose(c, true);
}

/// The CPU for a wakee.
Simulation::Placed Simulation::place(const Stim& s, Task& t, Cpu waker, TaskId curr, bool stays) {
    const Cpu prev = t.cpu;
    const TaskId id = wakee(s);
    if (opt_.pinned) {
        if (!s.chosen_known) return {prev};
        return {s.chosen, was_asked(s.cls), s.scanned};
    }
    if (s.source == Stim::Source::resume) return {prev};
    if (s.kind == Kind::wake && fair_.delayed(id) && fair_.size(prev) > 0) return {prev};  // still queued there
    if (stays && s.kind == Kind::wake) return {prev};
    const TaskTable::Allowed& mine = allowed(t);
    const Task& waking = tasks_[curr.v];
    machine_.task(std::max(curr, id, [](TaskId a, TaskId b) { return a.v < b.v; }));  // no reference moves from now on
    const Machine::Task &p = *machine_.known(id), &by = *machine_.known(curr);
    machine_.advance(now_, prev, waker, id);
    machine_.set_prio(id, s.prio);
    if (irq_) irq_->advance(now_);
    const bool by_idle = idle(curr);
    // The snapshot's mask may not have been in force.
    const bool unforced = s.chosen_known && !mine.mask.test(s.chosen) && s.cls != DecisionClass::pinned &&
                          t.allowed == table_.info(id).allowed;
    const TaskTable::Allowed& at_hand = unforced ? table_.masks[0] : mine;
    Wakeup w{.id = s.decision,
             .kind = s.kind,
             .p = id,
             .curr = curr,
             .waker = waker,
             .prev = prev,
             .task_cpu = prev,
             .allowed = &at_hand.mask,
             .n_allowed = at_hand.n,
             .sync = s.sync && !by_idle,
             .in_task = s.in_task,
             .curr_is_idle = by_idle,
             // The rows of idle tasks are as a rule far away, and tell nothing.
             .curr_kthread = by_idle || waking.kthread,
             .curr_one_cpu = by_idle || waking.one_cpu,
             .curr_exiting = !by_idle && by.exiting,
             .p_idle_policy = policy_of(id) == FairPolicy::idle,
             .hint = s.hint,
             .jiffies = jiffies_at(now_, opt_.hz),
             .hz = opt_.hz,
             .p_exec_start = p.ever_blocked ? p.blocked_at : 0,
             .migration_cost = opt_.migration_cost};
    if (machine_.keeps_averages()) {
        const bool slow = s.kind != Kind::wake || topo_.balance_wake;
        if (slow || topo_.asym) {
            const Machine::TaskUtil u = machine_.task_util(p, prev);
            w.p_util = u.util, w.p_util_est = u.util_est, w.p_runnable = u.runnable;
        }
        if (slow) machine_.look_at_all();
        const LoadKind kind = policy_->load_kind();
        machine_.select_load(kind);
        w.p_load_avg = p.pelt.load_avg;
        w.p_load = machine_.task_load(id, prev, kind);
        w.curr_load = w.curr_is_idle ? 0 : machine_.task_load(curr, waker, kind);
    }
    std::erase_if(fresh_, [&](const Fresh& f) {
        return tasks_[f.p.v].state != Task::State::waking || tasks_[f.p.v].cpu != f.chosen;
    });
    overlooked_.clear();
    for (const Fresh& f : fresh_)
        if (f.p != id && overlooked(f, waker)) overlooked_.push_back(f.chosen);
    for (Cpu c : overlooked_) machine_.overlook(c, 1);
    foresee();
    const Decision d = policy_->decide(machine_.view(), w, nullptr, s.chosen_known ? s.chosen : prev);
    for (Cpu c : freed_) machine_.look_again(c);
    for (Cpu c : overlooked_) machine_.overlook(c, -1);
    if (d.undecided) return {prev};
    if (d.cpu != prev && counted())
        out_.collided += std::ranges::any_of(fresh_, [&](const Fresh& f) { return f.to_idle && f.chosen == d.cpu; });
    if (d.asked_load_of_wakee(s.kind)) {
        machine_.asked_load(p, prev);
        if (w.sync) machine_.asked_load(by, waker);
    }
    if (opt_.scan_ns > 0 && s.in_task && !idle(curr) && cpus_[waker.v].curr == curr && tasks_[curr.v].script) {
        const int64_t more = opt_.scan_ns * d.scanned * topo_.cap_orig[waker.v];
        tasks_[curr.v].left += more;
        added_ += more;
    }
    return {d.cpu, s.cls != DecisionClass::pinned, d.scanned};
}

/// Moves a waiting task, or one that sleeps and has not left its run queue, to the queue of `to`.
void Simulation::relocate(TaskId id, Cpu to) {
    Task& t = tasks_[id.v];
    const Cpu from = t.cpu;
    for (Cpu c : {from, to}) settle(c), fair_.charge(c, now_);
    if (fair_.delayed(id)) {
        fair_.carry(to, id, now_);
        machine_.on_migrate(id, from, to, now_, to);
        t.cpu = to;
        if (idle(cpus_[to.v].curr) && fair_.size(to) == 0) fair_.drain(to), let_go();
        return moved(from, to);
    }
    wait_ends(t);
    fair_.leave(id);
    machine_.on_migrate(id, from, to, now_, to);
    fair_.enqueue(to, id, machine_.task(id).weight, FairQueues::How::moved, now_);
    t.cpu = to;
    if (t.fresh_wake && t.sample != kNoSample) out_.woken[t.sample].cpu = to.v;
    wait_begins(t);
    moved(from, to);
}

/// A recorded move of balancing. Where the task that moved then runs here, whoever waits in its place moves.
void Simulation::forced_move(uint32_t index) {
    const Move& m = script_.moves[index];
    TaskId id = m.p;
    if (tasks_[id.v].state != Task::State::queued || tasks_[id.v].cpu == m.dest || fair_.blocked(id, m.dest)) {
        id = TaskId(kNone);
        for (TaskId other : fair_.queue(m.orig)) {
            if (tasks_[other.v].state != Task::State::queued || !allowed(tasks_[other.v]).mask.test(m.dest)) continue;
            if (fair_.blocked(other, m.dest)) continue;
            id = other;
            break;
        }
    }
    if (id.v == kNone) {
        if (counted()) ++out_.missed_moves;
        return;
    }
    relocate(id, m.dest);
    if (counted()) ++out_.forced_moves;
    if (m.cause != Cause::newidle) return came(id, m.dest);
    const CpuState& cpu = cpus_[m.dest.v];
    const bool was_idle = idle(cpu.curr);
    if (cpu.reserved || (!was_idle && !preempts(m.dest, id))) return;
    // Who pulled it was going idle and switches to it when that is over; if it runs here, it is about to sleep, and as a rule
    // does so by then.
    request(m.dest, now_ + (was_idle ? opt_.pulled : 2 * opt_.pulled));
}

/// `id` was put on the queue of `to` by another CPU, which takes so long for it.
void Simulation::came(TaskId id, Cpu to, Ns after) {
    if (cpus_[to.v].reserved) return;
    const bool was_idle = idle(cpus_[to.v].curr);
    if (was_idle)
        fair_.told_idle(to);
    else if (!preempts(to, id))
        return;
    const Path path = was_idle ? Path::idle : Path::preempt;
    request(to, now_ + after + costs_.draw(path, Relation::same_llc, true, 0, 0.5).run);
}

}  // namespace rewake::closed
