// SPDX-License-Identifier: GPL-2.0-or-later
// The clock of a simulated machine: ticks, and the ends of slices.
#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

/// When the slice of what runs on `c` will be over.
void Simulation::plan_slice(Cpu c) {
    const std::optional<Ns> left = fair_.slice_left(c);
    if (!left || cpus_[c.v].reserved) return;
    cpus_[c.v].slice = seq_;
    push(now_ + *left, What::slice, c.v);
}

/// The kernel looks at the clock on `c`.
void Simulation::ticked(Cpu c) {
    if (cpus_[c.v].reserved || cpus_[c.v].leaving || idle(cpus_[c.v].curr)) return;
    settle(c);
    fair_.charge(c, now_);
    const bool spent = !limits_.empty() && spent_up(c);
    if (!fair_.tick(c) && !spent) return;
    const double u = uniform(opt_.seed, c.v, static_cast<uint64_t>(now_));
    request(c, now_ + costs_.draw(Path::preempt, Relation::same_cpu, true, 0, u).run);
}

/// On all CPUs at once.
void Simulation::tick() {
    for (size_t i = 0; i < cpus_.size(); ++i) ticked(Cpu(static_cast<uint16_t>(i)));
    if (opt_.balance == Balance::model || opt_.balance == Balance::recorded_rate) periodic();
}

}  // namespace rewake::closed
