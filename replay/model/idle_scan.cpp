// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/idle_scan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rewake {

int32_t nr_idle_scan_of(int64_t sum_util, int llc_size) {
    constexpr int64_t kPct = 117, kFull = 1024;
    const int64_t x = sum_util / llc_size;
    const int64_t t = std::min(kFull, x * x * kPct * kPct / (10000 * kFull));
    return static_cast<int32_t>((kFull - t) * llc_size / kFull);
}

IdleScanModel::IdleScanModel(const Topology& topo) : cells_(static_cast<size_t>(topo.n_cpus)) {
    groups_.resize(topo.llc_span.size());
    for (size_t l = 0; l < groups_.size(); ++l) {
        for_each_cpu(
            topo.words, [&](int i) { return topo.llc_span[l].w[i]; },
            [&](Cpu c) {
                groups_[l].cpus.push_back(c);
                return false;
            });
        groups_[l].interval = static_cast<Ns>(std::max<size_t>(groups_[l].cpus.size(), 1)) * 1'000'000;
    }
}

void IdleScanModel::update(Ns ts, std::vector<int32_t>& out) {
    constexpr double kHalfLife = 32 * 1024 * 1000.0;  // PELT: y^32 = 1/2, periods of 1024 us
    next_ = std::numeric_limits<Ns>::max();
    for (size_t l = 0; l < groups_.size(); ++l) {
        Group& g = groups_[l];
        if (!g.started) {
            g.started = true;
            g.last = ts;
            for (Cpu c : g.cpus) cells_[c.v].since = std::max(cells_[c.v].since, ts);
        } else if (ts >= g.last + g.interval) {
            const double span = static_cast<double>(ts - g.last);
            // Nothing is known of the time before the recording: its first interval stands for it.
            const double keep = g.warm ? std::exp2(-span / kHalfLife) : 0.0;
            g.warm = true;
            int64_t sum = 0;
            for (Cpu c : g.cpus) {
                Cell& cell = cells_[c.v];
                if (cell.busy) {
                    cell.busy_ns += ts - cell.since;
                    cell.since = ts;
                }
                cell.util = cell.util * keep + 1024.0 * (static_cast<double>(cell.busy_ns) / span) * (1.0 - keep);
                cell.busy_ns = 0;
                sum += static_cast<int64_t>(cell.util);
            }
            g.last = ts;
            if (!g.recorded) out[l] = nr_idle_scan_of(sum, static_cast<int>(g.cpus.size()));
        }
        next_ = std::min(next_, g.last + g.interval);
    }
}

}  // namespace rewake
