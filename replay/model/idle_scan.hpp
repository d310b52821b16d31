// SPDX-License-Identifier: GPL-2.0-or-later
// Model of sd_llc_shared->nr_idle_scan (SIS_UTIL, policies.md A7): what load balancing would have written from the LLC's
// utilisation. Modelled: the balancer is assumed to run every llc_size milliseconds, and to have brought the averages of
// idle CPUs up to date.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/topology.hpp"

namespace rewake {

/// nr_idle_scan for the sum of cpu_util over an LLC of `llc_size` CPUs (kernel 6.1, update_idle_cpu_scan; pct 117).
int32_t nr_idle_scan_of(int64_t sum_util, int llc_size);

class IdleScanModel {
  public:
    explicit IdleScanModel(const Topology& topo);
    /// Recomputes the LLCs whose balance interval has passed; writes into `out` (per dense LLC). `cpu_util(c)`: max of
    /// util_avg and util_est of its run queue, at most its capacity.
    template <class CpuUtil>
    void advance(Ns ts, std::vector<int32_t>& out, CpuUtil cpu_util) {
        if (ts < next_) return;
        const bool first = next_ == 0;
        next_ = std::numeric_limits<Ns>::max();
        for (size_t l = 0; l < groups_.size(); ++l) {
            Group& g = groups_[l];
            if (first) g.due = ts + g.interval;
            if (ts >= g.due) {
                int64_t sum = 0;
                for (Cpu c : g.cpus) sum += cpu_util(c);
                out[l] = nr_idle_scan_of(sum, static_cast<int>(g.cpus.size()));
                g.due = ts + g.interval;
            }
            next_ = std::min(next_, g.due);
        }
    }

  private:
    struct Group {
        std::vector<Cpu> cpus;
        Ns interval = 0, due = 0;
    };
    std::vector<Group> groups_;
    Ns next_ = 0;
};

}  // namespace rewake
