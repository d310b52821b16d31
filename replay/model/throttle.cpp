// SPDX-License-Identifier: GPL-2.0-or-later
// Throttled groups (cpu.max): no event tells when a group has used up its quota on a CPU, so it is seen by what its tasks
// do. The queues of a throttled group stand still: its tasks are not runnable, wherever they wake, until its next period.
#include <algorithm>
#include <utility>

#include "replay/model/machine.hpp"

namespace rewake {

namespace {
constexpr Ns kStarts = 100'000;  // an idle CPU has begun with what was queued there by then
constexpr Ns kGoes = 100'000;  // a task whose group has nothing left has given up its CPU by then
}  // namespace

void Machine::park(TaskId id, Task& t) {
    if (t.state == State::queued || t.state == State::throttled) unlink(id, t);
    t.state = State::throttled;  // its queue is not empty
    uncount(t);
    estimate(t, !table_.throttles_tasks);
    link(id, t);
}

/// The CPU went idle over waiting tasks: they are throttled or, where no group of theirs has a limit, have left unseen or are
/// forced out (core scheduling).
void Machine::park_all(Cpu c) {
    CpuState& cpu = cpus_[c.v];
    while (cpu.head != kNoTask) {
        const TaskId id(cpu.head);
        Task& t = tasks_[id.v];
        park(id, t);
        if (groups_.any() && !groups_.limited(t.group)) continue;
        ++counts_.throttled;
        ++counts_.throttled_by_cpu[c.v];
        const TaskInfo& info = table_.info(id);
        if (!info.has_cgroup) continue;
        if (info.cgroup >= counts_.throttled_by_cgroup.size()) counts_.throttled_by_cgroup.resize(info.cgroup + 1);
        ++counts_.throttled_by_cgroup[info.cgroup];
    }
    for (uint32_t q = cpu.parked; q != kNoTask; q = tasks_[q].next)
        if (const uint16_t limit = groups_.limited(tasks_[q].group)) hold(limit, c, Held::seen);
}

void Machine::hold(uint16_t limit, Cpu c, Held how) {
    Held& held = held_[limit * cpus_.size() + c.v];
    if (how == Held::seen) quotas_[limit].set_used_up(c);
    if (held == Held::seen || held == how) return;
    if (std::exchange(held, how) != Held::no) return;
    if (watches_limits_) limit_news_.turned.emplace_back(limit, c);
    for (uint32_t q = cpus_[c.v].head; q != kNoTask;) {
        Task& t = tasks_[q];
        const TaskId id(std::exchange(q, t.next));
        if (groups_.within(t.group, limit)) park(id, t);
    }
    accrue(c);
    groups_.update(limit, at(c), false);
    groups_.stop(limit, c, pelt_clock(c));
    refresh(c);
}

void Machine::release(uint16_t limit, Cpu c, bool forget) {
    Held& held = held_[limit * cpus_.size() + c.v];
    if (held == Held::no) return;
    held = Held::no;
    if (watches_limits_) limit_news_.turned.emplace_back(limit, c);
    groups_.start(limit, c, pelt_clock(c), forget);
    for (uint32_t q = cpus_[c.v].parked; q != kNoTask;) {
        Task& t = tasks_[q];
        const TaskId id(std::exchange(q, t.next));
        if (!groups_.stopped(t.group, c)) enqueue(id, t, c);
    }
}

/// The group has quota again, on all CPUs at once.
void Machine::refill(uint16_t limit, Ns at) {
    Quota& quota = quotas_[limit];
    quota.refill(at);
    for (uint16_t i = 0; i < cpus_.size(); ++i) {
        if (held_[limit * cpus_.size() + i] == Held::no) continue;
        quota.forgive(Cpu(i));
        release(limit, Cpu(i), false);
    }
    next_period_ = std::numeric_limits<Ns>::max();
    for (uint16_t g = 1; g < quotas_.size(); ++g)
        if (groups_.limited(g) == g) next_period_ = std::min(next_period_, quotas_[g].due());
}

void Machine::periods() {
    for (uint16_t g = 1; g < quotas_.size(); ++g)
        while (groups_.limited(g) == g && now_ >= quotas_[g].due()) refill(g, quotas_[g].due());
}

/// The recording begins within a period. A group that goes on just when the next one begins was throttled until then: what it
/// had left of this one's quota is the time that it ran, and if it did not run at all nothing.
void Machine::begin_throttled(const SwitchColumns& sw) {
    const auto within = [&](uint32_t task, uint16_t g) { return groups_.within(table_.info(TaskId(task)).group, g); };
    std::vector<Ns> since(cpus_.size());
    for (uint16_t g = 1; g < quotas_.size(); ++g) {
        if (groups_.limited(g) != g || !quotas_[g].fixed()) continue;
        const Ns due = quotas_[g].due();
        Ns ran = 0;
        size_t running = 0;
        for (size_t c = 0; c < cpus_.size(); ++c) {
            const bool runs = cpus_[c].runs_fair && within(cpus_[c].curr.v, g);
            since[c] = runs ? began_ : -1;
            running += runs;
        }
        size_t i = 0;
        for (; i < sw.n && sw.ts[i] < due - kStarts; ++i) {
            Ns& from = since[sw.cpu[i]];
            const bool runs = within(sw.next_task[i], g);
            if (from >= 0) ran += sw.ts[i] - from, --running;
            from = runs ? sw.ts[i] : -1;
            running += runs;
        }
        while (i < sw.n && !within(sw.next_task[i], g)) ++i;
        if (running > 0 || i == sw.n || sw.ts[i] > due + kStarts) continue;
        if (ran > 0) quotas_[g].begin_with(ran);
        for (uint16_t c = 0; ran == 0 && c < cpus_.size(); ++c) hold(g, Cpu(c), Held::seen);
    }
}

/// A throttled task runs: its group got its quota, or was not throttled there.
void Machine::resume(uint16_t group, Cpu c) {
    for (uint16_t limit = groups_.limited(group); limit != 0; limit = groups_.limited(groups_[limit].parent)) {
        const Held held = held_[limit * cpus_.size() + c.v];
        if (held == Held::no) continue;
        if (held == Held::seen && watches_limits_) limit_news_.refills.emplace_back(limit, now_);
        if (quotas_[limit].near(now_, kStarts) || (held == Held::seen && !quotas_[limit].fixed())) {
            refill(limit, now_);
        } else {  // what another CPU left over, or it was not throttled
            quotas_[limit].set_left(c);
            release(limit, c, held == Held::assumed);
        }
    }
}

void Machine::account(uint16_t group, Cpu c) {
    const Ns ran = now_ - std::exchange(cpus_[c.v].ran_from, now_);
    for (uint16_t limit = groups_.limited(group); limit != 0; limit = groups_.limited(groups_[limit].parent)) {
        if (ran > kGoes) quotas_[limit].goes_on(c);
        quotas_[limit].ran(c, ran);
    }
}

/// A task queues in `group`, whose queue there looks first at what ran in it (enqueue_entity calls update_curr).
void Machine::joins(uint16_t group, Cpu c) {
    if (!cpus_[c.v].runs_fair || groups_.limited(group) == 0) return;
    const uint16_t runs = tasks_[cpus_[c.v].curr.v].group;
    if (groups_.within(runs, group)) account(runs, c);
}

/// A task of `group` left the CPU, which goes on with one of another: that is when the kernel looks at what is left.
void Machine::left(uint16_t group, Cpu c, uint16_t next_group) {
    for (uint16_t limit = groups_.limited(group); limit != 0; limit = groups_.limited(groups_[limit].parent)) {
        if (groups_.within(next_group, limit)) return;
        if (quotas_[limit].used_up(c))
            hold(limit, c, Held::assumed);
        else if (!groups_.queued(limit, c))
            quotas_[limit].quiet(c);
    }
}

/// The first task that queues there finds nothing left.
bool Machine::starved(uint16_t group, Cpu c) {
    bool any = false;
    for (uint16_t limit = groups_.limited(group); limit != 0; limit = groups_.limited(groups_[limit].parent)) {
        if (groups_.queued(limit, c) || !quotas_[limit].used_up(c)) continue;
        hold(limit, c, Held::assumed);
        any = true;
    }
    return any;
}

/// Idle CPUs that should long have begun with what is queued there.
void Machine::look_for_held() {
    std::erase_if(waits_, [this](const auto& wait) {
        const auto [c, since] = wait;
        const CpuState& cpu = cpus_[c.v];
        if (!cpu.curr_known || !is_idle_task(cpu.curr) || cpu.head == kNoTask) return true;
        if (now_ - since < kStarts) return false;
        for (uint32_t q = cpu.head; q != kNoTask;) {
            const Task& t = tasks_[q];
            const uint16_t limit = groups_.limited(t.group);
            q = t.next;
            if (limit == 0) continue;
            hold(limit, c, Held::seen);
            q = cpu.head;
        }
        return true;
    });
}

}  // namespace rewake
