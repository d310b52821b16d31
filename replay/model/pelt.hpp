// SPDX-License-Identifier: GPL-2.0-or-later
// Per-entity load tracking (PELT) of load: weight times the time a task is runnable, decayed by half every 32 periods of
// 1024 us. Reconstructed from the events: what a task or CPU carried before the recording is not known and fades in some
// 200 ms. Frequency, cgroup weights and the kernel's whole-period rounding are left out.
#pragma once

#include <cmath>
#include <cstdint>

#include "replay/model/ids.hpp"

namespace rewake {

/// What remains of an average after `dt` ns: 2^(-dt / 32.768 ms). Plain arithmetic, so that every machine agrees.
inline double pelt_decay(Ns dt) {
    constexpr double kHalfLife = 32 * 1024 * 1000.0;
    if (dt <= 0) return 1.0;
    const double x = static_cast<double>(dt) / kHalfLife;
    if (x >= 60) return 0.0;
    const auto whole = static_cast<int>(x);
    const double f = (x - whole) * 0.6931471805599453;  // e^-f, f in [0, ln 2)
    const double e = 1 - f * (1 - f / 2 * (1 - f / 3 * (1 - f / 4 * (1 - f / 5 * (1 - f / 6 * (1 - f / 7))))));
    return e / static_cast<double>(uint64_t{1} << whole);
}

/// The average of a task's weight while it is runnable.
struct Pelt {
    double load = 0;
    Ns at = 0;
    /// Brings the average to `now`; `weight` was on since `at` (0: nothing was).
    void accrue(Ns now, double weight) {
        if (now <= at) return;
        const double keep = pelt_decay(now - at);
        load = load * keep + weight * (1 - keep);
        at = now;
    }
};

/// The sums of these averages over the tasks of a run queue.
struct QueuePelt {
    double average = 0;  ///< load_avg: tasks that went to sleep here included
    double runnable = 0;  ///< runnable_load_avg: queued tasks only
    Ns at = 0;
    /// As Pelt::accrue; `weight`: sum of the queued weights.
    void accrue(Ns now, double weight) {
        if (now <= at) return;
        const double keep = pelt_decay(now - at), on = weight * (1 - keep);
        average = average * keep + on;
        runnable = runnable * keep + on;
        at = now;
    }
};

}  // namespace rewake
