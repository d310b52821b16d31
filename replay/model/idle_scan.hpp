// SPDX-License-Identifier: GPL-2.0-or-later
// Model of sd_llc_shared->nr_idle_scan (SIS_UTIL, policies.md A7): what load balancing would have written from the LLC's
// utilisation. Modelled: utilisation is the PELT average of each CPU's busy time, not the sum of its tasks' averages, and
// the balancer is assumed to run every llc_size milliseconds.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/topology.hpp"

namespace rewake {

/// nr_idle_scan for the sum of cpu_util over an LLC of `llc_size` CPUs (kernel 6.1, update_idle_cpu_scan; pct 117).
int32_t nr_idle_scan_of(int64_t sum_util, int llc_size);

class IdleScanModel {
  public:
    explicit IdleScanModel(const Topology& topo);
    /// CPU `c` starts (`busy`) or stops running something other than its idle task at `ts`.
    void set_busy(Cpu c, bool busy, Ns ts) {
        Cell& cell = cells_[c.v];
        if (cell.busy == busy) return;
        if (cell.busy) cell.busy_ns += ts - cell.since;
        cell.since = ts;
        cell.busy = busy;
    }
    /// The LLC's value is recorded: the model no longer writes it.
    void stop(Llc llc) { groups_[llc.v].recorded = true; }
    /// Recomputes the LLCs whose balance interval has passed; writes into `out` (per dense LLC).
    void advance(Ns ts, std::vector<int32_t>& out) {
        if (ts >= next_) update(ts, out);
    }

  private:
    struct Cell {
        bool busy = false;
        Ns since = 0, busy_ns = 0;
        double util = 0;
    };
    struct Group {
        std::vector<Cpu> cpus;
        Ns interval = 0, last = 0;
        bool started = false, warm = false, recorded = false;
    };
    void update(Ns ts, std::vector<int32_t>& out);
    std::vector<Cell> cells_;
    std::vector<Group> groups_;
    Ns next_ = 0;
};

}  // namespace rewake
