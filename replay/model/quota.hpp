// SPDX-License-Identifier: GPL-2.0-or-later
// CFS bandwidth control (cpu.max, kernel/sched/fair.c of 5.4 - 6.17): how much run time a group has left. Every period it
// gets its quota into a pool, from which the CPUs that run it draw slices. Modelled: no event tells of it. Until the model
// has seen when a period begins, the pool never ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <vector>

#include "replay/model/ids.hpp"

namespace rewake {

class Quota {
  public:
    Quota(Ns quota, Ns period, size_t n_cpus)
        : quota_(quota), period_(period), left_(n_cpus, 0), short_(n_cpus, false) {}

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
    /// It runs on there, although nothing was left when that was last looked at: it had drawn what the model took to be gone.
    void goes_on(Cpu c) {
        if (left_[c.v] <= 0 && short_[c.v]) left_[c.v] = kSlice;
    }
    void set_left(Cpu c) { left_[c.v] = std::max(left_[c.v], kKept); }

    /// A period began at `at`.
    void refill(Ns at) {
        refilled_ = fixed_ ? begin_near(at) : at;
        pool_ = quota_;
        std::fill(short_.begin(), short_.end(), false);
    }
    /// Periods begin on `at` and every period before and after it, whatever is seen later. `now`: any time.
    void begin_at(Ns at, Ns now) {
        fixed_ = true;
        refilled_ = at;
        refilled_ = begin_near(now);
        if (refilled_ > now) refilled_ -= period_;
    }
    /// So much is left until the next one.
    void begin_with(Ns left) { pool_ = left; }
    bool fixed() const { return fixed_; }
    Ns period() const { return period_; }
    /// A CPU that was throttled gets what it overdrew, and a little more, of what is in the pool. Whether that was enough.
    bool give(Cpu c) {
        const Ns got = std::clamp<Ns>(1 - left_[c.v], 0, pool_);
        if (pool_ < kEndless) pool_ -= got;
        left_[c.v] += got;
        return left_[c.v] > 0;
    }
    bool is_empty() const { return pool_ <= 0; }
    /// More is left than a CPU draws at once.
    bool has_slack() const { return pool_ < kEndless && pool_ > kSlice; }
    /// It makes up for what was overdrawn on a CPU that was throttled, and lets it go on.
    void forgive(Cpu c) {
        if (left_[c.v] > 0) return;
        pool_ = std::max<Ns>(0, pool_ - (1 - left_[c.v]));
        left_[c.v] = 1;
    }
    /// When the next period begins; far ahead where that is not known.
    Ns due() const { return refilled_ == kNever ? std::numeric_limits<Ns>::max() : refilled_ + period_; }
    /// Whether a period may begin now, give or take `slop`.
    bool near(Ns now, Ns slop) const {
        if (refilled_ == kNever) return false;
        const Ns past = std::abs(now - refilled_) % period_;
        return std::min(past, period_ - past) < slop;
    }

  private:
    static constexpr Ns kSlice = 5'000'000;  // sched_cfs_bandwidth_slice_us
    static constexpr Ns kKept = 1'000'000;  // min_cfs_rq_runtime
    static constexpr Ns kEndless = std::numeric_limits<Ns>::max() / 4;
    static constexpr Ns kNever = std::numeric_limits<Ns>::min();
    /// The beginning of a period nearest to `at`; one is known.
    Ns begin_near(Ns at) const {
        const Ns into = (at - refilled_) % period_, past = into < 0 ? into + period_ : into;
        return at - past + (2 * past > period_ ? period_ : 0);
    }
    void draw(Cpu c) {
        if (left_[c.v] > 0) return;
        const Ns got = std::min(pool_, kSlice - left_[c.v]);
        if (pool_ < kEndless) pool_ -= got;
        left_[c.v] += got;
        short_[c.v] = left_[c.v] <= 0;
    }

    Ns quota_, period_;
    Ns pool_ = kEndless;
    Ns refilled_ = kNever;
    bool fixed_ = false;
    std::vector<Ns> left_;  // by CPU
    std::vector<bool> short_;  // there was nothing to draw in this period when it was last looked at
};

}  // namespace rewake
