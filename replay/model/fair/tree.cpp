// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/fair/tree.hpp"

#include <algorithm>
#include <utility>

namespace rewake {

FairTree::FairTree(size_t cpus, const TaskTable& table, FairSettings settings, const Machine& shares)
    : FairQueues(cpus * std::max<size_t>(table.groups.size(), 1),
                 table.tasks.size() + (table.groups.size() > 1 ? cpus * table.groups.size() : 0), settings),
      table_(&table),
      shares_(&shares),
      any_(table.groups.size() > 1),
      n_cpus_(cpus),
      n_tasks_(table.tasks.size()) {
    roots_ = any_ ? 0 : cpus;
    if (!any_) return;
    trees_.resize(cpus);
    holds_.resize(cpus_.size());
    stops_.resize(cpus_.size());
}

Ns FairTree::last_tick(Ns now) const {
    const Ns into = (now - set_.tick_at) % set_.tick;
    return now - (into < 0 ? into + set_.tick : into);
}

void FairTree::crowd(Cpu c) {
    const Tree& tree = trees_[c.v];
    crowded_.assign(c, tree.ready.size() > (running(c) ? 1u : 0u));
}

void FairTree::drop(Cpu c, TaskId t) {
    TaskList& ready = trees_[c.v].ready;
    if (const auto it = std::find(ready.begin(), ready.end(), t); it != ready.end()) ready.erase(it);
    crowd(c);
}

/// The entities from `g` up are queued where they are not yet (enqueue_task_fair()).
void FairTree::link(uint16_t g, Cpu c, Ns now) {
    for (; g != 0; g = parent(g)) {
        weigh(g, c);
        const TaskId e = entity(g, c);
        if (holds_[rq(g, c).v]) return;
        if (tasks_[e.v].on) continue;
        const auto weight = static_cast<int32_t>(shares_->group_share(g, c));
        FairQueues::enqueue(rq(parent(g), c), e, weight, How::wakeup, now);
    }
}

/// Entities from `g` up whose queues are empty leave the level above. Returns the first group whose queue is not.
uint16_t FairTree::prune(uint16_t g, Cpu c) {
    for (; g != 0 && empty(cpus_[rq(g, c).v]); g = parent(g)) {
        const TaskId e = entity(g, c);
        if (!tasks_[e.v].on) break;
        FairQueues::dequeue(e, true);
        if (tasks_[e.v].delayed) break;
    }
    for (uint16_t x = g; x != 0; x = parent(x)) weigh(x, c);
    return g;
}

void FairTree::let_go(TaskId e) {
    const Cpu c = at(tasks_[e.v].cpu);
    FairQueues::let_go(e);
    prune(level(e), c);
}

/// update_cfs_group(): the entity gets the weight that is due to it. EEVDF keeps its lag and how far its deadline is.
void FairTree::weigh(uint16_t g, Cpu c) {
    Task& t = tasks_[entity(g, c).v];
    if (empty(cpus_[rq(g, c).v])) return;
    const int64_t due = shares_->group_share(g, c), had = t.weight;
    if (due == had) return;
    const bool there = t.on || t.delayed;
    if (set_.kind == FairSettings::Kind::eevdf && there) {
        Queue& q = cpus_[t.cpu.v];
        const int64_t v = average(q);
        const bool kept = set_.lag_by_tick && t.protect == t.deadline;  // before, a new weight ends the protection
        t.v = v - lag_of(q, t) * had / due;
        t.deadline = v + (t.deadline - v) * had / due;
        if (kept) t.protect = t.deadline;
    } else if (set_.kind == FairSettings::Kind::eevdf) {
        t.lag = t.lag * had / due;
    }
    if (there) cpus_[t.cpu.v].weight += due - had;
    t.weight = static_cast<int32_t>(due) & kMostWeight;
}

void FairTree::climb(Cpu c, TaskId id, int32_t weight, How how, Ns now) {
    Task& t = tasks_[id.v];
    if (t.on) descend(id, false);
    if (t.delayed && (t.cpu != own(id, c) || how != How::wakeup)) let_go(id);
    if (!t.delayed) charge_all(c, now);  // at the weights until now, and before anybody is beside what runs
    FairQueues::enqueue(own(id, c), id, weight, how, now);
    link(group(id), c, now);
    if (!held(id)) trees_[c.v].ready.push_back(id);
    charge_all(c, now);
    crowd(c);
}

void FairTree::descend(TaskId id, bool sleeps) {
    Task& t = tasks_[id.v];
    if (!t.on) return;
    const Cpu c = at(t.cpu);
    FairQueues::dequeue(id, sleeps);
    drop(c, id);
    const uint16_t rest = prune(group(id), c);
    // Who sleeps within its slice leaves the rest of it to its group; 6.6 does not look at that.
    if (sleeps && !t.delayed && rest != 0 && stops_[rq(rest, c).v] == 0) favour(entity(rest, c), c);
}

void FairTree::depart(TaskId id) {
    const Task& t = tasks_[id.v];
    const Cpu c = at(t.cpu);
    if (t.on) drop(c, id);
    const bool there = t.on || t.delayed;
    FairQueues::leave(id);
    if (there) prune(group(id), c);
}

void FairTree::transfer(Cpu c, TaskId id, Ns now) {
    const Cpu from = at(tasks_[id.v].cpu);
    charge_all(from, now), charge_all(c, now);
    FairQueues::carry(own(id, c), id, now);
    prune(group(id), from);
    link(group(id), c, now);
}

/// set_next_buddy()
void FairTree::favour(TaskId e, Cpu c) {
    for (;;) {
        const uint16_t g = level(e);
        if (!tasks_[e.v].on) return;
        cpus_[rq(g, c).v].next = e;
        if (g == 0) return;
        e = entity(g, c);
    }
}

void FairTree::hold(uint16_t g, Cpu c, Ns now, std::vector<TaskId>* turned) {
    if (std::exchange(holds_[rq(g, c).v], uint8_t{1})) return;
    if (running(c) && within(trees_[c.v].ran, g)) pause(c, now);
    for (size_t x = g; x < table_->groups.size(); ++x)
        if (within(static_cast<uint16_t>(x), g)) ++stops_[rq(static_cast<uint16_t>(x), c).v];
    const TaskId e = entity(g, c);
    if (Task& t = tasks_[e.v]; t.on || t.delayed) {  // never delayed (DEQUEUE_SPECIAL)
        if (t.on) FairQueues::dequeue(e, true);
        if (const int64_t lag = t.lag; t.delayed) FairQueues::let_go(e), t.lag = lag;
        prune(parent(g), c);
    }
    trees_[c.v].ready.erase_if([&](TaskId t) {
        if (!held(t)) return false;
        if (turned) turned->push_back(t);
        return true;
    });
    crowd(c);
}

void FairTree::release(uint16_t g, Cpu c, Ns now, std::vector<TaskId>* turned) {
    if (!std::exchange(holds_[rq(g, c).v], uint8_t{0})) return;
    for (size_t x = g; x < table_->groups.size(); ++x)
        if (within(static_cast<uint16_t>(x), g)) --stops_[rq(static_cast<uint16_t>(x), c).v];
    if (!empty(cpus_[rq(g, c).v])) link(g, c, now);
    for (size_t x = g; x < table_->groups.size(); ++x) {
        const Rq q = rq(static_cast<uint16_t>(x), c);
        if (!within(static_cast<uint16_t>(x), g) || stops_[q.v] > 0) continue;
        for (TaskId t : cpus_[q.v].queue) {
            if (is_group(t)) continue;
            trees_[c.v].ready.push_back(t);
            if (turned) turned->push_back(t);
        }
    }
    crowd(c);
}

void FairTree::taken(TaskId id) {
    if (held(id)) return;  // the model has it throttled, and not among those that balancing meets
    TaskList first;
    any_by_age(cpu(id), set_.delays, [&](TaskId t) {
        if (t != id) first.push_back(t);
        return t == id;
    });
    for (TaskId t : first) passed_over(t);
}

void FairTree::charge_all(Cpu c, Ns now) {
    for (uint16_t g = trees_[c.v].ran;; g = parent(g)) {
        FairQueues::charge(rq(g, c), now);
        if (g == 0) return;
    }
}

/// A group that goes on with another of its tasks keeps its slice.
void FairTree::run(Cpu c, TaskId id, Ns now) {
    Tree& tree = trees_[c.v];
    const uint16_t own_group = group(id);
    const Ns at = clock(c, now);
    for (uint16_t g = std::exchange(tree.ran, own_group); !within(own_group, g); g = parent(g))
        cpus_[rq(g, c).v].running = false;
    TaskId e = id;
    for (uint16_t g = own_group;; g = parent(g)) {
        Queue& q = cpus_[rq(g, c).v];
        Task& t = tasks_[e.v];
        if (is_group(e) && t.on && q.curr == e && (q.running || tree.paused == now)) {
            FairQueues::charge(rq(g, c), at);
            q.running = true;
            q.due = false;
            if (q.next == e) q.next = kNobody;
            if (q.last == e) q.last = kNobody;
            t.exec_start = at;
        } else {
            FairQueues::start(rq(g, c), e, at);
        }
        if (g == 0) break;
        e = entity(g, c);
    }
    tree.ready.to_back(id);
    scheduled(c);
    crowd(c);
}

void FairTree::pause(Cpu c, Ns now) {
    charge_by_schedule(c, now);
    Tree& tree = trees_[c.v];
    for (uint16_t g = tree.ran;; g = parent(g)) {
        cpus_[rq(g, c).v].running = false;
        if (g == 0) break;
    }
    tree.paused = now;
    crowd(c);
}

TaskId FairTree::choose(Queue& q) {
    q.due = false;
    if (set_.kind == FairSettings::Kind::cfs) return FairQueues::pick(Rq(static_cast<size_t>(&q - cpus_.data())));
    if (set_.delays && q.next != kNobody && eligible(q, tasks_[q.next.v])) return q.next;  // PICK_BUDDY
    return earliest(q, true);
}

/// From the root down (pick_task_fair()).
TaskId FairTree::walk(Cpu c) {
    const TaskList& ready = trees_[c.v].ready;
    if (set_.kind == FairSettings::Kind::fifo) {
        const Queue* q = running(c);
        return q ? q->curr : ready.front();
    }
    for (uint16_t g = 0;;) {
        Queue& q = cpus_[rq(g, c).v];
        if (empty(q)) return ready.front();  // a held group's entity is never found: not to be reached
        const TaskId e = choose(q);
        if (tasks_[e.v].delayed) {
            let_go(e);
            g = 0;
        } else if (is_group(e)) {
            g = group_of(e);
        } else {
            return e;
        }
    }
}

/// Nobody on `c` is left but those that sleep: they go.
void FairTree::drain(uint16_t g, Cpu c) {
    Queue& q = cpus_[rq(g, c).v];
    const TaskList below = q.queue;
    for (TaskId e : below)
        if (is_group(e)) drain(group_of(e), c);
    while (!q.late.empty()) let_go(q.late.front());
}

bool FairTree::overtakes(Cpu c, TaskId woken, FairPolicy of_woken, FairPolicy of_curr) {
    const Queue* mine = running(c);
    if (!mine || mine->curr == woken || set_.kind == FairSettings::Kind::fifo || held(woken)) return false;
    if (told_any(c)) {
        cpus_[c.v].skips = !set_.lazy;
        return set_.kind == FairSettings::Kind::eevdf;
    }
    // find_matching_se()
    TaskId curr = mine->curr, e = woken;
    while (level(curr) != level(e)) {
        TaskId& deeper = level(curr) > level(e) ? curr : e;  // parents come before their children
        deeper = entity(level(deeper), c);
    }
    if (curr == e) return false;
    Queue& q = cpus_[rq(level(e), c).v];
    bool ruled = false;  // by policy alone: then the wakee is no buddy
    const bool yes = [&] {
        const auto idles = [&](TaskId x, FairPolicy of_task) {
            return is_group(x) ? table_->groups[group_of(x)].idle : of_task == FairPolicy::idle;
        };
        if (const auto told = by_rule({curr, e, of_curr, of_woken, idles(curr, of_curr), idles(e, of_woken)})) {
            ruled = true;
            return *told;
        }
        if (set_.kind == FairSettings::Kind::eevdf) return comes_next(q, e, [this](TaskId t) { let_go(t); });
        return against(tasks_[curr.v], tasks_[e.v]) == 1;
    }();
    if (yes) tell(q), cpus_[c.v].skips = !set_.lazy;
    if (!yes || set_.kind == FairSettings::Kind::eevdf) return yes;
    if (!ruled) favour(e, c);
    if (mine->queue.size() >= 8 && curr == mine->curr)
        for (TaskId x = curr;; x = entity(level(x), c)) {
            cpus_[rq(level(x), c).v].last = x;
            if (level(x) == 0) break;
        }
    return true;
}

/// Of the period of all tasks of the CPU, what is due to an entity on its level (sched_slice(), 5.13+).
Ns FairTree::share_of_period(TaskId e, Cpu c) const {
    const auto nr = static_cast<Ns>(trees_[c.v].ready.size());
    Ns slice = nr > 8 ? nr * set_.granularity : set_.latency;
    for (;; e = entity(level(e), c)) {
        const Queue& q = cpus_[rq(level(e), c).v];
        if (q.weight > 0) slice = slice * tasks_[e.v].weight / q.weight;
        if (level(e) == 0) break;
    }
    return std::max(slice, set_.granularity);
}

bool FairTree::look_all(Cpu c) {
    const Queue* mine = running(c);
    if (!mine || set_.kind == FairSettings::Kind::fifo) return false;
    bool due = false;
    for (TaskId e = mine->curr;; e = entity(level(e), c)) {
        if (is_group(e)) weigh(group_of(e), c);
        Queue& q = cpus_[rq(level(e), c).v];
        if (set_.kind == FairSettings::Kind::eevdf)
            due = due || q.due;
        else
            due = (q.queue.size() >= 2 && over(q, share_of_period(e, c))) || due;
        if (level(e) == 0) return due;
    }
}

std::optional<Ns> FairTree::told_any(Cpu c) const {
    for (uint16_t g = trees_[c.v].ran;; g = parent(g)) {
        if (const std::optional<Ns> at = FairQueues::told(rq(g, c))) return at;
        if (g == 0) return std::nullopt;
    }
}

void FairTree::all_go_on(Cpu c) {
    for (uint16_t g = trees_[c.v].ran;; g = parent(g)) {
        FairQueues::goes_on(rq(g, c));
        if (g == 0) return;
    }
}

std::optional<Ns> FairTree::shortest(Cpu c) const {
    std::optional<Ns> out;
    for (uint16_t g = trees_[c.v].ran;; g = parent(g)) {
        if (const std::optional<Ns> left = FairQueues::slice_left(rq(g, c))) out = std::min(*left, out.value_or(*left));
        if (g == 0) return out;
    }
}

void FairTree::learn_pick(Cpu c, TaskId t) {
    if (!any_) return FairQueues::learn_pick(c, t);
    if (!tasks_[t.v].on || held(t)) return;
    for (TaskId e = t;; e = entity(level(e), c)) {
        FairQueues::learn_pick(rq(level(e), c), e);
        if (level(e) == 0) return;
    }
}

}  // namespace rewake
