// SPDX-License-Identifier: GPL-2.0-or-later
// What the policy that stands for the recorded kernel had as inputs, decision by decision, for comparison with what probes
// recorded. Column names and units: table `probe` (forms/tables.py).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "replay/policies/policy.hpp"

namespace rewake {

struct InputLog {
    std::vector<uint8_t> decided;  ///< the other columns hold something
    std::vector<uint8_t> sync;
    std::vector<uint16_t> recent_cpu;
    std::vector<uint32_t> flips;
    std::vector<uint32_t> flips_warm;  ///< as it is certain (KnownFlips)
    std::vector<uint8_t> flips_known, recent_known;  ///< that it is; that a recorded placement has set recent_cpu
    std::vector<int64_t> util, load, rq_load;
    std::vector<int32_t> nallowed, nr_idle_scan, has_idle_cores, rq_nr;

    void reset(size_t n) {
        auto clear = [n](auto&... column) { (column.assign(n, 0), ...); };
        clear(decided, sync, recent_cpu, flips, flips_warm, flips_known, recent_known, util, load, rq_load, nallowed,
              nr_idle_scan, has_idle_cores, rq_nr);
    }
    /// As `w` is about to be decided. `queue`: load of the queue that the wakee was on, its group's. `raw_util`: of the
    /// wakee as of its last update, which is what a probe sees before placement.
    void note(size_t row, const View& v, const Wakeup& w, PolicyState& s, int64_t queue, int32_t raw_util,
              std::optional<uint32_t> certain) {
        const PolicyState::Task& p = s.task(w.p);
        const uint16_t llc = v.topo->llc[w.prev.v].v;
        decided[row] = 1;
        sync[row] = w.sync;
        recent_cpu[row] = (p.has_recent ? p.recent : w.prev).v;
        flips[row] = p.flips;
        flips_warm[row] = certain.value_or(0);
        flips_known[row] = certain.has_value();
        recent_known[row] = p.has_recent;
        util[row] = raw_util;
        load[row] = w.p_load_avg;
        rq_load[row] = queue;
        nallowed[row] = w.n_allowed;
        nr_idle_scan[row] = v.nr_idle_scan[llc];
        has_idle_cores[row] = llc < s.hic.size() && s.hic[llc];
        rq_nr[row] = v.nr[w.prev.v];
    }
};

}  // namespace rewake
