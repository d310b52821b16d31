// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/irq_ticks.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace rewake {

IrqTicks::IrqTicks(const Topology& topo, uint32_t hz)
    : online_(topo.online), cpus_(static_cast<size_t>(topo.n_cpus)), hz_(hz), period_(1'000'000'000 / hz) {
    next_threshold_ = kWarmUp / period_;
    threshold_every_ = 5 * int64_t{hz} + 1;
}

const IrqLoad& IrqTicks::estimate(const IrqSettings& settings) {
    for (const IrqEstimator& e : estimators_)
        if (e.settings() == settings) return e.load();
    IrqEstimator& e = estimators_.emplace_back(static_cast<int>(cpus_.size()), hz_, settings);
    for (size_t i = 0; i < cpus_.size(); ++i)
        if (const Cpu c(static_cast<uint16_t>(i)); !online_.test(c)) e.online(c, false);
    return e.load();
}

void IrqTicks::set_online(const CpuMask& online) {
    for (size_t i = 0; i < cpus_.size(); ++i)
        if (const Cpu c(static_cast<uint16_t>(i)); online.test(c) != online_.test(c))
            for (IrqEstimator& e : estimators_) e.online(c, online.test(c));
    online_ = online;
}

void IrqTicks::tick(Ns at) {
    for (size_t i = 0; i < cpus_.size(); ++i) {
        CpuState& c = cpus_[i];
        if (c.depth > 0) {
            c.spent += at - c.since;
            c.since = at;
        }
        const Cpu cpu(static_cast<uint16_t>(i));
        if (!online_.test(cpu) || (c.idle && at - c.idle_since > period_)) continue;  // the tick is stopped
        for (IrqEstimator& e : estimators_) e.tick(cpu, c.spent, c.entries);
        c.spent = 0;
        c.entries = 0;
    }
    const bool due = ++ticks_ >= next_threshold_;
    for (IrqEstimator& e : estimators_)
        if (due || (e.settings().warm && !computed_)) e.recompute();
    if (due) {
        computed_ = true;
        next_threshold_ = ticks_ + threshold_every_;
    }
}

void IrqTicks::advance(Ns ts) {
    ts = std::min(ts, std::numeric_limits<Ns>::max() / 4);  // a corrupted time must not wrap the sums below
    if (!started_) {
        started_ = true;
        next_ = ts + period_;
        for (CpuState& c : cpus_) c.idle_since = ts;
    }
    if (ts - next_ > 2 * kSettle * period_) {  // a gap in the record, or a corrupted time: its middle changes nothing
        for (int i = 0; i < kSettle; ++i, next_ += period_) tick(next_);
        const Ns skipped = (ts - next_) / period_ - kSettle;
        next_ += skipped * period_;
        ticks_ += skipped;
    }
    for (; next_ <= ts; next_ += period_) tick(next_);
}

void IrqTicks::irq(Cpu c, bool entry, Ns ts) {
    advance(ts);
    CpuState& s = cpus_[c.v];
    if (entry) {
        if (s.depth++ == 0) {
            s.since = ts;
            ++s.entries;
        }
    } else if (s.depth > 0 && --s.depth == 0) {
        s.spent += ts - s.since;
    }
}

void IrqTicks::end_all(Ns ts) {
    advance(ts);
    for (CpuState& s : cpus_)
        if (std::exchange(s.depth, 0) > 0) s.spent += ts - s.since;
}

void IrqTicks::idle(Cpu c, bool now_idle, Ns ts) {
    advance(ts);
    CpuState& s = cpus_[c.v];
    if (now_idle && !s.idle) s.idle_since = ts;
    s.idle = now_idle;
}

}  // namespace rewake
