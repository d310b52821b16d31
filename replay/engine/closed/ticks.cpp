// SPDX-License-Identifier: GPL-2.0-or-later
// The clock of a simulated machine: ticks, and the ends of slices.
#include <algorithm>
#include <cstdlib>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

/// When the slice of what runs on `c` will be over. Alone it has none, and a timer that is set stays (hrtick_start_fair(), 7.2).
void Simulation::plan_slice(Cpu c) {
    constexpr Ns kShortest = 10'000, kSame = 5'000;  // hrtick_start(), hrtick_needs_rearm()
    const std::optional<Ns> left = fair_.slice_left(c);
    CpuState& cpu = cpus_[c.v];
    if (!left || cpu.reserved) return;
    const Ns at = now_ + std::max(*left, kShortest);
    if (cpu.slice >= 0 && std::abs(at - cpu.slice) <= kSame) return;
    cpu.slice = at;
    push(at, What::slice, c.v);
}

/// Somebody was put on the queue of `c`, and what runs there goes on: its slice is timed from now on. `by_other`: from another
/// CPU, which cannot set the timer, and sends an interrupt for it.
void Simulation::joined(Cpu c, bool by_other) {
    if (!fair_.times_slices() || cpus_[c.v].slice >= 0) return;
    plan_slice(c);
    if (by_other && cpus_[c.v].slice >= 0) in_kernel(c);
}

/// The kernel looks at the clock on `c`, or the timer of a slice has fired: then it need not.
void Simulation::ticked(Cpu c, bool by_slice) {
    if (cpus_[c.v].reserved || cpus_[c.v].leaving || idle(cpus_[c.v].curr)) return;
    settle(c);
    fair_.charge(c, now_);
    const bool spent = !limits_.empty() && spent_up(c);
    if (!fair_.tick(c) && !spent && !by_slice && !cpus_[c.v].told_lazily) return;
    const double u = uniform(opt_.seed, c.v, static_cast<uint64_t>(now_));
    request(c, now_ + costs_.draw(Path::preempt, Relation::same_cpu, true, 0, u).run);
}

/// `woken`, just queued on `c`, is to have its CPU, and what runs there goes only when it next comes into the kernel: another
/// CPU queued it (TIF_NEED_RESCHED_LAZY, 6.13). Of those that often do, by calls that no event shows, that is in the costs.
bool Simulation::told_lazily(Cpu c, const Task& woken) const {
    const TaskId curr = cpus_[c.v].curr;
    return curr.v < opt_.computes.size() && opt_.computes[curr.v] && !woken.by_other &&
           woken.from != Relation::same_cpu;
}

/// An interrupt is on `c`: what runs there leaves it, if it was told lazily.
void Simulation::in_kernel(Cpu c) {
    if (!cpus_[c.v].told_lazily) return;
    const double u = uniform(opt_.seed, c.v, static_cast<uint64_t>(now_));
    request(c, std::max(now_, cpus_[c.v].handling) + costs_.draw(Path::preempt, Relation::same_cpu, true, 0, u).run);
}

/// The interrupt of a tick, and the softirqs behind it, wake whom they wake before what runs there is switched out.
void Simulation::foresee_wakeups() {
    constexpr Ns kInterrupt = 20'000;
    const auto wakes = [this](Cpu c, Ns at) { cpus_[c.v].wakes = std::max(cpus_[c.v].wakes, at); };
    events_.each_planned([this](const Happening& e) { return e.at < now_ + kInterrupt; },
                         [&](const Happening& e) {
                             if (e.what != What::outside || fired_at_[e.a] >= 0) return;
                             if (const Stim& s = script_.stims[e.a]; !s.in_task) wakes(s.waker, e.at);
                         });
    for (size_t i = 0; i < cpus_.size(); ++i)
        for (const Timer& t : timers_[i])
            if (t.due > now_ && t.due < now_ + kInterrupt && fired_at_[t.stim] < 0)
                wakes(Cpu(static_cast<uint16_t>(i)), t.due);
}

/// On all CPUs at once.
void Simulation::tick() {
    foresee_wakeups();
    for (size_t i = 0; i < cpus_.size(); ++i) ticked(Cpu(static_cast<uint16_t>(i)));
    if (balances()) periodic();
}

}  // namespace rewake::closed
