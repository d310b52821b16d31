// SPDX-License-Identifier: GPL-2.0-or-later
// CFS bandwidth control (cpu.max, kernel/sched/fair.c of 5.4 - 6.17): how much run time a group has left. Every period it
// gets its quota into a pool, from which the CPUs that run it draw slices. Modelled: no event tells of it. Until the model
// has seen when a period begins, the pool never ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "replay/model/ids.hpp"

namespace rewake {

class Quota {
  public:
    Quota(Ns quota, Ns period, size_t n_cpus) : quota_(quota), period_(period), left_(n_cpus, 0) {}

    /// The group ran for `ns` on a CPU.
    void ran(Cpu c, Ns ns) {
        left_[c.v] -= ns;
        draw(c);
    }
    /// It has nothing left there, and there is nothing to draw.
    bool used_up(Cpu c) {
        draw(c);
        return left_[c.v] <= 0;
    }
    /// Its last task there sleeps: most of what is left goes back.
    void quiet(Cpu c) {
        if (left_[c.v] <= kKept) return;
        if (pool_ < kEndless) pool_ += left_[c.v] - kKept;
        left_[c.v] = kKept;
    }
    /// It turned out to have nothing left, or something after all.
    void set_used_up(Cpu c) {
        pool_ = 0;
        left_[c.v] = std::min<Ns>(left_[c.v], 0);
    }
    void set_left(Cpu c) { left_[c.v] = std::max(left_[c.v], kKept); }

    /// A period began at `at`.
    void refill(Ns at) {
        refilled_ = at;
        pool_ = quota_;
    }
    /// It makes up for what was overdrawn on a CPU that was throttled, and lets it go on.
    void forgive(Cpu c) {
        if (left_[c.v] > 0) return;
        pool_ = std::max<Ns>(0, pool_ - (1 - left_[c.v]));
        left_[c.v] = 1;
    }
    /// When the next period begins; far ahead where that is not known.
    Ns due() const { return refilled_ == 0 ? std::numeric_limits<Ns>::max() : refilled_ + period_; }
    /// Whether a period may begin now, give or take `slop`.
    bool near(Ns now, Ns slop) const {
        if (refilled_ == 0) return false;
        const Ns past = (now - refilled_) % period_;
        return std::min(past, period_ - past) < slop;
    }

  private:
    static constexpr Ns kSlice = 5'000'000;  // sched_cfs_bandwidth_slice_us
    static constexpr Ns kKept = 1'000'000;  // min_cfs_rq_runtime
    static constexpr Ns kEndless = std::numeric_limits<Ns>::max() / 4;
    void draw(Cpu c) {
        if (left_[c.v] > 0) return;
        const Ns got = std::min(pool_, kSlice - left_[c.v]);
        if (pool_ < kEndless) pool_ -= got;
        left_[c.v] += got;
    }

    Ns quota_, period_;
    Ns pool_ = kEndless;
    Ns refilled_ = 0;
    std::vector<Ns> left_;  // by CPU
};

}  // namespace rewake
