// SPDX-License-Identifier: GPL-2.0-or-later
// The fair class with task groups (CONFIG_FAIR_GROUP_SCHED): on every CPU a tree of levels, each as queues.hpp has it. A
// group's queue on a CPU is one level, its entity stands for it on the level above and weighs what the machine model says
// that it does (calc_group_shares). Where a group is throttled on a CPU its entity leaves that level, and its tasks wait: they
// are held. Source: kernel/sched/fair.c of 6.1 and 6.12. A recording without groups has one level, and pays for nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "replay/model/fair/queues.hpp"
#include "replay/model/machine.hpp"
#include "replay/model/tasks.hpp"

namespace rewake {

/// As FairQueues, of whole CPUs: size(), queue() and crowded() are of the tasks that are not held, whatever their groups.
class FairTree : public FairQueues {
  public:
    /// `shares`: says what the entities weigh; it follows the same events.
    FairTree(size_t cpus, const TaskTable& table, FairSettings settings, const Machine& shares);
    void weighed_by(const Machine& shares) { shares_ = &shares; }
    bool any() const { return any_; }

    void enqueue(Cpu c, TaskId t, int32_t weight, How how, Ns now) {
        if (any_) return climb(c, t, weight, how, now);
        FairQueues::enqueue(c, t, weight, how, now);
    }
    void expect(TaskId t) const { FairQueues::expect(t); }
    void expect(Cpu c) const { FairQueues::expect(Rq(c)); }
    void fork(Cpu c, TaskId parent, TaskId child) { FairQueues::fork(any_ ? own(child, c) : Rq(c), parent, child); }
    void dequeue(TaskId t, bool sleeps) { any_ ? descend(t, sleeps) : FairQueues::dequeue(t, sleeps); }
    void carry(Cpu c, TaskId t, Ns now) { any_ ? transfer(c, t, now) : FairQueues::carry(c, t, now); }
    void leave(TaskId t) { any_ ? depart(t) : FairQueues::leave(t); }
    Cpu cpu(TaskId t) const { return any_ ? at(tasks_[t.v].cpu) : FairQueues::cpu(t); }
    size_t size(Cpu c) const { return queue(c).size(); }
    const TaskList& queue(Cpu c) const { return any_ ? trees_[c.v].ready : FairQueues::queue(c); }
    /// f(task) of those that are delayed() on `c`, until it is true.
    template <class F>
    bool any_late(Cpu c, F f) const {
        const auto some = [&](Rq q) {
            return std::ranges::any_of(cpus_[q.v].late, [&](TaskId e) { return !is_group(e) && f(e); });
        };
        if (!any_) return some(c);
        for (size_t g = 0; g < table_->groups.size(); ++g)
            if (some(rq(static_cast<uint16_t>(g), c))) return true;
        return false;
    }
    /// f(task) of queue(), and `late` of those that are delayed(), too, in the order of before(), until it is true.
    template <class F>
    bool any_by_age(Cpu c, bool late, F f) const {
        const auto older = [this](TaskId a, TaskId b) { return before(a, b); };
        const TaskList& here = queue(c);
        if (!late && std::ranges::is_sorted(here, older)) return std::ranges::any_of(here, f);  // as mostly
        TaskList all;
        const auto add = [&](TaskId t) { all.insert(std::ranges::upper_bound(all, t, older), t); };
        std::ranges::for_each(here, add);
        if (late) any_late(c, [&](TaskId t) { return add(t), false; });
        return std::ranges::any_of(all, f);
    }
    /// Balancing takes `t` from where it is: whom it looked at before, it has passed over.
    void taken(TaskId t);
    /// `t` is queued or has just left its queue in a group that is throttled there, or below one.
    bool held(TaskId t) const { return any_ && stops_[tasks_[t.v].cpu.v] > 0; }
    /// It would be, on `c`.
    bool blocked(TaskId t, Cpu c) const { return any_ && stops_[own(t, c).v] > 0; }
    bool held(uint16_t group, Cpu c) const { return any_ && holds_[rq(group, c).v]; }
    /// Whether a task of `group` or below is queued there, held or not.
    bool occupied(uint16_t group, Cpu c) const { return !empty(cpus_[rq(group, c).v]); }
    /// `group` is throttled there, and does not run: its tasks that waited are held now. Appended to `turned`.
    void hold(uint16_t group, Cpu c, Ns now, std::vector<TaskId>* turned = nullptr);
    /// It goes on: its tasks that wait now. Those of groups below that are throttled themselves stay held.
    void release(uint16_t group, Cpu c, Ns now, std::vector<TaskId>* turned = nullptr);

    void charge(Cpu c, Ns now) { any_ ? charge_all(c, now) : FairQueues::charge(c, now); }
    void charge_by_schedule(Cpu c, Ns now) {
        any_ ? charge_all(c, clock(c, now)) : FairQueues::charge_by_schedule(c, now);
    }
    void ticked(Cpu c, Ns now) { any_ ? charge_all(c, last_tick(now)) : FairQueues::ticked(c, now); }
    void start(Cpu c, TaskId t, Ns now) { any_ ? run(c, t, now) : FairQueues::start(c, t, now); }
    void stop(Cpu c, Ns now) { any_ ? pause(c, now) : FairQueues::stop(c, now); }
    TaskId pick(Cpu c) { return any_ ? walk(c) : FairQueues::pick(c); }
    void drain(Cpu c) { any_ ? drain(0, c) : FairQueues::drain(c); }
    bool preempts(Cpu c, TaskId woken, FairPolicy of_woken, FairPolicy of_curr) {
        if (any_) return overtakes(c, woken, of_woken, of_curr);
        return FairQueues::preempts(c, woken, of_woken, of_curr);
    }
    std::optional<Ns> told(Cpu c) const { return any_ ? told_any(c) : FairQueues::told(c); }
    void goes_on(Cpu c) { any_ ? all_go_on(c) : FairQueues::goes_on(c); }
    bool tick(Cpu c) { return any_ ? look_all(c) : FairQueues::tick(c); }
    std::optional<Ns> slice_left(Cpu c) const { return any_ ? shortest(c) : FairQueues::slice_left(c); }

    // What the recorded kernel did tells of two tasks of one group only.
    int64_t behind(TaskId curr, TaskId woken) const {
        return any_ && group(curr) != group(woken) ? 0 : FairQueues::behind(curr, woken);
    }
    void learn_preempted(TaskId curr, TaskId woken, int64_t behind) {
        if (!any_ || group(curr) == group(woken)) FairQueues::learn_preempted(curr, woken, behind);
    }
    void learn_kept(TaskId curr, TaskId woken, int64_t behind) {
        if (!any_ || group(curr) == group(woken)) FairQueues::learn_kept(curr, woken, behind);
    }
    void learn_pick(Cpu c, TaskId t);

  private:
    struct Tree {  // of a CPU
        TaskList ready;  ///< tasks that are queued and not held, who ran or came last at the end
        uint16_t ran = 0;  ///< group of the task that runs, or ran last
        Ns paused = kUnknown;  ///< when it was stopped
    };
    uint16_t group(TaskId t) const { return table_->info(t).group; }
    uint16_t parent(uint16_t g) const { return table_->groups[g].parent; }
    bool is_group(TaskId e) const { return e.v >= n_tasks_; }
    uint16_t group_of(TaskId e) const {
        return is_group(e) ? static_cast<uint16_t>((e.v - n_tasks_) / n_cpus_) : group(e);
    }
    /// The level that an entity is on.
    uint16_t level(TaskId e) const { return is_group(e) ? parent(group_of(e)) : group(e); }
    TaskId entity(uint16_t g, Cpu c) const { return TaskId(static_cast<uint32_t>(n_tasks_ + g * n_cpus_ + c.v)); }
    Rq rq(uint16_t g, Cpu c) const { return Rq(g * n_cpus_ + c.v); }
    Rq own(TaskId t, Cpu c) const { return rq(group(t), c); }
    Cpu at(Rq q) const { return Cpu(static_cast<uint16_t>(q.v % n_cpus_)); }
    static bool empty(const Queue& q) { return q.queue.empty() && q.late.empty(); }
    bool within(uint16_t g, uint16_t above) const {
        while (g > above) g = parent(g);
        return g == above;
    }
    Queue* running(Cpu c) {
        Queue& q = cpus_[rq(trees_[c.v].ran, c).v];
        return q.running ? &q : nullptr;
    }
    Ns last_tick(Ns now) const;
    void crowd(Cpu c);
    void drop(Cpu c, TaskId t);
    void climb(Cpu c, TaskId t, int32_t weight, How how, Ns now);
    void descend(TaskId t, bool sleeps);
    void depart(TaskId t);
    void transfer(Cpu c, TaskId t, Ns now);
    void link(uint16_t g, Cpu c, Ns now);
    uint16_t prune(uint16_t g, Cpu c);
    void let_go(TaskId t);
    void weigh(uint16_t g, Cpu c);
    void charge_all(Cpu c, Ns now);
    void run(Cpu c, TaskId t, Ns now);
    void pause(Cpu c, Ns now);
    TaskId walk(Cpu c);
    TaskId choose(Queue& q);
    void drain(uint16_t g, Cpu c);
    bool overtakes(Cpu c, TaskId woken, FairPolicy of_woken, FairPolicy of_curr);
    std::optional<Ns> told_any(Cpu c) const;
    void all_go_on(Cpu c);
    bool look_all(Cpu c);
    Ns share_of_period(TaskId e, Cpu c) const;
    std::optional<Ns> shortest(Cpu c) const;
    void favour(TaskId e, Cpu c);

    const TaskTable* table_;
    const Machine* shares_;
    bool any_;
    size_t n_cpus_, n_tasks_;
    std::vector<Tree> trees_;  ///< by CPU
    std::vector<uint8_t> holds_;  ///< by queue: its group is throttled there
    std::vector<uint16_t> stops_;  ///< by queue: holds there at or above it
};

}  // namespace rewake
