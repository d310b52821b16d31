// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/fair/record.hpp"

#include <utility>

namespace rewake {
namespace {

FairSettings first_come(FairSettings s) {
    s.kind = FairSettings::Kind::fifo;
    return s;
}

}  // namespace

FairRecord::FairRecord(const TaskTable& tasks, FairSettings settings, const Machine& machine,
                       std::optional<std::vector<bool>> yielders, bool with_fifo)
    : table_(tasks),
      machine_(machine),
      fair_(static_cast<size_t>(machine.topo().n_cpus), tasks, settings, machine),
      rivals_(static_cast<size_t>(machine.topo().n_cpus)),
      yielders_(std::move(yielders)),
      sees_yields_(!yielders_ || !yielders_->empty()),
      // CFS (probes on 6.1): of 611 wakees that were far enough behind to take the CPU nine tenths did so within that, and two
      // thirds of the 161 that ran next without being so came later, as what ran went by itself.
      takes_(settings.kind == FairSettings::Kind::cfs ? kTakes : kPromptly),
      yielding_(tasks.tasks.size(), static_cast<size_t>(machine.topo().n_cpus)) {
    if (with_fifo) fifo_.emplace(rivals_.size(), tasks, first_come(settings), machine);
}

void FairRecord::follow(const Batch& b, Event e, size_t i) {
    switch (e) {
        case Event::sw: return on_switch(b.sw, i);
        case Event::wakeup: return on_wakeup(b.wakeup, i);
        case Event::migrate: return on_migrate(b.migrate, i);
        case Event::fork:
            return both([&](FairTree& q) {
                q.charge(Cpu(b.fork.cpu[i]), b.fork.ts[i]);
                q.fork(Cpu(b.fork.cpu[i]), TaskId(b.fork.task[i]), TaskId(b.fork.child[i]));
            });
        default: return;
    }
}

void FairRecord::on_switch(const SwitchColumns& s, size_t i) {
    const Cpu c(s.cpu[i]);
    const TaskId prev(s.prev_task[i]), next(s.next_task[i]);
    const Ns ts = s.ts[i];
    const bool left = idle(prev) || !still_runnable(s.prev_state[i]);
    const bool yielded = sees_yields_ && yielding_.switched(c, prev, !left && !idle(next), ts) && yields(prev);
    if (yielded) rivals_[c.v] = {};  // it went by itself: nobody took the CPU from it
    learn(c, next, !left && !woken_running_.test(c), ts);
    woken_running_.clear(c);
    const Ns now = ts - (left && !idle(prev) ? kSlept : kSwitched);
    both([&](FairTree& q) {
        q.stop(c, now);
        if (!idle(prev) && left && q.queued(prev)) q.dequeue(prev, !blocks_for_good(s.prev_state[i]));
        if (yielded && q.queued(prev)) q.yield(prev);
        if (idle(next)) q.drain(c);
        if (idle(next) || !prio_is_fair(s.next_prio[i])) return q.scheduled(c);
        const bool several = q.size(c) > 1;
        if (q.size(c) > 0 && q.queued(next) && q.cpu(next) == c) {
            const bool right = q.pick(c) == next;  // lets go of the late ones that it meets
            if (&q == &fair_ && left && several) ++survey_.picks, survey_.picks_right += right;
        }
        if (!q.queued(next) || q.cpu(next) != c)
            q.enqueue(c, next, table_.weight(next, s.next_prio[i]), FairQueues::How::moved, now);
        else if (left || q.queued(prev))
            q.learn_pick(c, next);
        q.start(c, next, now);
    });
}

void FairRecord::on_wakeup(const WakeupColumns& w, size_t i) {
    const Cpu c(w.target_cpu[i]);
    const TaskId p(w.task[i]);
    if (!prio_is_fair(w.prio[i])) return;
    if (fair_.queued(p)) {
        if (machine_.curr(c) == p) woken_running_.set(c);
        return;
    }
    const auto how = w.is_new[i] ? FairQueues::How::fork : FairQueues::How::wakeup;
    both([&](FairTree& q) { q.enqueue(c, p, table_.weight(p, w.prio[i]), how, w.ts[i] - kWoken); });
    const std::optional<TaskId> curr = machine_.curr(c);
    if (!curr) return;
    if (idle(*curr)) return both([&](FairTree& q) { q.told_idle(c); });
    const int64_t behind = fair_.behind(*curr, p);
    const bool yes = fair_.preempts(c, p, table_.info(p).policy, table_.info(*curr).policy);
    if (!rivals_[c.v].known && fair_.queued(*curr)) rivals_[c.v] = {*curr, p, w.ts[i], behind, yes, true};
}

void FairRecord::on_migrate(const MigrateColumns& m, size_t i) {
    const TaskId p(m.task[i]);
    const Cpu c(m.dest_cpu[i]);
    sent(c, m.ts[i]);
    const Cause cause = m.cause ? static_cast<Cause>(m.cause[i]) : Cause::unknown;
    const bool newidle = cause == Cause::newidle;
    const std::optional<TaskId> curr = machine_.curr(c);
    both([&](FairTree& q) {
        if (q.cpu(p) == c || !(q.queued(p) || q.delayed(p))) return;
        if (newidle && curr && q.queued(*curr) && q.cpu(*curr) == c) {  // it has left, though it is not switched out
            q.stop(c, m.ts[i]);
            q.dequeue(*curr, true);
        }
        if (newidle && q.size(c) == 0) q.drain(c);
        if (newidle || cause == Cause::periodic) q.taken(p);
        if (q.delayed(p)) return q.carry(c, p, m.ts[i]);
        q.charge(q.cpu(p), m.ts[i]);
        q.leave(p);
        q.enqueue(c, p, table_.weight(p, m.prio[i]), FairQueues::How::moved, m.ts[i]);
    });
}

/// Its dequeue was not delayed if nobody can have been picked since, so it was owed something when it fell asleep, more than it ran
/// before that. How much no event tells: where it happens soon again, twice as much.
void FairRecord::left(TaskId p, Ns slept, Ns ts) {
    if (!fair_.delayed(p)) return;
    both([&](FairTree& q) { q.leave(p); });
    if (ts - slept > kAtOnce) return;
    if (owed_.empty()) owed_.resize(table_.tasks.size());
    Owed& x = owed_[p.v];
    const int64_t lag = ts - std::exchange(x.at, ts) <= kOften ? 2 * x.lag : kLeastOwed;
    both([&](FairTree& q) { q.owe(p, lag); });
    x.lag = fair_.lag(p);
}

void FairRecord::placed(TaskId p, Cpu chosen, Ns ts) {
    if (fair_.queued(p) || chosen == fair_.cpu(p)) return;
    fair_.ticked(fair_.cpu(p), ts);
    both([&](FairTree& q) { q.leave(p); });
}

void FairRecord::limits(const Machine::LimitNews& news, Ns ts) {
    for (const auto& [g, c] : news.turned) {
        const bool held = machine_.held(g, c);
        both([&](FairTree& q) { held ? q.hold(g, c, ts) : q.release(g, c, ts); });
    }
}

void FairRecord::begin_with(const std::vector<int64_t>& leads) {
    both([&](FairTree& q) { q.begin_with(leads); });
}

/// `c` switches to `next`; `preempted`: from a task that would have run on. What came of the first wakeup there since it last
/// switched tells of the vruntimes of wakee and curr.
void FairRecord::learn(Cpu c, TaskId next, bool preempted, Ns ts) {
    const Rival r = std::exchange(rivals_[c.v], {});
    if (!r.known) return;
    const bool taken = preempted && next == r.woken && ts - r.ts <= takes_;
    const bool kept = ts - r.ts > kPromptly || (!preempted && ts - r.ts > kTakes);
    if (!taken && !kept) return;
    ++survey_.preempts[r.expected][taken];
    if (taken == r.expected) fair_.as_expected(r.curr, r.woken, r.behind, taken);
    if (taken) return fair_.learn_preempted(r.curr, r.woken, r.behind);
    if (!r.expected) return;
    fair_.scheduled(c);  // nobody told it to go
    fair_.learn_kept(r.curr, r.woken, r.behind);
}

}  // namespace rewake
