// SPDX-License-Identifier: GPL-2.0-or-later
// Seed 3: "sched: Interrupt Aware Scheduler", Rohit Jain, patch 1/2, 2017-05-12, on Linux 4.12.0 (policies.md B3).
#pragma once

#include <array>

#include "replay/policies/composed.hpp"

namespace rewake {

/// The patch's estimate of each CPU's hardirq load, and the threshold above which a CPU is heavy.
class IrqEstimator {
  public:
    static constexpr int kBuckets = 100;
    using Buckets = std::array<int32_t, kBuckets>;
    /// `hz`: ticks a second. All CPUs online and without load.
    IrqEstimator(int n_cpus, uint32_t hz);
    /// A scheduler tick of `c`, `hardirq` ns of interrupts after its last one.
    void tick(Cpu c, Ns hardirq);
    /// What the kernel does whenever it computes the load average: every 5 s and one tick.
    void recompute() { load_.threshold = threshold(buckets_, static_cast<int>(load_.intrload.size())); }
    /// Ten times the number of buckets that hold more than 80 % of the CPUs.
    static int32_t threshold(const Buckets& buckets, int n_cpus);
    const IrqLoad& load() const { return load_; }
    const Buckets& buckets() const { return buckets_; }

  private:
    IrqLoad load_;
    Buckets buckets_{};
    uint32_t hz_;
};

PolicyEntry irq_aware_entry();

}  // namespace rewake
