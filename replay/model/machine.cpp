// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/machine.hpp"

#include <algorithm>
#include <utility>

namespace rewake {

namespace {
constexpr Ns kPullGap = 20'000;  // longest between two tasks of one pull
constexpr int kPulledAtOnce = 32;  // SCHED_NR_MIGRATE_BREAK: then the run queue is unlocked for a moment
constexpr Ns kUnsure = 10'000'000;  // policies.md C4: decisions of the last 10 ms on a resynchronised CPU are doubtful
}  // namespace

Machine::Machine(const Topology& topo, const TaskTable& tasks)
    : topo_(topo),
      table_(tasks),
      cpus_(static_cast<size_t>(topo.n_cpus)),
      groups_(tasks.groups, topo.n_cpus, tasks.group_rules),
      balancer_(topo),
      scans_(topo.llc_span.size()) {
    const auto n = static_cast<size_t>(topo.n_cpus);
    view_.topo = &topo_;
    online_ = topo.online;
    view_.nr.assign(n, 0);
    view_.cfs_nr.assign(n, 0);
    view_.fair.assign(n, 0);
    view_.delayed.assign(n, 0);
    view_.load.assign(n, 0);
    for (LoadKind kind : {LoadKind::weight, LoadKind::runnable}) load(kind).assign(n, 0);
    view_.cap.assign(topo.cap_orig.begin(), topo.cap_orig.end());
    view_.cap.resize(n, 1024);
    view_.thermal.assign(n, 0);
    view_.clock_task.assign(n, 0);
    view_.avg_idle.assign(n, 1'000'000);
    view_.nr_idle_scan.assign(topo.llc_span.size(), 0);
    for (size_t l = 0; l < topo.llc_span.size(); ++l) view_.nr_idle_scan[l] = topo.llc_weight[l];
    counts_.unseen_by_cpu.assign(n, 0);
    counts_.throttled_by_cpu.assign(n, 0);
    tasks_.resize(groups_.any() ? std::max(n, tasks.tasks.size()) : n);
    if (groups_.any())
        for (size_t t = 0; t < tasks.tasks.size(); ++t)
            if (tasks.tasks[t].group) tasks_[t].group = tasks.tasks[t].group;
    held_.assign(tasks.groups.size() * n, Held::no);
    for (const TaskGroup& g : tasks.groups) quotas_.emplace_back(g.quota, g.period, g.period > 0 ? n : 0);
    slow_.blocked_load.resize(n), slow_.util.resize(n), slow_.util_est.resize(n), slow_.runnable.resize(n);
    slow_.exit_latency.resize(n), slow_.idle_stamp.resize(n);
    view_.slow = &slow_;
    for (size_t c = 0; c < n; ++c) {
        cpus_[c].speed = view_.cap[c] / 1024.0;
        cpus_[c].pelt.follows = tasks.sums_follow;
        scaled_ = scaled_ || view_.cap[c] != 1024;
    }
    for (int c = 0; c < topo.n_cpus; ++c) cpus_[static_cast<size_t>(c)].curr = TaskId(static_cast<uint32_t>(c));
}

void Machine::set_prio(Task& t, int prio) {
    if (std::exchange(t.prio, static_cast<int16_t>(prio)) == prio || t.weight == 0 || !prio_is_fair(prio)) return;
    if (const int32_t weight = weight_of(prio, t.weight == kIdleWeight); weight != t.weight) reweigh(t, weight);
}

void Machine::link(TaskId id, Task& t) {
    uint32_t& head = list(t);
    t.prev = kNoTask;
    t.next = head;
    if (head != kNoTask) tasks_[head].prev = id.v;
    head = id.v;
}

void Machine::unlink(TaskId id, Task& t) {
    if (t.prev != kNoTask)
        tasks_[t.prev].next = t.next;
    else if (uint32_t& head = list(t); head == id.v)
        head = t.next;
    if (t.next != kNoTask) tasks_[t.next].prev = t.prev;
    t.next = t.prev = kNoTask;
}

void Machine::count(TaskId id, Task& t, Cpu c) {
    t.counted = true;
    t.cpu = c;
    const bool fair = prio_is_fair(t.prio);
    const int32_t weight = fair ? table_.weight(id, t.prio) : 0;
    t.weight = weight;
    t.sidle = fair && table_.counts_idle(id);
    view_.nr[c.v] += 1, ++n_queued_;
    if (fair) {
        attach(t, c);
        accrue(c);
        if (t.group) {
            groups_.enqueue(t.group, at(c), t.weight);
        } else {
            cpus_[c.v].pelt.waiting += t.pelt.load_avg;
            load(LoadKind::weight)[c.v] += t.weight;
            view_.cfs_nr[c.v] += 1;
        }
        estimate(t, true);
        publish(c);
    }
    cpus_[c.v].idle_h += t.sidle;
    view_.fair[c.v] += fair;
    refresh(c);
}

/// util_est of its CPU holds that of the task, or no longer does.
void Machine::estimate(Task& t, bool counts) {
    if (std::exchange(t.estimated, counts) != counts) cpus_[t.cpu.v].util_est += counts ? t.util_est : -t.util_est;
}

bool Machine::uncount_unseen(Task& t, bool moves) {
    estimate(t, false);
    if (!t.counted) return false;
    const Cpu c = t.cpu;
    t.counted = false;
    view_.nr[c.v] -= 1, --n_queued_;
    if (t.weight) {
        accrue(c);
        accrue(t, t.state == State::running);
        if (std::exchange(t.delayed, false)) view_.delayed[c.v] -= 1, view_.fair[c.v] += 1;
        if (t.group) {
            groups_.dequeue(t.group, at(c), t.weight, moves ? &t.pelt : nullptr);
            if (t.state != State::throttled) groups_.emptied(t.group, c);
        } else {
            const int64_t left = load(LoadKind::weight)[c.v] -= t.weight;
            double& waiting = cpus_[c.v].pelt.waiting;
            waiting = left == 0 ? 0 : std::max(0.0, waiting - t.pelt.load_avg);
            view_.cfs_nr[c.v] -= 1;
        }
        publish(c);
    }
    cpus_[c.v].idle_h -= t.sidle;
    view_.fair[c.v] -= t.weight != 0;
    return true;
}

/// The averages of a throttled group's tasks stand still.
void Machine::thaw(Task& t) {
    if (t.state != State::throttled || !t.is_attached) return;
    const Ns still = std::max<Ns>(0, clock(t, t.attached) - t.pelt.at);
    t.pelt.at += still;
    t.pelt.edge += still;
}

/// Puts the task on the run queue of `c`, waiting.
void Machine::enqueue(TaskId id, Task& t, Cpu c) {
    if (t.state == State::queued || t.state == State::throttled) unlink(id, t);
    thaw(t);
    t.pending = false;
    const Cpu was = t.cpu;
    const bool listed = unlist_unseen(t);
    moved_queued_ = t.counted && t.cpu != c;
    uncount(t, moved_queued_);
    if (t.group) joins(t.group, c);
    const bool throttled = t.group && (groups_.stopped(t.group, c) || starved(t.group, c));
    if (throttled) {
        t.cpu = c;
        t.weight = table_.weight(id, t.prio);
        attach(t, c);
        estimate(t, !table_.throttles_tasks);
    } else {
        count(id, t, c);
        if (groups_.limited(t.group) && is_idle_task(cpus_[c.v].curr)) waits_.emplace_back(c, now_);
    }
    if (listed && (throttled || was != c)) refresh(was);  // else count() has
    t.state = throttled ? State::throttled : State::queued;
    moved_queued_ = false;
    link(id, t);
}

/// rq_clock_pelt: slower than time while a CPU of less capacity is busy, set right when it goes idle.
Ns Machine::pelt_clock(Cpu c) {
    if (!scaled_) return now_;
    CpuState& s = cpus_[c.v];
    if (!s.curr_known || is_idle_task(s.curr))
        s.clock = std::max(s.clock, now_ - s.lost);
    else if (now_ > s.clock_at)
        s.clock += static_cast<Ns>(static_cast<double>(now_ - s.clock_at) * s.speed);
    s.clock_at = std::max(s.clock_at, now_);
    return s.clock;
}

/// `c` goes idle: what its PELT clock is behind comes up there, unless the CPU has never been idle for as long as averages
/// reach back (update_idle_rq_clock_pelt, 5.1+).
void Machine::lose_idle_time(Cpu c) {
    CpuState& s = cpus_[c.v];
    if (s.pelt.saturated()) s.lost = std::max(s.lost, now_ - s.clock);
}

void Machine::accrue_now(Cpu c) {
    CpuState& s = cpus_[c.v];
    s.updated = now_;
    if (!s.leaving.empty()) take_off(s);
    s.pelt.accrue(pelt_clock(c), static_cast<double>(load(LoadKind::weight)[c.v]), view_.fair[c.v], s.runs_fair);
    publish(c);
}

void Machine::publish(Cpu c) {
    if (!averages_) return;
    load(LoadKind::runnable)[c.v] = static_cast<int64_t>(cpus_[c.v].pelt.waiting);
    load(LoadKind::average)[c.v] = cpus_[c.v].pelt.load_avg;
}

/// Averages of a task that queues for the first time (post_init_entity_util_avg). Those of one that is older than the
/// recording are what guess() made of them.
void Machine::start(Task& t, Cpu c) {
    const QueuePelt& own = queue(t, c);
    if (t.born) {
        t.pelt.load = t.weight;
        const int64_t room = std::max(0, (topo_.cap_orig[c.v] - own.util_avg) / 2);
        const int64_t weight = table_.forks_weigh_full ? int64_t{t.weight} * 1024 : t.weight;
        const int64_t share = own.util_avg * weight / (own.load_avg + 1);
        t.pelt.util = t.pelt.runnable = static_cast<double>(own.util_avg == 0 ? room : std::min(room, share));
    }
    if (!t.born && !guessed_) t.pelt.load = t.weight * pelt_decay(now_ - began_);  // at most: it has slept ever since
    t.pelt.show();
}

/// As accrue(), to what the kernel's last update of a CPU without an event since can have been: a tick, if it is busy.
void Machine::catch_up(Cpu c, Ns tick) {
    if (!averages_) return;
    if (view_.nr[c.v] == 0 || tick <= cpus_[c.v].updated) return;
    const Ns now = std::exchange(now_, tick);
    accrue(c);
    if (groups_.any()) {
        groups_.tick(at(c));
        if (!balances_) groups_.update_all(at(c));
        publish(c);
    }
    now_ = now;
}

/// Groups learn of the load on all CPUs at every tick, and what runs draws on its limits.
void Machine::tick_all() {
    const Ns tick = last_tick();
    next_tick_ = tick + tick_;
    for (uint16_t c = 0; c < cpus_.size(); ++c) catch_up(Cpu(c), tick);
    for (uint16_t c = 0; c < cpus_.size(); ++c)
        if (cpus_[c].runs_fair) account(tasks_[cpus_[c].curr.v].group, Cpu(c));
}

/// Its nice value changed: the queue and its averages follow at once, whether it runs, waits or sleeps (reweight_task).
void Machine::reweigh(Task& t, int32_t weight) {
    const Cpu c = t.cpu;
    if (t.counted) accrue(c), accrue(t, t.state == State::running);
    const int32_t was = std::exchange(t.weight, weight);
    if (t.counted) {
        if (t.group)
            groups_.dequeue(t.group, at(c), was, nullptr), groups_.enqueue(t.group, at(c), weight);
        else
            load(LoadKind::weight)[c.v] += weight - was;
    }
    const double before = t.pelt.load;
    const int32_t seen = t.pelt.load_avg;
    t.pelt.load = before * weight / was;
    t.pelt.load_avg = static_cast<int32_t>(int64_t{seen} * weight / was);
    if (t.is_attached && !t.left) queue(t, t.attached).shift(t.pelt.load - before, t.pelt.load_avg - seen, 0, 0);
    if (t.counted && !t.group) cpus_[c.v].pelt.waiting += t.pelt.load_avg - seen;
    if (t.is_attached) publish(t.attached);
}

/// Moves what a fair task carries to the CPU where it now queues.
void Machine::attach(Task& t, Cpu c) {
    if (!averages_) {
        t.attached = c;
        t.is_attached = true;
        return;
    }
    if (t.is_attached && t.attached == c && !t.left) {
        t.pelt.accrue(clock(t, c), 0, false);
        return;
    }
    if (!t.is_attached) start(t, c);
    accrue(c);
    if (!t.is_attached) {
        // nothing to take it from
    } else if (moved_queued_) {
        if (!t.group) cpus_[t.attached.v].pelt.detach(t.pelt);  // else dequeue() has taken it off
        publish(t.attached);
    } else if (!t.left) {
        leave(t, 0);
    }
    t.left = false;
    if (t.group)
        groups_.attach(t.group, at(c), t.pelt, t.weight);
    else
        cpus_[c.v].pelt.attach(t.pelt);
    t.pelt.move(clock(t, c), queue(t, c).edge);  // of a queue that is up to date
    t.attached = c;
    t.is_attached = true;
}

Machine::TaskUtil Machine::task_util(const Task& t, Cpu prev) const {
    Pelt own = t.pelt;
    if (!t.is_attached) return {};
    // The kernel's last update of prev's averages: an idle CPU has had none since.
    if (t.attached == prev) own.accrue(queue(t, prev).at, t.counted ? t.weight : 0, t.state == State::running);
    return {own.util_avg, t.util_est, own.runnable_avg};
}

int32_t Machine::exit_latency(Cpu c) const {
    const CpuState& s = cpus_[c.v];
    if (!s.has_idle_state) return -1;
    const bool known = c.v < exit_latency_.size() && s.idle_state < exit_latency_[c.v].size();
    return known ? exit_latency_[c.v][s.idle_state] : static_cast<int32_t>(std::min(s.idle_state, 1'000'000u));
}

void Machine::set_clock_offset(Ns ahead) {
    const Ns edge = (kPeltPeriod - ahead % kPeltPeriod) % kPeltPeriod;
    for (CpuState& c : cpus_) c.pelt.edge = edge;
    groups_.set_edge(edge);
}

bool Machine::overutilised() {
    const Ns tick = last_tick();
    for (size_t i = 0; i < cpus_.size(); ++i) {
        catch_up(Cpu(static_cast<uint16_t>(i)), tick);
        const int64_t util = std::max(cpus_[i].pelt.util_avg, cpus_[i].util_est);
        if (util * 1280 >= int64_t{view_.cap[i]} * 1024) return true;
    }
    return false;
}

void Machine::look_at_all() {
    const Ns tick = last_tick();
    for (size_t i = 0; i < cpus_.size(); ++i) {
        const Cpu c(static_cast<uint16_t>(i));
        const CpuState& s = cpus_[i];
        catch_up(c, tick);
        slow_.pending.assign(c, s.pending > 0);
        slow_.blocked_load[i] = s.pelt.load_avg;
        slow_.util[i] = s.pelt.util_avg;
        slow_.util_est[i] = s.util_est;
        slow_.runnable[i] = s.pelt.runnable_avg;
        slow_.exit_latency[i] = exit_latency(c);
        slow_.idle_stamp[i] = s.idle_stamp;
    }
}

int64_t Machine::task_load(TaskId p, Cpu c, LoadKind kind) const {
    const Task& t = tasks_[p.v];
    if (!prio_is_fair(t.prio)) return 0;
    if (kind == LoadKind::weight) return table_.weight(p, t.prio);
    // task_h_load of the root group: the task's share of the queue's load_avg, one of which guards the division.
    const CpuState& s = cpus_[c.v];
    const int64_t root = s.h_load_jiffy == jiffy() ? s.h_load : s.pelt.load_avg;
    const int64_t share = t.group ? groups_.h_load(t.group, c, jiffy(), root, s.pelt.load_avg) : root;
    Pelt own = t.pelt;
    if (t.counted && t.state == State::running) own.accrue(queue(t, c).at, t.weight, true);  // others are not updated
    return static_cast<int64_t>(own.load_avg * static_cast<double>(share) /
                                (static_cast<double>(queue(t, c).load_avg) + 1));
}

void Machine::refresh(Cpu c) {
    const CpuState& s = cpus_[c.v];
    const int32_t nr = view_.nr[c.v];
    const size_t word = c.v >> 6;
    const uint64_t bit = uint64_t{1} << (c.v & 63);
    const auto put = [&](CpuMask& set, bool on) { set.w[word] = (set.w[word] & ~bit) | (on ? bit : 0); };
    const bool idle =
        nr == 0 && (s.pending == 0 || s.hides) && s.curr_known && is_idle_task(s.curr) && (online_.w[word] & bit);
    const bool turns = keeps_turns_ && idle != ((view_.avail.w[word] & bit) != 0);
    put(view_.idle, idle);
    put(view_.avail, idle);
    put(view_.sidle, nr > 0 && nr == s.idle_h);
    put(deep_, nr > 2);
    put(late_, view_.delayed[c.v] > 0);
    if (turns) note_turn(c, idle);
}

bool Machine::resync(Cpu c, Ns ts) {
    const bool counts = ts >= counted_from_ && ts <= counted_to_;
    counts_.resync += counts;
    cpus_[c.v].unsure_until = ts + kUnsure;
    return counts;
}

bool Machine::done_with(TaskId id) const {
    if (id.v >= tasks_.size()) return true;  // never heard of
    const Task& t = tasks_[id.v];
    const auto waits = [&](const auto& x) { return x.p == id; };
    return (t.state == State::sleeping || t.state == State::dead || t.state == State::unknown) && !t.counted &&
           !t.pending && !t.listed && !t.estimated && t.next == kNoTask && t.prev == kNoTask &&
           std::ranges::none_of(unlisted_, waits) && std::ranges::none_of(pulled_, waits);
}

void Machine::on_loss(Cpu c, Ns ts) {
    resync(c, ts);
    CpuState& cpu = cpus_[c.v];
    tasks_.each([&](uint32_t, Task& t) {  // whatever was here may have left unseen
        if (t.cpu != c || (t.state == State::sleeping && !t.delayed) || t.state == State::dead ||
            t.state == State::unknown)
            return;
        drop_pending(t);
        uncount(t);
        t.next = t.prev = kNoTask;
        t.state = State::unknown;
    });
    cpu.head = cpu.parked = kNoTask;
    for (uint16_t g = 1; g < quotas_.size(); ++g) release(g, c, true);
    cpu.curr_known = false;
    refresh(c);
}

void Machine::apply(const Batch& b, Event e, size_t i) {
    switch (e) {
        case Event::sw: on_switch(b.sw, i); break;
        case Event::wakeup: {
            const WakeupColumns& w = b.wakeup;
            on_wakeup(TaskId(w.task[i]), w.prio[i], Cpu(w.target_cpu[i]), w.ts[i]);
            break;
        }
        case Event::migrate: {
            const MigrateColumns& m = b.migrate;
            on_migrate(TaskId(m.task[i]), Cpu(m.orig_cpu[i]), Cpu(m.dest_cpu[i]), m.ts[i], Cpu(m.cpu[i]));
            break;
        }
        case Event::fork: on_fork(TaskId(b.fork.child[i]), TaskId(b.fork.task[i])); break;
        case Event::exit: on_exit(TaskId(b.exit.task[i]), b.exit.ts[i]); break;
        case Event::idle: {
            const bool leaves = b.idle.state_null && b.idle.state_null[i];
            on_idle_state(Cpu(b.idle.idle_cpu[i]), leaves ? std::nullopt : std::optional(b.idle.state[i]));
            break;
        }
        case Event::loss: on_loss(Cpu(b.loss.cpu[i]), b.loss.ts[i]); break;
        case Event::balance: on_balance(Cpu(b.balance.cpu[i]), b.balance.ts[i]); break;
        case Event::tick: on_idle_tick(Cpu(b.tick.cpu[i]), b.tick.ts[i]); break;
        case Event::wake_list: on_wake_list(Cpu(b.wake_list.cpu[i]), b.wake_list.ts[i]); break;
        default: break;
    }
}

void Machine::on_switch(const SwitchColumns& s, size_t i, bool delays) {
    const Cpu c(s.cpu[i]);
    const Ns ts = switch_at_ = s.ts[i];
    const TaskId prev(s.prev_task[i]), next(s.next_task[i]);
    CpuState& cpu = cpus_[c.v];
    now_ = cpu.switches.at(ts, preempted(prev, still_runnable(s.prev_state[i])), next, topo_.cap_orig[c.v]);
    if (!unlisted_.empty()) list_due(now_);
    if (!pulled_.empty()) put_pulled(c), put_pulled({});
    ++counts_.switches;
    grow(prev);
    grow(next);
    if (now_ >= next_period_) periods();
    if (now_ >= next_tick_) tick_all();
    accrue(c);
    // A switch to who was running is none: its format makes up who was, and left out those between.
    if (prev == next) counts_.unseen_by_cpu[c.v] += resync(c, ts);
    if (cpu.curr_known && cpu.curr != prev) {
        counts_.unseen_by_cpu[c.v] += resync(c, ts);
        if (!is_idle_task(cpu.curr)) {  // what the model thought to run here cannot; leave it waiting until next seen
            Task& lost = tasks_[cpu.curr.v];
            if (lost.state == State::running && lost.cpu == c) {
                uncount(lost);
                lost.state = State::unknown;
            }
        }
    }
    const bool died = !is_idle_task(prev) && is_dead(s.prev_state[i]);
    if (!is_idle_task(prev)) {
        Task& t = tasks_[prev.v];
        set_prio(t, s.prev_prio[i]);
        if (t.group) account(t.group, c);
        if (t.rejoins && t.cpu == c) rejoin(t);
        if (t.state == State::queued || t.state == State::throttled) unlink(prev, t);
        if (still_runnable(s.prev_state[i])) {
            if (!t.counted || t.cpu != c) {
                uncount(t);
                count(prev, t, c);
            } else if (t.weight) {
                accrue(t, t.state == State::running);
            }
            t.state = State::queued;
            link(prev, t);
        } else {
            if (delays && t.cpu == c && t.counted && t.weight)
                delay(t);
            else if (t.cpu == c)
                uncount_unseen(t);
            else
                uncount(t);
            if (t.weight && std::exchange(t.pelt.fresh, false))
                t.util_est = util_est_after_sleep(t.util_est, t.pelt.util_avg,
                                                  table_.estimates_ignore_waits ? t.pelt.util_avg : t.pelt.runnable_avg,
                                                  topo_.cap_orig[c.v]);
            if (!t.pending) t.cpu = c;
            t.state = is_dead(s.prev_state[i]) ? State::dead : t.pending ? State::waking : State::sleeping;
            t.ever_blocked = true;
            t.blocked_at = ts;
        }
        if (t.group) left(t.group, c, is_idle_task(next) ? 0 : tasks_[next.v].group);
    }
    cpu.curr = next;
    cpu.curr_known = true;
    cpu.ran_from = now_;
    cpu.runs_fair = false;
    view_.clock_task[c.v] = ts;
    if (!is_idle_task(next)) {
        if (!waits_.empty()) std::erase_if(waits_, [c](const auto& wait) { return wait.first == c; });  // it has begun
        Task& t = tasks_[next.v];
        set_prio(t, s.next_prio[i]);
        if (t.state == State::throttled && t.group) resume(t.group, t.cpu);
        if (t.state == State::queued || t.state == State::throttled) {
            if (t.cpu != c) resync(c, ts);  // it moved here unseen
            thaw(t);
            unlink(next, t);
            drop_pending(t);
            if (!t.counted || t.cpu != c) {
                uncount(t);
                count(next, t, c);
            } else if (t.weight) {
                accrue(t, false);
            }
        } else {
            // Waking: its sched_wakeup is still to come (clocks of two CPUs differ). Unknown: first sight. Else a miss.
            if (t.state == State::sleeping || t.state == State::running || t.state == State::dead) resync(c, ts);
            drop_pending(t);
            uncount(t);
            count(next, t, c);
        }
        t.state = State::running;
        cpu.runs_fair = t.weight > 0;
        if (groups_.any()) groups_.run(cpu.runs_fair ? t.group : 0, at(c));
        t.exiting = t.exiting && t.state != State::dead;
    } else {
        if (groups_.any()) {
            groups_.run(0, at(c));
            groups_.update_all(at(c));
        }
        if (cpu.head != kNoTask) park_all(c);
        if (view_.delayed[c.v] > 0) let_all_go(c);
        if (scaled_ && averages_) lose_idle_time(c);
        cpu.idle_stamp = ts;
    }
    if (died) {  // the next one sees to it (finish_task_switch())
        Task& t = tasks_[prev.v];
        if (std::exchange(t.is_attached, false)) queue(t, t.attached).detach_later(t.pelt);
    }
    refresh(c);
}

void Machine::slept_unseen(TaskId p, Ns ts) {
    grow(p);
    Task& t = tasks_[p.v];
    if (t.state != State::throttled) return;
    counts_.unseen_by_cpu[t.cpu.v] += resync(t.cpu, ts);
    unlink(p, t);
    uncount(t);
    t.state = State::sleeping;
}

void Machine::on_waking(TaskId p, int prio, bool placed, Cpu chosen, std::optional<Cpu> by) {
    grow(p);
    Task& t = tasks_[p.v];
    set_prio(t, prio);
    if (!placed) return;
    const bool on_cpu = t.state == State::running;
    if (t.state == State::queued || t.state == State::throttled) unlink(p, t);
    drop_pending(t);
    uncount(t);
    t.state = State::waking;
    expect(p, t, chosen, by);
    if (!table_.wakeups && !on_cpu) on_wakeup(p, prio, chosen, now_);
}

void Machine::on_wakeup(TaskId p, int prio, Cpu target, Ns ts) {
    grow(p);
    Task& t = tasks_[p.v];
    set_prio(t, prio);
    now_ = ts;
    view_.clock_task[target.v] = ts;
    if (t.state == State::running) return;  // woken before it blocked, or its switch came first
    if (t.state == State::queued && t.cpu == target) return;  // still on the run queue
    CpuState& cpu = cpus_[target.v];
    if (cpu.idle_stamp > 1 && cpu.curr_known && is_idle_task(cpu.curr)) {  // rq::avg_idle
        int64_t& avg = view_.avg_idle[target.v];
        avg = std::min<int64_t>(avg + (ts - cpu.idle_stamp - avg) / 8, 1'000'000);
        cpu.idle_stamp = 0;
    }
    cpu.switches.woke(p, ts);
    enqueue(p, t, target);
}

/// Tasks that one balance pulls leave their run queue at one instant: its clock stands still meanwhile.
Ns Machine::pull_time(Cpu orig, Cpu by, Ns ts) {
    const bool same = pull_.orig == orig && pull_.by == by && ts - pull_.last < kPullGap && pull_.n < kPulledAtOnce;
    if (!same) pull_ = {orig, by, ts, ts, 0};
    pull_.last = ts;
    ++pull_.n;
    return pull_.first;
}

void Machine::on_migrate(TaskId p, Cpu orig, Cpu dest, Ns ts, Cpu by) {
    grow(p);
    now_ = ts;
    migrations_ = true;
    Task& t = tasks_[p.v];
    switch (t.state) {
        case State::waking: {  // part of its own placement
            leave_by_migration(t, dest);
            if (t.cpu != dest) {
                drop_pending(t);
                expect(p, t, dest, by);
            }
            moved(p, t, by, ts);
            break;
        }
        case State::queued:
            if (!table_.wakeups && t.cpu == dest) break;  // part of its own placement
            balancer_.pulled(orig, dest);
            now_ = pull_time(orig, by, ts);
            if (pulling_ > 0) {
                pull(p, t, dest, by, ts);
                break;
            }
            [[fallthrough]];
        case State::unknown: enqueue(p, t, dest); break;
        case State::throttled:  // moves with its throttled group: still not runnable
            unlink(p, t);
            estimate(t, false);
            t.cpu = dest;
            estimate(t, !table_.throttles_tasks);
            link(p, t);
            break;
        default:
            if (t.delayed) {  // it goes on competing there
                moved_queued_ = t.cpu != dest;
                uncount(t, moved_queued_);
                count(p, t, dest);
                moved_queued_ = false;
                delay(t);
            }
            t.cpu = t.counted ? t.cpu : dest;
            break;
    }
    view_.clock_task[orig.v] = view_.clock_task[dest.v] = ts;
}

void Machine::on_fork(TaskId child, std::optional<TaskId> parent) {
    grow(child);
    tasks_[child.v].born = true;
    if (parent) tasks_[child.v].parent = parent->v;
}

void Machine::on_idle_state(Cpu c, std::optional<uint32_t> state) {
    if (c.v >= cpus_.size()) return;
    cpus_[c.v].has_idle_state = state.has_value();
    cpus_[c.v].idle_state = state.value_or(0);
}

void Machine::advance(Ns ts, Cpu prev, Cpu waker, std::optional<TaskId> wakee) {
    view_.now = now_ = ts;
    if (now_ >= next_period_) periods();
    if (now_ >= next_tick_) tick_all();
    if (!unlisted_.empty()) list_due(now_);
    if (!pulled_.empty()) put_pulled({});
    if (!cleared_.empty()) look_at_cleared(now_);
    if (!waits_.empty()) look_for_held();
    const Ns tick = last_tick();
    catch_up(prev, tick);
    catch_up(waker, tick);
    if (wakee && n_exiting_ > 0) notifies(waker, *wakee);
    if (!is_idle_task(cpus_[prev.v].curr)) view_.clock_task[prev.v] = ts;  // a busy CPU ticks
    if (!balances_ && averages_) balance_by_ticks();
}

void Machine::learn(TaskId p, Cpu prev, std::optional<int64_t> load, std::optional<int64_t> rq_load,
                    std::optional<int32_t> nr_idle_scan) {
    // Which load is larger may hang on what two queues have in common: where there are groups, what a task counts on the root
    // queue comes from all queues between them, and no probe shows those (learned alone it had a fifth more misses).
    if (groups_.any()) load = rq_load = std::nullopt;
    // What is recorded is as of the last period; what came since then stays.
    if (load) {
        Pelt& own = tasks_[p.v].pelt;
        own.load = std::max(0.0, own.load + static_cast<double>(*load - own.load_avg));
        own.load_avg = static_cast<int32_t>(*load);
    }
    if (rq_load) {
        QueuePelt& own = cpus_[prev.v].pelt;
        own.load = std::max(0.0, own.load + static_cast<double>(*rq_load - own.load_avg));
        own.load_avg = *rq_load;
        publish(prev);
    }
    if (nr_idle_scan) {
        const Llc llc = topo_.llc[prev.v];
        scans_[llc.v].recorded = true;
        view_.nr_idle_scan[llc.v] = *nr_idle_scan;
    }
}

bool Machine::core_idle_but(Cpu c) const {
    for (uint16_t s : topo_.siblings(c))
        if (s != c.v && !view_.avail.test(Cpu(s))) return false;
    return true;
}

}  // namespace rewake
