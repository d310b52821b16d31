// SPDX-License-Identifier: GPL-2.0-or-later
// Drives seed 3's estimators over a recording (policies.md B3), one for each distinct setting: hardirq time of each CPU
// between recorded entries and exits, nested ones counted once, handed over at ticks. Modelled: ticks come every 1/HZ on all CPUs at once, and not on a CPU that
// is offline or has been idle for longer than one.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "replay/model/topology.hpp"
#include "replay/policies/irq_aware.hpp"

namespace rewake {

class IrqTicks {
  public:
    IrqTicks(const Topology& topo, uint32_t hz);
    /// The estimate under `settings`, there from now on. Before the first event only. The reference stays valid.
    const IrqLoad& estimate(const IrqSettings& settings);
    bool empty() const { return estimators_.empty(); }
    /// A hardirq handler of `c` begins (`entry`) or ends. An end without a beginning is left out.
    void irq(Cpu c, bool entry, Ns ts);
    /// All handlers that are under way end.
    void end_all(Ns ts);
    /// Others go offline: their ticks end, and the threshold is not of them.
    void set_online(const CpuMask& online);
    /// `c` enters or leaves idle.
    void idle(Cpu c, bool now_idle, Ns ts);
    /// Takes all ticks up to `ts`.
    void advance(Ns ts);

  private:
    static constexpr Ns kWarmUp = 100'000'000;  ///< then the threshold is computed for the first time
    static constexpr int kSettle =
        96;  ///< ticks after which any load has decayed to nothing, at any IrqSettings::decay
    struct CpuState {
        int depth = 0;
        Ns since = 0;  ///< begin of the outermost handler, or the last tick within it
        Ns spent = 0;  ///< since the last tick of this CPU
        int entries = 0;  ///< since then, outermost ones
        bool idle = true;
        Ns idle_since = 0;
    };
    void tick(Ns at);
    CpuMask online_;
    std::vector<CpuState> cpus_;
    std::deque<IrqEstimator> estimators_;  ///< of different settings
    uint32_t hz_;
    Ns period_, next_ = 0;
    int64_t ticks_ = 0, next_threshold_, threshold_every_;
    bool started_ = false, computed_ = false;
};

}  // namespace rewake
