// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/masks.hpp"

#include <limits>
#include <utility>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

std::vector<uint32_t> MaskChanges::at(Ns ts) const {
    std::vector<uint32_t> out(table_.tasks.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = table_.tasks[i].allowed;
    for (const MaskChange& m : all_)
        if (m.ts <= ts) out[m.p.v] = m.mask;
    return out;
}

void MaskChanges::begin_with(std::vector<MaskChange> all) {
    all_ = std::move(all);
    if (!all_.empty()) now_ = at(std::numeric_limits<Ns>::min());
}

Masks MaskChanges::during(Ns from, Ns horizon) const {
    Masks out;
    if (all_.empty() || all_.front().ts > horizon) return out;
    out.at_begin = at(from);
    for (const MaskChange& m : all_)
        if (m.ts > from && m.ts <= horizon) out.later.push_back(m);
    return out;
}

const CpuMask& MaskChanges::of(TaskId t, Ns now) {
    if (now_.empty()) return table_.allowed(t).mask;
    for (; next_ < all_.size() && all_[next_].ts <= now; ++next_) now_[all_[next_].p.v] = all_[next_].mask;
    return t.v < now_.size() ? table_.masks[now_[t.v]].mask : table_.allowed(t).mask;
}

void Simulation::allow(Task& t, uint32_t mask) {
    const TaskTable::Allowed& a = table_.masks[mask];
    t.allowed = mask & 0xfffffff;
    t.free = a.mask == table_.masks[0].mask;
    t.one_cpu = a.n == 1;
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
        run_instead(from, TaskId(from.v));
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
