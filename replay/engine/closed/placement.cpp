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
                             if (fair_.size(c) == 0 && !machine_.expects(c)) freed_.push_back(c);
                         });
    for (Cpu c : freed_) machine_.suppose(c, true);
}

/// The CPU for a wakee.
Simulation::Placed Simulation::place(const Stim& s, Task& t, Cpu waker, TaskId curr, bool stays) {
    const Cpu prev = t.cpu;
    if (opt_.pinned) {
        if (!s.chosen_known) return {prev};
        return {s.chosen, s.cls == DecisionClass::moved || s.cls == DecisionClass::stayed, s.scanned};
    }
    if (s.source == Stim::Source::resume) return {prev};
    if (s.kind == Kind::wake && fair_.delayed(s.p) && fair_.size(prev) > 0) return {prev};  // still queued there
    if (stays && s.kind == Kind::wake) return {prev};
    const TaskTable::Allowed& mine = allowed(t);
    const Task& waking = tasks_[curr.v];
    machine_.task(std::max(curr, s.p, [](TaskId a, TaskId b) { return a.v < b.v; }));  // no reference moves from now on
    const Machine::Task &p = *machine_.known(s.p), &by = *machine_.known(curr);
    machine_.advance(now_, prev, waker, s.p);
    if (irq_) irq_->advance(now_);
    const bool by_idle = idle(curr);
    // The snapshot's mask may not have been in force.
    const bool unforced = s.chosen_known && !mine.mask.test(s.chosen) && s.cls != DecisionClass::pinned &&
                          t.allowed == table_.info(s.p).allowed;
    const TaskTable::Allowed& at_hand = unforced ? table_.masks[0] : mine;
    Wakeup w{.id = s.decision,
             .kind = s.kind,
             .p = s.p,
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
             .curr_one_cpu = !by_idle && waking.one_cpu,
             .curr_exiting = !by_idle && by.exiting,
             .p_idle_policy = policy_of(s.p) == FairPolicy::idle,
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
        w.p_load = machine_.task_load(p, prev, kind);
        w.curr_load = w.curr_is_idle ? 0 : machine_.task_load(by, waker, kind);
    }
    std::erase_if(fresh_, [&](const Fresh& f) {
        return tasks_[f.p.v].state != Task::State::waking || tasks_[f.p.v].cpu != f.chosen;
    });
    overlooked_.clear();
    for (const Fresh& f : fresh_)
        if (f.p != s.p && overlooked(f, waker)) overlooked_.push_back(f.chosen);
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

/// Whether a hint keeps `t` in its LLC, which has no more tasks than CPUs (seed 5, policies.md B5).
bool Simulation::held(const Task& t, Cpu to) const {
    if (!policy_ || !policy_->keeps_in_llc(t.hint) || topo_.share_cache(t.cpu, to)) return false;
    int tasks = 0;
    for_each_cpu(
        topo_.words, [&](int i) { return topo_.llc_span[topo_.llc[t.cpu.v].v].w[i]; },
        [&](Cpu c) {
            tasks += machine_.view().runnable(c);
            for (TaskId id : fair_.queue(c)) tasks -= policy_of(id) == FairPolicy::idle;
            return false;
        });
    return tasks <= topo_.llc_size(t.cpu);
}

/// A task that `to` may take from the busiest queue of the domain; kNone: there is none.
/// `hot`: one that ran there a moment ago, too; `but`: not of these CPUs, nullptr: of all.
TaskId Simulation::pull(Cpu to, int domain, bool newidle, bool hot, const CpuMask* but) {
    const Domain& d = topo_.domains[static_cast<size_t>(domain)];
    TaskId best(kNone);
    size_t most = newidle ? 1 : fair_.size(to) + 1;
    if (machine_.view().runnable(to) == 0) most = 1;
    const Movable movable(fair_, machine_);
    Imbalance groups(machine_.view(), d, to, newidle, movable.with_late());
    const CpuMask &all_hot = fair_.known_hot(now_), &near = topo_.smt[to.v];
    const auto searched = [&](int i) {
        const uint64_t in_vain = (but ? but->w[i] : 0) | (hot ? 0 : all_hot.w[i] & ~near.w[i] & ~movable.late(i));
        return d.span.w[i] & movable.cpus(i) & ~in_vain & (most < 2 ? ~uint64_t{0} : machine_.deep().w[i]);
    };
    for_each_cpu(d.words(), searched, [&](Cpu c) {
        const auto there = static_cast<size_t>(groups.on(c));
        if (c == to || there <= most) return false;
        if (!hot && !movable.late(c) && !near.test(c) && fair_.all_hot(c, now_, opt_.migration_cost)) return false;
        if (!groups.may_pull(c)) return false;
        const bool found = movable.any_on(c, [&](TaskId id) {
            if (!may_pull(id, c, to, hot)) return false;
            best = id;
            return true;
        });
        if (found) most = there;
        return false;
    });
    return best;
}

/// Whether balancing may move `id`, which is on the queue of `from`.
bool Simulation::may_pull(TaskId id, Cpu from, Cpu to, bool hot) const {
    const Task& t = tasks_[id.v];
    const bool late = t.state == Task::State::asleep && !t.leaving && fair_.delayed(id);
    if ((t.state != Task::State::queued && !late) || !allowed(t).mask.test(to)) return false;
    if (held(t, to) || fair_.blocked(id, to)) return false;
    return hot || topo_.smt[to.v].test(from) || !fair_.hot(id, now_, opt_.migration_cost);
}

/// `to` takes tasks from the queue that `first` is on.
void Simulation::pull_all(Cpu to, TaskId first, const Domain& d, bool hot) {
    constexpr size_t kAtOnce = 32;  // sysctl_sched_nr_migrate
    const Cpu from = tasks_[first.v].cpu;
    const Movable movable(fair_, machine_);
    const Imbalance groups(machine_.view(), d, to, false, movable.with_late());
    const auto n = std::min(kAtOnce, static_cast<size_t>(groups.tasks(from)));
    std::vector<TaskId> all;
    movable.any_on(from, [&](TaskId id) {
        if (may_pull(id, from, to, hot)) all.push_back(id);
        return all.size() == n;
    });
    for (TaskId id : all) relocate(id, to);
    if (counted()) out_.periodic_moves += static_cast<int64_t>(all.size());
}

/// `c` has had nothing to run since then: the waiting task that it pulls, perhaps; kNone: none. Asked twice for one sleep, it
/// looks on the same levels.
TaskId Simulation::to_pull(Cpu c, Ns since) {
    const TaskId none(kNone);
    if (opt_.balance != Balance::model && opt_.balance != Balance::recorded_rate) return none;
    if (!Movable(fair_, machine_).any(topo_.words) || machine_.expects(c)) return none;
    const int64_t avg_idle = machine_.view().avg_idle[c.v];
    if (opt_.balance == Balance::model && avg_idle < 500'000) return none;
    const CpuMask* below = nullptr;  // each level looks at other groups than the CPU's own
    const int* const levels = &topo_.levels[c.v * topo_.depth];
    for (size_t k = 0; k < topo_.depth && levels[k] != Topology::kNone; ++k) {
        const Domain& d = topo_.domains[static_cast<size_t>(levels[k])];
        // In this order: of many CPUs the domain is not in the cache.
        if (!topo_.all_affine && !d.load_balance) continue;
        const double rate = opt_.balance == Balance::model ? 1 : opt_.pulls[pull_level(k)][idle_class(avg_idle)];
        if (rate >= 1 || (rate > 0 && uniform(opt_.seed, c.v | k << 16, static_cast<uint64_t>(since)) < rate))
            if (const TaskId id = pull(c, levels[k], true, false, below); id.v != kNone) return id;
        below = &d.span;
    }
    return none;
}

/// Who sleeps leaves its run queue when it would be picked there: then `c` looks again.
void Simulation::new_idle(Cpu c, Ns since) {
    while (fair_.size(c) == 0) {
        const TaskId id = to_pull(c, since++);
        if (id.v == kNone) return;
        relocate(id, c);
        if (counted()) ++out_.newidle_moves;
        if (fair_.size(c) == 0) fair_.drain(c), let_go();
    }
}

/// At a tick: each CPU evens out the numbers of tasks on the levels whose interval is over (rebalance_domains()): so many ms as
/// the level has CPUs, up to twice that while there is nothing to do, and 16 times longer on busy CPUs. One that has only tasks of
/// SCHED_IDLE counts as idle there (5.7+).
void Simulation::periodic() {
    constexpr Ns kMs = 1'000'000;
    for (size_t i = 0; i < cpus_.size(); ++i) {
        const Cpu c(static_cast<uint16_t>(i));
        CpuState& cpu = cpus_[i];
        if (cpu.reserved || cpu.leaving || !topo_.online.test(c)) continue;
        const bool was_idle = idle(cpu.curr);
        if (was_idle && !machine_.view().avail.test(c)) continue;
        const bool only_idle_policy = opt_.at_least(5, 7) && machine_.view().sidle.test(c);
        bool more = false;
        for (size_t k = 0; k < topo_.stack[i].size(); ++k) {
            const int level = topo_.stack[i][k];
            const Domain& d = topo_.domains[static_cast<size_t>(level)];
            CpuState::Balancing& b = cpu.balancing[k];
            const bool still_idle = (was_idle && !more) || only_idle_policy;
            if (!d.load_balance || now_ < b.last + b.interval * (still_idle ? 1 : 16)) continue;
            const int tries = d.numa ? 2 : k > 0;  // sched_domain::cache_nice_tries
            const bool hot = b.failed > tries;
            if (const TaskId id = pull(c, level, false, hot); id.v != kNone) {
                pull_all(c, id, d, hot);
                more = true;
                b.failed = 0;
                b.interval = kMs * d.weight;
            } else {
                if (pull(c, level, false, true).v != kNone) ++b.failed;
                b.interval = std::min(2 * kMs * d.weight, 2 * b.interval);
            }
            b.last = now_;
        }
        if (!more || !was_idle) continue;
        if (fair_.size(c) == 0) continue;  // all of them sleep
        const double u = uniform(opt_.seed, i, static_cast<uint64_t>(now_));
        request(c, now_ + costs_.draw(Path::idle, Relation::same_llc, true, 0, u).run);
    }
}

}  // namespace rewake::closed
