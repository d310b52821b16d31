// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/masks.hpp"

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

Masks masks_of(const std::vector<MaskChange>& all, const TaskTable& table, Ns from, Ns horizon) {
    Masks out;
    if (all.empty() || all.front().ts > horizon) return out;
    out.at_begin.resize(table.tasks.size());
    for (size_t i = 0; i < out.at_begin.size(); ++i) out.at_begin[i] = table.tasks[i].allowed;
    for (const MaskChange& m : all) {
        if (m.ts <= from)
            out.at_begin[m.p.v] = m.mask;
        else if (m.ts <= horizon)
            out.later.push_back(m);
    }
    return out;
}

void Simulation::allow(Task& t, uint32_t mask) {
    const int n = table_.masks[mask].n;
    t.allowed = mask & 0x1fffffff;
    t.free = n >= table_.masks[0].n;
    t.one_cpu = n == 1;
}

/// A mask changes. Who waits or runs outside it is moved at once, as the stopper does (__set_cpus_allowed_ptr(), 6.1).
void Simulation::change_mask(uint32_t index) {
    constexpr Ns kAgain = 10'000;
    const MaskChange& m = script_.masks.later[index];
    Task& t = tasks_[m.p.v];
    wait_ends(t);
    allow(t, m.mask);
    if (t.state == Task::State::queued) wait_begins(t);
    if (opt_.pinned || !t.script || t.state == Task::State::asleep || t.state == Task::State::gone) return;
    if (allowed(t).mask.test(t.cpu)) return;
    const Cpu from = t.cpu, to = spread(m.p);
    CpuState& cpu = cpus_[from.v];
    const bool runs = t.state == Task::State::running;
    if (runs && cpu.leaving) return;  // it sleeps
    const bool fixed = !runs && t.state != Task::State::queued;  // on its way, or throttled
    if (fixed || (runs && cpu.reserved) || fair_.blocked(m.p, to)) return push(now_ + kAgain, What::mask, index);
    if (runs) {
        settle(from);
        fair_.charge(from, now_);
        fair_.stop(from, now_);
        t.state = Task::State::queued;
        wait_begins(t);
        switch_to(from, m.p, kRuns, TaskId(from.v));
    }
    relocate(m.p, to);
    if (runs && fair_.size(from) > 0) schedule(from, TaskId(from.v), kRuns);
    came(m.p, to);
}

/// A CPU that `id` may use: one after the other (cpumask_any_and_distribute(), 5.8).
Cpu Simulation::spread(TaskId id) {
    const CpuMask& mask = allowed(tasks_[id.v]).mask;
    do spread_ = static_cast<uint16_t>((spread_ + 1) % topo_.n_cpus);
    while (!mask.test(Cpu(spread_)));
    return Cpu(spread_);
}

}  // namespace rewake::closed
