// SPDX-License-Identifier: GPL-2.0-or-later
// cpu.max of task groups in a simulated window (CFS bandwidth control, kernel/sched/fair.c of 6.1 and 6.12): every period a
// group's pool gets its quota, from which the CPUs that run it draw slices (model/quota.hpp). A CPU that has nothing left and
// can draw nothing throttles the group there, when the kernel looks: at ticks, at switches and when a task is queued.
#include <algorithm>
#include <utility>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

namespace {
constexpr Ns kSlackAfter = 5'000'000, kSlackBefore = 2'000'000;  // cfs_bandwidth_slack_period, min_bandwidth_expiration
}  // namespace

/// Takes over what the machine model knows of the limits; from here on they are the simulation's.
void Simulation::begin_limits() {
    limits_.assign(table_.groups.size(), {});
    quotas_ = machine_.quotas();
    for (uint16_t g = 1; g < table_.groups.size(); ++g) {
        const TaskGroup& group = table_.groups[g];
        if (group.period == 0) continue;
        limits_[g].since.assign(cpus_.size(), -1);
        Ns due = quotas_[g].due();
        if (due == std::numeric_limits<Ns>::max()) {  // never seen throttled: as if periods began with the clock
            quotas_[g].begin_at(0, now_);
            due = quotas_[g].due();
            quotas_[g].refill(due - group.period);  // now_ may be nearer to the next one
        }
        push(std::max(now_, due), What::refill, g);
        for (uint16_t i = 0; i < cpus_.size(); ++i) {
            const Cpu c(i);
            const bool held = machine_.held(g, c);
            if (held && !fair_.held(g, c)) fair_.hold(g, c, now_);
            if (!held && fair_.held(g, c)) fair_.release(g, c, now_);
            if (held) limits_[g].throttled.push_back(c), stands(g, c);
        }
    }
    machine_.throttles_when_told();
    for (size_t i = 0; i < cpus_.size(); ++i)
        cpus_[i].spent = std::min(now_, machine_.ran_from(Cpu(static_cast<uint16_t>(i))));
    for (const TaskId id : script_.present) {
        Task& t = tasks_[id.v];
        if (!fair_.queued(id) || t.state == Task::State::running) continue;
        if (t.state == Task::State::queued && fair_.held(id)) {
            wait_ends(t);
            t.state = Task::State::held;
        } else if (t.state == Task::State::held && !fair_.held(id)) {
            t.state = Task::State::queued;
            wait_begins(t);
        }
    }
}

/// The time since the last look counts against the limits of what runs on `c`.
void Simulation::spend(Cpu c) {
    CpuState& cpu = cpus_[c.v];
    const Ns ran = now_ - std::exchange(cpu.spent, now_);
    if (ran <= 0 || idle(cpu.curr) || cpu.reserved || cpu.leaving || !tasks_[cpu.curr.v].script) return;
    for_limits(cpu.curr, [&](uint16_t g) { quotas_[g].ran(c, ran); });
}

/// Something that runs or ran on `c` has used up its group's time there.
bool Simulation::spent_up(Cpu c) {
    spend(c);
    bool any = false;
    if (!idle(cpus_[c.v].curr)) for_limits(cpus_[c.v].curr, [&](uint16_t g) { any = any || quotas_[g].used_up(c); });
    return any;
}

/// `id` is about to leave `c`: its groups that have used up their time there are throttled, and those that have nothing more to
/// run there give back what is left. The machine model is told once it knows that `id` does not run.
void Simulation::exhaust(Cpu c, TaskId id) {
    spend(c);
    for_limits(id, [&](uint16_t g) {
        if (fair_.held(g, c)) return;
        if (quotas_[g].used_up(c)) {
            throttle(g, c);
            told_.emplace_back(g, c);
        } else if (!fair_.occupied(g, c)) {
            give_back(g, c);
        }
    });
}

/// The time of what runs on `c` is up: whoever is next, of another group.
void Simulation::evict(Cpu c, TaskId prev) {
    exhaust(c, prev);
    new_idle(c, now_);
    const TaskId next = fair_.size(c) ? fair_.pick(c) : TaskId(c.v);
    fair_.stop(c, now_);
    tasks_[prev.v].state = Task::State::held;
    switch_to(c, prev, kRuns, next);
}

/// The first task of a group that comes to `c` may find no time left (check_enqueue_throttle()).
void Simulation::starve(TaskId id, Cpu c) {
    for_limits(id, [&](uint16_t g) {
        if (fair_.held(g, c) || fair_.occupied(g, c) || !quotas_[g].used_up(c)) return;
        throttle(g, c);
        machine_.throttle(g, c, now_);
    });
}

void Simulation::throttle(uint16_t g, Cpu c) {
    turned_.clear();
    fair_.hold(g, c, now_, &turned_);
    limits_[g].throttled.push_back(c);
    stands(g, c);
    for (TaskId id : turned_) {
        Task& t = tasks_[id.v];
        if (cpus_[c.v].curr == id && t.state == Task::State::running) continue;  // it is on its way out
        wait_ends(t);
        t.state = Task::State::held;
    }
}

/// `g` has somebody to run on `c`, and may not: that is what cpu.stat counts.
void Simulation::stands(uint16_t g, Cpu c) {
    if (limits_[g].since[c.v] < 0 && fair_.held(g, c) && fair_.occupied(g, c)) limits_[g].since[c.v] = now_;
}

void Simulation::stood(uint16_t g, Cpu c) {
    const Ns since = std::exchange(limits_[g].since[c.v], -1);
    if (since < 0) return;
    const Ns from = std::clamp(since, script_.measured, out_.to), to = std::clamp(now_, script_.measured, out_.to);
    out_.throttled += to - from;
}

void Simulation::go_on(uint16_t g, Cpu c) {
    stood(g, c);
    std::erase(limits_[g].throttled, c);
    turned_.clear();
    fair_.release(g, c, now_, &turned_);
    machine_.unthrottle(g, c, now_);
    for (TaskId id : turned_) {
        Task& t = tasks_[id.v];
        if (t.state != Task::State::held) continue;
        t.state = Task::State::queued;
        wait_begins(t);
    }
    if (turned_.empty() || !is_idle(c)) return;  // a busy CPU looks when it looks
    const double u = uniform(opt_.seed, c.v, static_cast<uint64_t>(now_));
    request(c, std::max(now_, cpus_[c.v].handling) + costs_.draw(Path::idle, Relation::same_llc, false, 0, u).run);
}

/// Those that were throttled first get first what they overdrew (distribute_cfs_runtime()).
void Simulation::distribute(uint16_t g) {
    const std::vector<Cpu> waiting = limits_[g].throttled;
    for (Cpu c : waiting) {
        if (quotas_[g].is_empty()) return;
        if (quotas_[g].give(c)) go_on(g, c);
    }
}

void Simulation::refill(uint16_t g) {
    for (size_t i = 0; i < cpus_.size(); ++i) spend(Cpu(static_cast<uint16_t>(i)));
    quotas_[g].refill(now_);
    push(now_ + quotas_[g].period(), What::refill, g);
    distribute(g);
}

/// What a group's last task on a CPU leaves over goes to CPUs that are throttled, a while later.
void Simulation::give_back(uint16_t g, Cpu c) {
    quotas_[g].quiet(c);
    Limit& limit = limits_[g];
    if (limit.slack || limit.throttled.empty() || !quotas_[g].has_slack()) return;
    if (quotas_[g].due() < now_ + kSlackAfter + kSlackBefore) return;
    limit.slack = true;
    push(now_ + kSlackAfter, What::slack, g);
}

void Simulation::slack(uint16_t g) {
    limits_[g].slack = false;
    if (quotas_[g].due() >= now_ + kSlackBefore && quotas_[g].has_slack()) distribute(g);
}

/// The machine model hears of those that were throttled when a task left `c`.
void Simulation::tell_limits() {
    for (const auto& [g, at] : told_) machine_.throttle(g, at, now_);
    told_.clear();
}

}  // namespace rewake::closed
