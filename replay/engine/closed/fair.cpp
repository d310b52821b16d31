// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/fair.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace rewake::closed {

FairSettings FairSettings::of(int major, int minor, int cpus, Ns tick) {
    FairSettings s;
    const auto at_least = [&](int a, int b) { return major > a || (major == a && minor >= b); };
    const Ns k = std::bit_width(static_cast<unsigned>(std::clamp(cpus, 1, 8)));
    s.kind = at_least(6, 6) ? Kind::eevdf : Kind::cfs;
    s.latency *= k, s.granularity *= k, s.wakeup_granularity *= k;
    s.slice = (at_least(6, 12) ? 700'000 : 750'000) * k;
    s.delays = at_least(6, 12);
    s.tick = tick;
    return s;
}

FairQueues::FairQueues(size_t cpus, size_t tasks, FairSettings settings) : set_(settings), cpus_(cpus), tasks_(tasks) {}

void FairQueues::took(Cpu c, TaskId id) {
    Queue& q = cpus_[c.v];
    Task& t = tasks_[id.v];
    if (set_.kind != FairSettings::Kind::cfs || !t.on || t.cpu != c || q.queue.size() < 2) return;
    const int64_t least = tasks_[leftmost(q, id).v].v;
    if (t.v <= least) return;
    const int64_t middle = least + (t.v - least) / 2;
    for (TaskId other : q.queue) tasks_[other.v].v = std::max(tasks_[other.v].v, middle);
    t.v = middle;
}

std::vector<int64_t> FairQueues::leads() const {
    std::vector<int64_t> out(tasks_.size());
    for (size_t i = 0; i < tasks_.size(); ++i) {
        const Task& t = tasks_[i];
        if (t.ever) out[i] = t.v - (t.fresh ? 0 : cpus_[t.cpu.v].min_v);
    }
    return out;
}

TaskId FairQueues::leftmost(const Queue& q, TaskId but) const {
    TaskId best = kNobody;
    for (TaskId t : q.queue)
        if (t != but && (best == kNobody || tasks_[t.v].v < tasks_[best.v].v)) best = t;
    return best;
}

void FairQueues::update_min(Queue& q) {
    if (q.queue.empty()) return;
    int64_t v = tasks_[q.queue.front().v].v;
    for (TaskId t : q.queue) v = std::min(v, tasks_[t.v].v);
    q.min_v = std::max(q.min_v, v);
}

/// Weighted average of the vruntimes, to which a task is eligible that is not ahead of it.
int64_t FairQueues::average(const Queue& q) const {
    if (q.queue.empty()) return q.min_v;
    int64_t sum = 0, weight = 0;
    for (TaskId t : q.queue) {
        const Task& x = tasks_[t.v];
        const int64_t w = std::max(x.weight >> 6, 1);
        sum += (x.v - q.min_v) * w;
        weight += w;
    }
    return q.min_v + (sum < 0 ? -((-sum + weight - 1) / weight) : sum / weight);
}

bool FairQueues::eligible(const Queue& q, const Task& t) const {
    int64_t sum = 0, weight = 0;
    for (TaskId other : q.queue) {
        const Task& x = tasks_[other.v];
        const int64_t w = std::max(x.weight >> 6, 1);
        sum += (x.v - q.min_v) * w;
        weight += w;
    }
    return sum >= (t.v - q.min_v) * weight;
}

Ns FairQueues::slice_of(const Queue& q, const Task& t) const {
    const auto nr = static_cast<Ns>(q.queue.size());
    const Ns period = nr > 8 ? nr * set_.granularity : set_.latency;
    const Ns slice = q.weight ? period * t.weight / q.weight : period;
    return std::max(slice, set_.granularity);
}

void FairQueues::place_cfs(Queue& q, Task& t, How how) {
    if (how == How::moved) return;
    if (how == How::fork) return;  // placed beside its parent, in fork()
    t.v = std::max(t.v, q.min_v - set_.latency / 2);
}

void FairQueues::place_eevdf(Queue& q, Task& t, How how) {
    const int64_t slice = scaled(set_.slice, t.weight);
    int64_t lag = how == How::fork ? 0 : t.lag;
    const int64_t v = average(q);
    if (lag != 0 && q.weight > 0) lag = lag * (q.weight + t.weight) / q.weight;  // adding it moves the average
    if (q.weight == 0) lag = 0;
    t.v = v - lag;
    if (std::exchange(t.relative, false)) {
        t.deadline += t.v;
        return;
    }
    t.deadline = t.v + (how == How::fork ? slice / 2 : slice);
}

void FairQueues::fork(Cpu c, TaskId parent, TaskId child) {
    if (set_.kind != FairSettings::Kind::cfs) return;
    Queue& q = cpus_[c.v];
    Task &t = tasks_[child.v], &p = tasks_[parent.v];
    t.cpu = c;
    t.ever = true;
    t.weight = p.weight;
    const int64_t start = q.min_v + slice_of(q, t);
    t.v = (p.on && p.cpu == c ? std::max(p.v, start) : start) - q.min_v;
    t.fresh = true;  // its vruntime is relative
}

void FairQueues::leave(TaskId id) {
    Task& t = tasks_[id.v];
    if (t.on) dequeue(id, false);
    if (!t.ever || t.fresh) return;
    if (set_.kind == FairSettings::Kind::cfs) {
        t.v -= cpus_[t.cpu.v].min_v;
        t.fresh = true;
    }
}

void FairQueues::enqueue(Cpu c, TaskId id, int32_t weight, How how) {
    Queue& q = cpus_[c.v];
    Task& t = tasks_[id.v];
    if (t.on) dequeue(id, false);
    t.weight = weight > 0 ? weight : 1024;
    if (set_.kind == FairSettings::Kind::cfs) {
        if (!t.ever)
            t.v = q.min_v + (id.v < first_.size() ? first_[id.v] : 0);
        else if (t.fresh)
            t.v += q.min_v;
        else if (t.cpu != c)
            t.v += q.min_v - cpus_[t.cpu.v].min_v;
        place_cfs(q, t, how);
    } else if (set_.kind == FairSettings::Kind::eevdf) {
        place_eevdf(q, t, how);
    }
    t.ever = true, t.fresh = false;
    t.on = true;
    t.cpu = c;
    q.queue.push_back(id);
    q.weight += t.weight;
    if (set_.kind == FairSettings::Kind::eevdf && q.queue.size() == 1) q.min_v = std::max(q.min_v, t.v);
    if (q.queue.size() == 1) update_min(q);
}

void FairQueues::dequeue(TaskId id, bool sleeps) {
    Task& t = tasks_[id.v];
    if (!t.on) return;
    Queue& q = cpus_[t.cpu.v];
    t.delayed = false;
    if (set_.kind == FairSettings::Kind::eevdf) {
        const int64_t limit = scaled(std::max(2 * set_.slice, set_.tick), t.weight);
        t.lag = std::clamp(average(q) - t.v, -limit, limit);
        t.delayed = sleeps && set_.delays && t.lag < 0 && q.queue.size() > 1;
        if (t.delayed) t.lag = 0;  // it leaves the queue when its lag is worked off
        if (!sleeps && set_.delays) {
            t.deadline -= t.v;
            t.relative = true;
        }
    }
    t.on = false;
    q.queue.erase(std::find(q.queue.begin(), q.queue.end(), id));
    q.weight -= t.weight;
    if (q.next == id) q.next = kNobody;
    if (q.last == id) q.last = kNobody;
    if (q.running && q.curr == id) q.running = false;
    update_min(q);
}

void FairQueues::charge(Cpu c, Ns now) {
    Queue& q = cpus_[c.v];
    if (!q.running) return;
    Task& t = tasks_[q.curr.v];
    const Ns ran = now - t.exec_start;
    if (ran <= 0) return;
    t.exec_start = now;
    t.ran += ran;
    t.v += scaled(ran, t.weight);
    update_min(q);
}

void FairQueues::start(Cpu c, TaskId id, Ns now) {
    Queue& q = cpus_[c.v];
    Task& t = tasks_[id.v];
    if (!t.on || t.cpu != c) return;
    q.curr = id;
    q.running = true;
    if (q.next == id) q.next = kNobody;
    if (q.last == id) q.last = kNobody;
    t.delayed = false;
    t.exec_start = now;
    t.ran = 0;
    t.protect = t.deadline;
}

void FairQueues::stop(Cpu c, Ns now) {
    charge(c, now);
    cpus_[c.v].running = false;
}

/// 1: `t` should run before `curr`, by more than the wakeup granularity; 0: by less; -1: not at all.
int FairQueues::against(const Task& curr, const Task& t) const {
    const int64_t diff = curr.v - t.v;
    return diff <= 0 ? -1 : diff > scaled(set_.wakeup_granularity, t.weight) ? 1 : 0;
}

bool FairQueues::past_deadline(Queue& q, Task& t) {
    if (t.v < t.deadline) return false;
    t.deadline = t.v + scaled(set_.slice, t.weight);
    t.protect = t.deadline - 1;  // no longer protected
    return q.queue.size() > 1;
}

/// EEVDF: the eligible task of the earliest deadline; `keep`: what runs keeps the CPU while its slice is protected.
TaskId FairQueues::earliest(Queue& q, bool keep) {
    if (q.running) {
        const Task& t = tasks_[q.curr.v];
        if (keep && t.protect == t.deadline && eligible(q, t)) return q.curr;
    }
    TaskId best = kNobody;
    for (TaskId id : q.queue) {
        const Task& t = tasks_[id.v];
        if (!eligible(q, t)) continue;
        if (best == kNobody || t.deadline < tasks_[best.v].deadline) best = id;
    }
    return best != kNobody ? best : leftmost(q, kNobody);
}

TaskId FairQueues::pick(Cpu c) {
    Queue& q = cpus_[c.v];
    if (set_.kind == FairSettings::Kind::fifo) return q.running ? q.curr : q.queue.front();
    if (set_.kind == FairSettings::Kind::eevdf) {
        if (q.running) past_deadline(q, tasks_[q.curr.v]);
        return earliest(q, true);
    }
    const TaskId left = leftmost(q, kNobody);
    const Task& first = tasks_[left.v];
    if (q.next != kNobody && against(tasks_[q.next.v], first) < 1) return q.next;
    if (q.last != kNobody && against(tasks_[q.last.v], first) < 1) return q.last;
    return left;
}

bool FairQueues::preempts(Cpu c, TaskId woken, bool woken_idle_policy, bool curr_idle_policy) {
    Queue& q = cpus_[c.v];
    if (!q.running || q.curr == woken || set_.kind == FairSettings::Kind::fifo) return false;
    if (curr_idle_policy && !woken_idle_policy) return true;
    if (woken_idle_policy) return false;
    if (set_.kind == FairSettings::Kind::eevdf) {
        past_deadline(q, tasks_[q.curr.v]);
        return earliest(q, true) == woken;
    }
    if (against(tasks_[q.curr.v], tasks_[woken.v]) != 1) return false;
    q.next = woken;
    if (q.queue.size() >= 8) q.last = q.curr;
    return true;
}

bool FairQueues::tick(Cpu c) {
    Queue& q = cpus_[c.v];
    if (!q.running || q.queue.size() < 2) return false;
    Task& t = tasks_[q.curr.v];
    if (set_.kind == FairSettings::Kind::fifo) return false;
    if (set_.kind == FairSettings::Kind::eevdf) return past_deadline(q, t);
    const Ns ideal = std::min(slice_of(q, t), set_.latency);
    if (t.ran > ideal) {
        q.next = q.last = kNobody;
        return true;
    }
    if (t.ran < set_.granularity) return false;
    const Task& first = tasks_[leftmost(q, q.curr).v];
    return t.v - first.v > ideal;
}

}  // namespace rewake::closed
