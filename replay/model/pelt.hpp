// SPDX-License-Identifier: GPL-2.0-or-later
// Per-entity load tracking (PELT, kernel/sched/pelt.c of 5.1 - 7.2): averages of what a task or a run queue did, decayed
// by half every 32 periods of 1.048576 ms. Reconstructed from the events: what lies before the recording is not known and
// fades in some 200 ms. The kernel's whole numbers are followed on average.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "replay/model/ids.hpp"

namespace rewake {

/// Averages take time in units of 1024 ns, of which a period has 1024.
constexpr Ns kPeltPeriod = 1024 * 1024;

/// What remains of an average after `dt` ns: 2^(-dt / 33.554 ms), to 1e-9. Plain arithmetic, so that every machine agrees.
inline double pelt_decay(Ns dt) {
    constexpr double kPerNs = 1.0 / (32 * kPeltPeriod);
    constexpr int kSteps = 64;
    static constexpr auto kStep = [] {
        std::array<double, kSteps> t{};
        t[0] = 1;
        for (size_t i = 1; i < kSteps; ++i) t[i] = t[i - 1] * 0.98922801319397548413;  // 2^(-1/64)
        return t;
    }();
    static constexpr auto kHalved = [] {  // so often: by powers of two a product is as exact as a quotient
        std::array<double, 60> t{};
        t[0] = 1;
        for (size_t i = 1; i < t.size(); ++i) t[i] = t[i - 1] / 2;
        return t;
    }();
    if (dt <= 0) return 1.0;
    const double x = static_cast<double>(dt) * kPerNs;
    if (x >= 60) return 0.0;
    const auto steps = static_cast<unsigned>(x * kSteps);
    const double r = (x - steps * (1.0 / kSteps)) * 0.6931471805599453;  // in [0, ln 2 / 64)
    const double e = kStep[steps % kSteps] * (1 - r * (1 - r * (0.5 - r * (1.0 / 6))));
    return e * kHalved[steps / kSteps];
}

/// The kernel adds up whole numbers. Where one period ends between two updates, what lasted through it gains half a unit of
/// the 47742 (LOAD_AVG_MAX) that are the most: one that its table cuts too much off, less what is cut off its parts. The
/// load of a task, which is not kept 1024 times finer, loses as much when it decays.
constexpr double kRounding = 0.5 / 47742;

/// The averages of one task. Capacities and times of 1024 are full. The kernel's visible averages (…_avg) are worked out
/// only when a period ends, and a task that changes CPU takes nothing but them along.
struct Pelt {
    double load = 0;  ///< its weight while it is queued
    double util = 0;  ///< 1024 while it runs
    double runnable = 0;  ///< 1024 while it is queued
    Ns at = 0;  ///< on the PELT clock of its CPU
    Ns edge = 0;  ///< end of the period that holds `at`
    int32_t load_avg = 0, util_avg = 0, runnable_avg = 0;
    bool fresh = true;  ///< a period ended since it was last cleared (UTIL_AVG_UNCHANGED)
    /// Brings the averages to `now`. Since `at` the task was queued with `weight` (0: it slept), and ran or not.
    void accrue(Ns now, double weight, bool ran) { accrue(now, weight, ran, weight > 0); }
    /// `wanted`: it waited or ran; a delayed dequeue is queued and does neither (se_runnable()).
    void accrue(Ns now, double weight, bool ran, bool wanted) {
        if (now <= at) return;
        const double keep = pelt_decay(now - at), add = 1 - keep;
        load = load * keep + weight * add;
        util = util * keep + (ran ? 1024 * add : 0);
        runnable = runnable * keep + (wanted ? 1024 * add : 0);
        at = now;
        if (now < edge) return;
        if (now - edge < kPeltPeriod) {
            util += ran ? 1024 * kRounding : 0;
            runnable += wanted ? 1024 * kRounding : 0;
        }
        edge = now + kPeltPeriod - (now - edge) % kPeltPeriod;
        fresh = true;
        show();
    }
    void show() {
        load_avg = static_cast<int32_t>(load);
        util_avg = static_cast<int32_t>(util);
        runnable_avg = static_cast<int32_t>(runnable);
    }
    /// Goes over to the clock and the periods of another CPU.
    void move(Ns now, Ns its_edge) {
        load = load_avg, util = util_avg, runnable = runnable_avg;
        at = now;
        edge = its_edge;
    }
};

/// The averages of a cfs run queue: sums over the entities attached to it, those that sleep included.
struct QueuePelt {
    double load = 0, util = 0, runnable = 0;
    double waiting = 0;  ///< runnable_load_avg (until 5.4): load_avg of the queued tasks only
    Ns at = 0;
    Ns edge = 0;  ///< end of the period that holds `at`
    int64_t load_avg = 0;  ///< as of the last period, and who came and went since
    int32_t util_avg = 0, runnable_avg = 0;  ///< likewise
    bool follows = false;  ///< sums become what the averages show where a task leaves
    int64_t gone_load = 0;  ///< of tasks that were placed elsewhere: they count until the next update
    int32_t gone_util = 0, gone_runnable = 0;
    /// As Pelt::accrue; `weight`: sum of the queued weights, `queued`: their number, `ran`: a fair task did.
    void accrue(Ns now, double weight, int queued, bool ran) {
        if (gone_load != 0) {
            change(-gone_load, -gone_util, -gone_runnable);
            gone_load = 0, gone_util = gone_runnable = 0;
        }
        if (now <= at) return;
        const double keep = pelt_decay(now - at), add = 1 - keep;
        load = load * keep + weight * add;
        waiting = waiting * keep + weight * add;
        util = util * keep + (ran ? 1024 * add : 0);
        runnable = runnable * keep + 1024 * queued * add;
        at = now;
        if (now < edge) return;
        if (now - edge < kPeltPeriod) {
            load += weight * kRounding;
            util += ran ? 1024 * kRounding : 0;
            runnable += 1024 * kRounding * queued;
        }
        edge = now + kPeltPeriod - (now - edge) % kPeltPeriod;
        load_avg = static_cast<int64_t>(load);
        util_avg = static_cast<int32_t>(util);
        runnable_avg = static_cast<int32_t>(runnable);
    }
    void attach(const Pelt& p) { change(p.load_avg, p.util_avg, p.runnable_avg); }
    void detach(const Pelt& p) { change(-p.load_avg, -p.util_avg, -p.runnable_avg); }
    /// A task leaves and joins at once: nothing but its visible averages remains of it.
    void rejoin(Pelt& p) {
        load = std::max(0.0, load - (p.load - p.load_avg));
        util = std::max(0.0, util - (p.util - p.util_avg));
        runnable = std::max(0.0, runnable - (p.runnable - p.runnable_avg));
        p.load = p.load_avg, p.util = p.util_avg, p.runnable = p.runnable_avg;
    }
    /// Takes a task off at the next update (cfs_rq::removed).
    void detach_later(const Pelt& p) {
        gone_load += p.load_avg, gone_util += p.util_avg, gone_runnable += p.runnable_avg;
    }

    /// Its CPU has run fair tasks for as long as the sums reach back: the one of utilisation is as good as the largest.
    bool saturated() const { return util * divider() >= 1024 * kLeastDivider - kMostDivider; }

    /// Adds to the averages; `by_load`, `by_load_avg`: to load and to what is visible of it.
    void shift(double by_load, int64_t by_load_avg, int32_t by_util, int32_t by_runnable) {
        load_avg = std::max<int64_t>(0, load_avg + by_load_avg);
        util_avg = std::max(0, util_avg + by_util);
        runnable_avg = std::max(0, runnable_avg + by_runnable);
        load = std::max(0.0, load + by_load);
        util = std::max(0.0, util + by_util);
        runnable = std::max(0.0, runnable + by_runnable);
    }

  private:
    static constexpr double kMostDivider = 47742, kLeastDivider = kMostDivider - 1024;  // LOAD_AVG_MAX, less one period
    /// What the sums are divided by for the averages.
    double divider() const { return kLeastDivider + static_cast<double>(kPeltPeriod - (edge - at)) / 1024; }
    void change(int64_t by_load, int32_t by_util, int32_t by_runnable) {
        shift(static_cast<double>(by_load), by_load, by_util, by_runnable);
        if (by_load >= 0) return;
        if (follows)
            load = static_cast<double>(load_avg), runnable = runnable_avg, util = util_avg;
        else
            settle();
    }
    /// What leaves a queue keeps the sums behind its averages above the least that these can come from (5.17 - 7.2), those of
    /// the load cut to 32 bits (max_t(u32, ...), 5.7 - 7.2): with some 90 tasks of nice 0 it falls to almost nothing.
    void settle() {
        constexpr double kCut = 4294967296.0;
        const double divider = this->divider();
        if (util * divider < util_avg * kLeastDivider) util = util_avg * kLeastDivider / divider;
        if (runnable * divider < runnable_avg * kLeastDivider) runnable = runnable_avg * kLeastDivider / divider;
        double sum = load * divider, least = static_cast<double>(load_avg) * kLeastDivider;
        if (std::max(sum, least) >= kCut) [[unlikely]]
            sum = std::fmod(sum, kCut), least = std::fmod(least, kCut);
        if (least > sum || sum < load * kLeastDivider) load = std::max(sum, least) / divider;
    }
};

/// util_est of a task that goes to sleep with `util`: rises at once, falls by a quarter (5.5). `capacity`: of its CPU;
/// `runnable`: from 6.8 on, where it waited for its CPU the estimate does not fall; before, give `util`.
inline int32_t util_est_after_sleep(int32_t est, int32_t util, int32_t runnable, int32_t capacity) {
    constexpr int32_t kMargin = 1024 / 100;
    if (est <= util) return util;
    if (est - util < kMargin || util > capacity || util + kMargin < runnable) return est;
    return (est * 4 - (est - util)) / 4;
}

}  // namespace rewake
