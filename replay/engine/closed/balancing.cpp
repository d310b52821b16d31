// SPDX-License-Identifier: GPL-2.0-or-later
// Balancing: what CPUs that go idle take, and what all of them even out at ticks (newidle_balance(), rebalance_domains(),
// nohz_idle_balance() of 6.1).
#include <algorithm>

#include "replay/engine/closed/pulling.hpp"
#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

namespace {
constexpr Ns kMs = 1'000'000;
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

/// Whether `id` may run there at all.
bool Simulation::goes_to(TaskId id, Cpu to) const {
    return allowed(tasks_[id.v]).mask.test(to) && !fair_.blocked(id, to);
}

/// Whether balancing may move `id`.
bool Simulation::may_pull(TaskId id, Cpu to) const {
    const Task& t = tasks_[id.v];
    const bool late = t.state == Task::State::asleep && !t.leaving && fair_.delayed(id);
    return (t.state == Task::State::queued || late) && goes_to(id, to) && !held(t, to);
}

/// `c` has had nothing to run since then: the waiting task that it pulls, perhaps; kNone: none. Asked twice for one sleep, it
/// looks on the same levels, the second time for good: `takes`.
TaskId Simulation::to_pull(Cpu c, Ns since, bool takes) {
    const TaskId none(kNone);
    if (!balances() || !Movable(fair_, machine_).any(topo_.words) || machine_.expects(c)) return none;
    const int64_t avg_idle = machine_.view().avg_idle[c.v];
    if (opt_.balance == Balance::model && avg_idle < 500'000) return none;
    const int* const levels = &topo_.levels[c.v * topo_.depth];
    for (size_t k = 0; k < topo_.depth && levels[k] != Topology::kNone; ++k) {
        const Domain& d = topo_.domains[static_cast<size_t>(levels[k])];
        // In this order: of many CPUs the domain is not in the cache.
        if (!topo_.all_affine && !d.load_balance) continue;
        const double rate = opt_.balance == Balance::model ? 1 : opt_.pulls[pull_level(k)][idle_class(avg_idle)];
        if (rate <= 0) continue;
        if (rate < 1 && uniform(opt_.seed, c.v | k << 16, static_cast<uint64_t>(since)) >= rate) continue;
        TaskId found = none;
        int& failed = cpus_[c.v].balancing[k].failed;
        Pulling pulling(fair_, machine_, d, c, Has::none_now, failed);
        if (pulling.uneven())
            pulling.each(
                now_, opt_.migration_cost, [&](TaskId id) { return goes_to(id, c); },
                [&](TaskId id) { return may_pull(id, c); }, [&](TaskId id) { found = id; },
                [&](TaskId id) { takes ? fair_.passed_over(id) : void(); });
        if (!pulling.uneven() || found.v != kNone) failed = 0;
        if (found.v != kNone) return found;
    }
    return none;
}

/// Who sleeps leaves its run queue when it would be picked there: then `c` looks again.
void Simulation::new_idle(Cpu c, Ns since) {
    while (fair_.size(c) == 0) {
        const TaskId id = to_pull(c, since++, true);
        if (id.v == kNone) return;
        relocate(id, c);
        if (counted()) ++out_.newidle_moves;
        if (fair_.size(c) == 0) fair_.drain(c), let_go();
    }
}

/// `to` evens out one of its levels. How many tasks came; nothing: its groups are even.
std::optional<size_t> Simulation::even_out(Cpu to, const Domain& level, Has has, int failed) {
    Pulling pulling(fair_, machine_, level, to, has, failed);
    if (!pulling.uneven()) return {};
    std::vector<TaskId> all;
    pulling.each(
        now_, opt_.migration_cost, [&](TaskId id) { return goes_to(id, to); },
        [&](TaskId id) { return may_pull(id, to); }, [&](TaskId id) { all.push_back(id); },
        [&](TaskId id) { fair_.passed_over(id); });
    if (!pulling.uneven()) return {};
    for (TaskId id : all) relocate(id, to);
    if (counted()) out_.periodic_moves += static_cast<int64_t>(all.size());
    return all.size();
}

/// Whether one of those ticks, the next one last, is this one. Lets go of it, and of earlier ones.
bool Simulation::reached(std::vector<Ns>& ticks, Ns jiffy) const {
    bool now = false;
    for (; !ticks.empty() && ticks.back() <= now_; ticks.pop_back()) now |= ticks.back() > now_ - jiffy;
    return now;
}

/// `c` evens out the levels whose interval is over: so many ms as the level has CPUs (isolated ones too), up to twice that while it is even, and 16
/// times longer if `c` is busy. Who has only tasks of SCHED_IDLE counts as idle there (5.7+). Intervals are jiffies, which no policy
/// changes: where a recorded pull tells that `c` looked, it does.
void Simulation::rebalance(Cpu c) {
    CpuState& cpu = cpus_[c.v];
    const bool was_idle = idle(cpu.curr);
    const Ns jiffy = 1'000'000'000 / opt_.hz;
    const int online = topo_.online.count(topo_.words);
    bool came = false;
    for (size_t k = 0; k < topo_.stack[c.v].size(); ++k) {
        const Domain& d = topo_.domains[static_cast<size_t>(topo_.stack[c.v][k])];
        if (!d.load_balance) continue;
        CpuState::Balancing& b = cpu.balancing[k];
        const bool busy = (!was_idle || came) && !(opt_.at_least(5, 7) && machine_.view().sidle.test(c));
        const bool told = reached(b.told, jiffy), silent = reached(b.silent, jiffy);
        if (silent) continue;
        if (!told && now_ < b.last + jiffy * Balancer::jiffies(b.interval / kMs, busy, jiffy, online)) continue;
        b.last = now_;
        const bool leader = balances_for_group(machine_, c, d, opt_.at_least(6, 6));
        const auto n = leader ? even_out(c, d, was_idle && !came ? Has::none : Has::tasks, b.failed) : std::nullopt;
        b.failed = n == 0u ? b.failed + 1 : 0;
        b.interval = n ? kMs * d.least_ms : std::min(2 * kMs * d.least_ms, 2 * b.interval);
        if (!leader) break;
        came |= n.value_or(0) > 0;
    }
    if (!came || !was_idle || fair_.size(c) == 0) return;  // of size 0: all of them sleep
    const double u = uniform(opt_.seed, c.v, static_cast<uint64_t>(now_));
    request(c, now_ + costs_.draw(Path::idle, Relation::same_llc, true, 0, u).run);
}

/// At a tick. Idle CPUs of which the tick has stopped do it when one that competes for tasks tells the first of them to, which does
/// it for all, itself last (nohz_balancer_kick()).
void Simulation::periodic() {
    const Ns jiffy = 1'000'000'000 / opt_.hz;
    std::vector<Cpu> stopped;
    bool kicks = false;
    for (size_t i = 0; i < cpus_.size(); ++i) {
        const Cpu c(static_cast<uint16_t>(i));
        const CpuState& cpu = cpus_[i];
        if (cpu.reserved || cpu.leaving || !topo_.online.test(c)) continue;
        const bool is_idle = idle(cpu.curr);
        if (is_idle && !machine_.view().avail.test(c)) continue;
        if (is_idle && now_ - cpu.since >= jiffy) {
            stopped.push_back(c);
            continue;
        }
        rebalance(c);
        const CpuMask& llc = topo_.llc_span[topo_.llc[i].v];
        kicks |= !is_idle && (machine_.view().nr[i] > 1 || (llc & machine_.view().idle).count() + 1 < llc.count());
    }
    if (!kicks || stopped.empty()) return;
    std::ranges::rotate(stopped, stopped.begin() + 1);
    for (const Cpu c : stopped)
        if (fair_.size(c) == 0) rebalance(c);
}

}  // namespace rewake::closed
