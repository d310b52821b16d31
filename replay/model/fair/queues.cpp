// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/fair/queues.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace rewake {

FairSettings FairSettings::of(int major, int minor, int cpus, Ns tick) {
    FairSettings s;
    const auto at_least = [&](int a, int b) { return major > a || (major == a && minor >= b); };
    const Ns k = std::bit_width(static_cast<unsigned>(std::clamp(cpus, 1, 8)));
    s.kind = at_least(6, 6) ? Kind::eevdf : Kind::cfs;
    s.latency *= k, s.granularity *= k, s.wakeup_granularity *= k;
    s.slice = (at_least(6, 12) ? 700'000 : 750'000) * k;
    s.delays = at_least(6, 12);
    s.moves_late = s.delays && !at_least(6, 14);
    s.counts_cores = at_least(6, 6);
    s.boosts = at_least(6, 5);
    s.forfeits = at_least(6, 12);
    s.tick = tick;
    s.goes_unprotected = at_least(6, 12) && !at_least(6, 17);  // source of 6.12.117; later ones ask something else
    s.lag_by_tick = at_least(6, 18);
    s.lazy = at_least(7, 0);  // from there on kernels are preemptible, lazily
    s.looks_on = s.forks_wait = s.keeps_lag = at_least(7, 0);  // source of 7.2.13, not of 6.12.95
    s.late_clock = !at_least(6, 18);  // as measured: 6.12 does not, 7.2 does
    return s;
}

FairQueues::FairQueues(size_t cpus, size_t tasks, FairSettings settings)
    : set_(settings), cpus_(cpus), roots_(cpus), tasks_(tasks) {}

bool FairQueues::shift(TaskId id, int64_t by) {
    Task& t = tasks_[id.v];
    if (!t.guessed || set_.kind != FairSettings::Kind::cfs) return false;
    t.v += by;
    if (t.lead + by >= t.least_lead && t.lead + by <= t.most_lead) t.lead += by;
    return true;
}

/// `first` had the better claim, by so much: its vruntime was no greater than that, and the other's no smaller.
void FairQueues::bound(TaskId first, TaskId second, int64_t by) {
    Task &a = tasks_[first.v], &b = tasks_[second.v];
    a.most_lead = std::min(a.most_lead, a.lead + by);
    b.least_lead = std::max(b.least_lead, b.lead - by);
}

void FairQueues::as_expected(TaskId curr, TaskId woken, int64_t behind, bool taken) {
    if (set_.kind != FairSettings::Kind::cfs) return;
    const int64_t over = behind - scaled(set_.wakeup_granularity, tasks_[woken.v].weight);
    if (taken)
        bound(woken, curr, over);
    else
        bound(curr, woken, -over);
}

void FairQueues::learn_preempted(TaskId curr, TaskId woken, int64_t behind) {
    if (Task& t = tasks_[woken.v]; set_.kind == FairSettings::Kind::eevdf) {
        const bool known = !t.guessed || t.lead != 0;
        t.guessed = false;
        if (known) return;
        t.lead = most_lag(t) / 2;  // all that is known: it was positive
        t.v -= t.lead, t.deadline -= t.lead;
        return;
    }
    const int64_t lacks = scaled(set_.wakeup_granularity, tasks_[woken.v].weight) + 1 - behind;
    if (lacks <= 0) return;
    const Task& t = tasks_[woken.v];
    const int64_t floor = cpus_[t.cpu.v].min_v - set_.latency / 2;  // where most are that take the CPU
    if (!shift(woken, -std::max(lacks, t.v - floor))) shift(curr, lacks);
}

void FairQueues::learn_kept(TaskId curr, TaskId woken, int64_t behind) {
    if (Task& t = tasks_[woken.v]; set_.kind == FairSettings::Kind::eevdf) {
        const Queue& q = cpus_[t.cpu.v];
        const bool alone = q.queue.size() + q.late.size() == 2;  // of several, others may have had a better claim
        if (behind > 0 && t.on && alone) t.v += behind, t.deadline += behind;
        return;
    }
    const int64_t over = behind - scaled(set_.wakeup_granularity, tasks_[woken.v].weight);
    if (over > 0 && !shift(woken, behind)) shift(curr, -over);  // most that do not are as far as what runs
}

void FairQueues::learn_pick(Rq c, TaskId id) {
    const Queue& q = cpus_[c.v];
    if (set_.kind == FairSettings::Kind::eevdf && tasks_[id.v].on && tasks_[id.v].cpu == c) learn_eevdf(cpus_[c.v], id);
    if (set_.kind != FairSettings::Kind::cfs || q.queue.size() < 2 || !tasks_[id.v].on || tasks_[id.v].cpu != c) return;
    const TaskId first = leftmost(q, kNobody);
    if (first == id) {
        const TaskId second = leftmost(q, id);
        return bound(id, second, tasks_[second.v].v - tasks_[id.v].v);
    }
    const int64_t ahead = tasks_[id.v].v - tasks_[first.v].v + 1;
    if (!shift(id, -ahead)) shift(first, ahead);
}

/// A task's vruntime and deadline are off by the same: where it was placed is what was guessed. Most of a guess is the lag of who
/// has not slept since the first event: a thread of the kernel that runs for microseconds keeps for good what it was once owed.
void FairQueues::learn_eevdf(Queue& q, TaskId taken) {
    const size_t n = q.queue.size();
    if (n < 2) return;
    Sums all = sums(q);
    const auto shift_both = [&](Task& x, int64_t by) {
        x.v += by, x.deadline += by;
        all.v += by * x.weight;
    };
    Task& t = tasks_[taken.v];
    if (!eligible(q, all, t)) shift_both(t, owed(q, all, t) - 1);
    if (t.guessed) {
        int64_t before = t.deadline;
        for (TaskId other : q.queue)
            if (const Task& o = tasks_[other.v]; other != taken && eligible(q, all, o))
                before = std::min(before, o.deadline - 1);
        const int64_t more = std::clamp<int64_t>(most_lag(t) - owed(q, all, t), 0, t.deadline - before);
        shift_both(t, -more);
        t.lead += more;
    }
    // Who moves on makes others eligible.
    bool again = true;
    for (size_t rounds = 0; again && rounds < n; ++rounds) {
        again = false;
        bool before = true;  // in the queue, which among equals has the turn
        for (TaskId other : q.queue) {
            Task& o = tasks_[other.v];
            if (other == taken) before = false;
            if (other == taken || o.deadline > t.deadline || (o.deadline == t.deadline && !before)) continue;
            if (!eligible(q, all, o)) continue;
            const int64_t gap = std::min(t.deadline - o.deadline + before, owed(q, all, o) + kDoubt);
            const int64_t mine = std::min(gap * kOfTaken / 5, std::max<int64_t>(0, most_lag(t) - owed(q, all, t)));
            shift_both(t, -mine);
            shift_both(o, gap - mine);
            again = true;
        }
    }
}

std::vector<int64_t> FairQueues::leads() const {
    std::vector<int64_t> out(tasks_.size());
    tasks_.each([&](uint32_t i, const Task& t) { out[i] = t.lead; });
    return out;
}

TaskId FairQueues::leftmost(const Queue& q, TaskId but) const {
    TaskId best = kNobody;
    int64_t least = 0;
    for (TaskId t : q.queue) {
        if (t == but) continue;
        if (const int64_t v = tasks_[t.v].v; best == kNobody || v < least) best = t, least = v;
    }
    return best;
}

void FairQueues::update_min(Queue& q) {
    if (q.queue.empty() && q.late.empty()) return;
    int64_t v = std::numeric_limits<int64_t>::max();
    each(q, [&](const Task& t) { v = std::min(v, t.v); });
    q.min_v = std::max(q.min_v, v);
}

FairQueues::Sums FairQueues::sums(const Queue& q) const {
    Sums all;
    each(q, [&](const Task& x) {
        all.v += (x.v - q.min_v) * x.weight;
        all.weight += x.weight;
    });
    return all;
}

/// Weighted average of the vruntimes, to which a task is eligible that is not ahead of it.
int64_t FairQueues::average(const Queue& q) const {
    const Sums all = sums(q);
    if (all.weight == 0) return q.min_v;
    return q.min_v + (all.v < 0 ? -((-all.v + all.weight - 1) / all.weight) : all.v / all.weight);
}

/// How far `t`, which is eligible, can move on and still is: the average follows it by its share of the weight. Of one that is
/// not: how far it has to come back, negative. It is not alone.
int64_t FairQueues::owed(const Queue& q, const Sums& all, const Task& t) {
    const int64_t over = all.v - (t.v - q.min_v) * all.weight, others = all.weight - t.weight;
    return over < 0 ? -((-over + others - 1) / others) : over / others;
}

int64_t FairQueues::most_lag(const Task& t) const {
    return scaled(set_.lag_by_tick ? set_.slice + set_.tick : std::max(2 * set_.slice, set_.tick), t.weight);
}

int64_t FairQueues::lag_of(const Queue& q, const Task& t) const {
    const int64_t limit = most_lag(t);
    return std::clamp(average(q) - t.v, -limit, limit);
}

Ns FairQueues::slice_of(const Queue& q, const Task& t) const {
    const auto nr = static_cast<Ns>(q.queue.size()) + !t.on;
    const int64_t weight = q.weight + (t.on ? 0 : t.weight);
    const Ns period = nr > 8 ? nr * set_.granularity : set_.latency;
    const Ns slice = weight ? period * t.weight / weight : period;
    return std::max(slice, set_.granularity);
}

void FairQueues::place_cfs(Queue& q, Task& t, How how) {
    if (how == How::moved) return;
    if (how == How::fork) return;  // placed beside its parent, in fork()
    const int64_t floor = q.min_v - set_.latency / 2;
    if (t.v >= floor) return;
    t.v = floor;
    t.guessed = false;  // wherever it was
}

void FairQueues::place_eevdf(Queue& q, Task& t, How how) {
    const int64_t slice = scaled(set_.slice, t.weight);
    int64_t lag = how == How::fork ? 0 : t.lag;
    const int64_t v = average(q);
    if (lag != 0 && q.weight > 0) lag = lag * (q.weight + t.weight) / q.weight;  // adding it moves the average
    if (q.weight == 0) lag = 0;
    t.v = v - lag;
    if (t.relative) {
        t.relative = false;
        t.deadline += t.v;
        return;
    }
    t.deadline = t.v + (how == How::fork ? slice / 2 : slice);
}

void FairQueues::fork(Rq c, TaskId parent, TaskId child) {
    if (set_.kind != FairSettings::Kind::cfs) return;
    Queue& q = cpus_[c.v];
    Task &t = tasks_[child.v], &p = tasks_[parent.v];
    t.cpu = c;
    t.ever = true;
    t.weight = p.weight;
    const int64_t start = q.min_v + scaled(slice_of(q, t), t.weight);
    t.v = (p.on && p.cpu == c ? std::max(p.v, start) : start) - q.min_v;
    t.fresh = true;  // its vruntime is relative
}

/// `t` is no longer delayed: it leaves its queue.
void FairQueues::let_go(TaskId id) {
    Task& t = tasks_[id.v];
    Queue& q = cpus_[t.cpu.v];
    t.lag = 0;  // picked, so it had become eligible and owes nothing; what it is owed it loses (DELAY_ZERO)
    t.delayed = false;
    if (gone_) gone_->push_back(id);
    q.late.erase(std::find(q.late.begin(), q.late.end(), id));
    q.weight -= t.weight;
    update_min(q);
}

void FairQueues::carry(Rq c, TaskId id, Ns now) {
    Task& t = tasks_[id.v];
    Queue& from = cpus_[t.cpu.v];
    charge(t.cpu, now), charge(c, now);
    t.lag = lag_of(from, t);
    t.deadline -= t.v;
    t.relative = true;
    from.late.erase(std::find(from.late.begin(), from.late.end(), id));
    from.weight -= t.weight;
    update_min(from);
    Queue& to = cpus_[c.v];
    set_aside(c, t.cpu, now);
    place_eevdf(to, t, How::moved);
    to.late.push_back(id);
    touch(t);
    to.weight += t.weight;
    put_back(c, id, std::exchange(t.cpu, c), now);
}

void FairQueues::leave(TaskId id) {
    Task& t = tasks_[id.v];
    if (t.delayed) let_go(id);
    if (t.on) dequeue(id, false);
    if (!t.ever || t.fresh || set_.kind != FairSettings::Kind::cfs) return;
    t.v -= cpus_[t.cpu.v].min_v;
    t.fresh = true;
}

void FairQueues::enqueue(Rq c, TaskId id, int32_t weight, How how, Ns now) {
    Queue& q = cpus_[c.v];
    Task& t = tasks_[id.v];
    if (t.on) dequeue(id, false);
    if (t.delayed && (t.cpu != c || how != How::wakeup)) let_go(id);
    const bool stayed = t.delayed;
    if (stayed && set_.late_clock)
        ticked(c, now);
    else
        charge(c, now);
    if (stayed) {  // it is owed nothing
        const int64_t lag = lag_of(q, t), kept = set_.keeps_lag ? std::max(lag, t.lag) : lag;
        if (const int64_t due = std::min<int64_t>(kept, 0); due != lag) let_go(id), t.lag = due;
    }
    t.weight = (weight > 0 ? weight : 1024) & kMostWeight;
    const bool moves = how == How::moved && t.ever && t.cpu != c;
    const Rq from = t.cpu;
    if (moves) set_aside(c, from, now);
    if (t.delayed) {  // the same place as before
        t.delayed = false;
        q.late.erase(std::find(q.late.begin(), q.late.end(), id));
        q.weight -= t.weight;
    } else if (set_.kind == FairSettings::Kind::cfs) {
        if (!t.ever) {
            t.lead = lead_of(id);
            // Who is seen late for the first time slept long before that, too: as long as it did since the first event.
            t.v = (how == How::wakeup ? -q.min_v : q.min_v) + t.lead;
            t.least_lead = kLongAgo, t.most_lead = -kLongAgo;
            t.guessed = true;
        } else if (t.fresh) {
            t.v += q.min_v;
        } else if (t.cpu != c) {
            t.v += q.min_v - cpus_[t.cpu.v].min_v;
        }
        place_cfs(q, t, how);
    } else if (set_.kind == FairSettings::Kind::eevdf) {
        if (!t.ever && how == How::wakeup) {
            t.lag = t.lead = lead_of(id);
            t.guessed = true;
        }
        place_eevdf(q, t, how);
    }
    if (t.cpu != c) t.exec_start = kLongAgo;
    q.queue.push_back(id);
    if (!stayed) touch(t);
    t.ever = true, t.fresh = false;
    t.born = how == How::fork;
    t.on = true;
    t.cpu = c;
    look(c);
    q.weight += t.weight;
    if (moves) put_back(c, id, from, now);
    if (set_.kind == FairSettings::Kind::eevdf && q.queue.size() + q.late.size() == 1) update_min(q);
    charge(c, now);
}

/// Of tasks that balancing moves together the last one that it takes off their queue is the first that it puts on the other
/// (detach_tasks(), attach_tasks()): before one more of them is put there, those that were leave their places.
void FairQueues::set_aside(Rq c, Rq from, Ns now) {
    Queue& q = cpus_[c.v];
    const bool same = from == q.moved_from && now - q.moved_at <= kDetaches;
    std::erase_if(q.together, [&](TaskId id) {
        const Task& t = tasks_[id.v];
        return !same || !(t.on || t.delayed) || t.cpu != c || (q.running && q.curr == id);
    });
    for (TaskId id : q.together) {
        Task& t = tasks_[id.v];
        TaskList& list = t.delayed ? q.late : q.queue;
        list.erase(std::find(list.begin(), list.end(), id));
        q.weight -= t.weight;
        if (!set_.delays) continue;
        t.deadline -= t.v;
        t.relative = true;
    }
}

/// `moved` is there: now the others.
void FairQueues::put_back(Rq c, TaskId moved, Rq from, Ns now) {
    Queue& q = cpus_[c.v];
    for (TaskId id : q.together) {
        Task& t = tasks_[id.v];
        if (set_.kind == FairSettings::Kind::eevdf) place_eevdf(q, t, How::moved);
        (t.delayed ? q.late : q.queue).push_back(id);
        touch(t);
        q.weight += t.weight;
    }
    q.together.insert(q.together.begin(), moved);
    q.moved_from = from, q.moved_at = now;
}

void FairQueues::dequeue(TaskId id, bool sleeps) {
    Task& t = tasks_[id.v];
    if (!t.on) return;
    Queue& q = cpus_[t.cpu.v];
    if (set_.kind == FairSettings::Kind::eevdf) {
        t.guessed = false;
        t.lag = lag_of(q, t);
        t.delayed = sleeps && set_.delays && !eligible(q, t);
        if (!sleeps && set_.delays) {
            t.deadline -= t.v;
            t.relative = true;
        }
    }
    t.on = false;
    q.queue.erase(std::find(q.queue.begin(), q.queue.end(), id));
    if (t.delayed)
        q.late.push_back(id);
    else
        q.weight -= t.weight;
    if (q.next == id) q.next = kNobody;
    if (q.last == id) q.last = kNobody;
    if (q.skip == id) q.skip = kNobody;
    if (q.running && q.curr == id) q.running = false;
    look(t.cpu);
    if (!sleeps && set_.kind == FairSettings::Kind::cfs) {  // of the queue with it
        t.v -= q.min_v;
        t.fresh = true;
    }
    update_min(q);
}

void FairQueues::charge(Rq c, Ns now) {
    Queue& q = cpus_[c.v];
    q.clock = std::max(q.clock, now);
    if (!q.running) return;
    Task& t = tasks_[q.curr.v];
    const Ns ran = now - t.exec_start;
    if (ran <= 0) return;
    t.exec_start = now;
    t.ran = static_cast<uint32_t>(std::min<Ns>(t.ran + ran, std::numeric_limits<uint32_t>::max()));
    t.v += scaled(ran, t.weight);
    const bool alone = q.queue.size() + q.late.size() == 1;
    if (set_.kind == FairSettings::Kind::eevdf) {
        const bool over = t.v >= t.deadline;
        if (over) t.deadline = t.v + scaled(set_.slice, t.weight);  // no longer the one that protects it
        if (!alone && !q.due && (over || loses_claim(q, t))) tell(q);
    }
    if (alone)  // as mostly
        q.min_v = std::max(q.min_v, t.v);
    else
        update_min(q);
}

/// What runs has others beside it and no slice left that protects it: it went on alone beyond its deadline, or its weight
/// changed, and it has had its part (did_preempt_short()).
bool FairQueues::loses_claim(const Queue& q, const Task& t) const {
    return set_.goes_unprotected && t.protect != t.deadline && !eligible(q, t);
}

void FairQueues::ticked(Rq c, Ns now) {
    const Ns into = (now - set_.tick_at) % set_.tick;
    charge(c, now - (into < 0 ? into + set_.tick : into));
}

void FairQueues::start(Rq c, TaskId id, Ns now) {
    Queue& q = cpus_[c.v];
    const Ns at = clock(c, now);
    q.due = q.skips = false;
    Task& t = tasks_[id.v];
    if (!t.on || t.cpu != c) return;
    q.curr = id;
    q.running = true;
    if (q.skip == id) q.skip = kNobody;
    q.queue.to_back(id);
    touch(t);
    look(c);
    if (q.next == id) q.next = kNobody;
    if (q.last == id) q.last = kNobody;
    t.exec_start = at;
    t.ran = 0;
    t.protect = t.deadline;
}

void FairQueues::stop(Rq c, Ns now) {
    charge_by_schedule(c, now);
    cpus_[c.v].running = false;
    look(c);
}

void FairQueues::drain(Rq c) {
    while (!cpus_[c.v].late.empty()) let_go(cpus_[c.v].late.front());
}

std::optional<Ns> FairQueues::slice_left(Rq c) const {
    const Queue& q = cpus_[c.v];
    if (!set_.hrtick || !q.running || q.queue.size() + q.late.size() < 2) return std::nullopt;
    const Task& t = tasks_[q.curr.v];
    return std::max<Ns>(0, (t.deadline - t.v) * t.weight / 1024);
}

/// 1: `t` should run before `curr`, by more than the wakeup granularity; 0: by less; -1: not at all.
int FairQueues::against(const Task& curr, const Task& t) const {
    const int64_t diff = curr.v - t.v;
    return diff <= 0 ? -1 : diff > scaled(set_.wakeup_granularity, t.weight) ? 1 : 0;
}

/// EEVDF: the eligible task of the earliest deadline; `keep`: what runs keeps the CPU while its slice is protected.
TaskId FairQueues::earliest(Queue& q, bool keep) {
    const Sums all = sums(q);
    if (q.running) {
        const Task& t = tasks_[q.curr.v];
        if (keep && t.protect == t.deadline && eligible(q, all, t)) return q.curr;
    }
    TaskId best = kNobody;
    for (const TaskList* some : {&q.queue, &q.late})
        for (TaskId id : *some) {
            const Task& t = tasks_[id.v];
            if (best != kNobody) {
                const int64_t than = tasks_[best.v].deadline;
                // Of equals what runs is the last, as it stands in no queue.
                if (t.deadline > than || (t.deadline == than && (!q.running || best != q.curr))) continue;
            }
            if (eligible(q, all, t)) best = id;
        }
    return best != kNobody ? best : leftmost(q, kNobody);
}

TaskId FairQueues::pick(Rq c) {
    Queue& q = cpus_[c.v];
    q.due = false;
    if (set_.kind == FairSettings::Kind::fifo) return q.running ? q.curr : q.queue.front();
    if (set_.kind == FairSettings::Kind::eevdf) {
        for (;;) {
            const TaskId best = earliest(q, true);
            if (!tasks_[best.v].delayed) return best;
            let_go(best);
        }
    }
    const TaskId left = leftmost(q, kNobody);
    const Task& first = tasks_[left.v];
    const TaskId second = q.skip == left ? leftmost(q, left) : kNobody;
    if (q.next != kNobody && against(tasks_[q.next.v], first) < 1) return q.next;
    if (q.last != kNobody && against(tasks_[q.last.v], first) < 1) return q.last;
    if (second != kNobody && against(tasks_[second.v], first) < 1) return second;
    return left;
}

void FairQueues::yield(TaskId id) {
    Task& t = tasks_[id.v];
    Queue& q = cpus_[t.cpu.v];
    if (q.next == id) q.next = kNobody;
    if (q.last == id) q.last = kNobody;
    if (set_.kind == FairSettings::Kind::cfs) q.skip = id;
    if (set_.kind != FairSettings::Kind::eevdf) return;
    if (set_.forfeits) {
        if (!eligible(q, t)) return;
        t.v = t.deadline;
        update_min(q);
    }
    t.deadline += scaled(set_.slice, t.weight);
}

/// Where their policies tell whether `curr` is preempted, or that `woken` is a newborn. By another than its like what is idle
/// always is, and its slice no longer protects it (as recorded on 6.12.95; cancel_protect_slice() of 7.2). Until 6.11 the tasks'
/// own policies come before those of the entities that compete for them.
std::optional<bool> FairQueues::by_rule(const Rivals& r) {
    const bool task_idle = !set_.delays && r.of_curr == FairPolicy::idle && r.of_woken != FairPolicy::idle;
    if (!set_.delays && !task_idle && r.of_woken != FairPolicy::normal) return false;
    if (task_idle || r.curr_idle != r.woken_idle) {
        if (!task_idle && !r.curr_idle) return false;
        tasks_[r.curr.v].protect = std::numeric_limits<int64_t>::min();
        return true;
    }
    if (r.of_woken != FairPolicy::normal || (set_.forks_wait && tasks_[r.woken.v].born)) return false;
    return std::nullopt;
}

bool FairQueues::preempts(Rq c, TaskId woken, FairPolicy of_woken, FairPolicy of_curr) {
    Queue& q = cpus_[c.v];
    if (!q.running || q.curr == woken || set_.kind == FairSettings::Kind::fifo) return false;
    if (q.due) {
        q.skips = !set_.lazy;
        return set_.kind == FairSettings::Kind::eevdf;  // its slice is over
    }
    bool ruled = false;  // by policy alone: then the wakee is no buddy
    const bool yes = [&] {
        const bool curr_idle = of_curr == FairPolicy::idle, woken_idle = of_woken == FairPolicy::idle;
        if (const auto told = by_rule({q.curr, woken, of_curr, of_woken, curr_idle, woken_idle})) {
            ruled = true;
            return *told;
        }
        if (set_.kind == FairSettings::Kind::eevdf) return comes_next(q, woken, [this](TaskId t) { let_go(t); });
        return against(tasks_[q.curr.v], tasks_[woken.v]) == 1;
    }();
    if (yes) tell(q), q.skips = !set_.lazy;
    if (!yes || set_.kind == FairSettings::Kind::eevdf) return yes;
    if (!ruled) q.next = woken;
    if (q.queue.size() >= 8) q.last = q.curr;
    return true;
}

bool FairQueues::tick(Rq c) {
    Queue& q = cpus_[c.v];
    if (!q.running || set_.kind == FairSettings::Kind::fifo) return false;
    if (set_.kind == FairSettings::Kind::eevdf) return q.due;
    return q.queue.size() >= 2 && over(q, slice_of(q, tasks_[q.curr.v]));
}

/// CFS: what runs has had its slice, or is far ahead of who waits (check_preempt_tick()).
bool FairQueues::over(Queue& q, Ns slice) {
    const Task& t = tasks_[q.curr.v];
    const Ns ideal = std::min(slice, set_.latency);
    const Task& first = tasks_[leftmost(q, q.curr).v];
    const bool ended = t.ran > ideal;
    if (ended && q.next == q.curr) q.next = kNobody;
    if (ended && q.last == q.curr) q.last = kNobody;
    if (ended && q.skip == q.curr) q.skip = kNobody;
    if (!ended && (t.ran < set_.granularity || t.v - first.v <= ideal)) return false;
    tell(q);
    return true;
}

}  // namespace rewake
