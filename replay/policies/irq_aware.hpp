// SPDX-License-Identifier: GPL-2.0-or-later
// Seed 3: "sched: Interrupt Aware Scheduler", Rohit Jain, patch 1/2, 2017-05-12, on Linux 4.12.0 (policies.md B3).
#pragma once

#include <array>

#include "replay/policies/columns.hpp"
#include "replay/policies/irq_settings.hpp"

namespace rewake {

/// The patch's estimate of each CPU's hardirq load, and the threshold above which a CPU is heavy.
class IrqEstimator {
  public:
    static constexpr int kBuckets = 100;
    using Buckets = std::array<int32_t, kBuckets>;
    /// `hz`: ticks a second. All CPUs online and without load.
    IrqEstimator(int n_cpus, uint32_t hz, const IrqSettings& settings = {});
    /// `c` goes online, without load, or offline.
    void online(Cpu c, bool up);
    /// A scheduler tick of `c`: `hardirq` ns in `entries` interrupts after its last one.
    void tick(Cpu c, Ns hardirq, int entries = 0);
    /// What the kernel does whenever it computes the load average: every 5 s and one tick.
    void recompute();
    /// Ten times the number of buckets that hold more than `share` per mille of the CPUs.
    static int32_t threshold(const Buckets& buckets, int n_cpus, int share = IrqSettings{}.share);
    const IrqLoad& load() const { return load_; }
    const Buckets& buckets() const { return buckets_; }
    const IrqSettings& settings() const { return settings_; }

  private:
    IrqLoad load_;
    Buckets buckets_{};
    int n_online_;
    uint32_t hz_;
    IrqSettings settings_;
};

/// On `on`: its own column gives the posting, another one a hybrid. Throws std::invalid_argument where it has no meaning.
///
/// A hybrid changes the column's functions as the patch changes those of 4.12, each by itself:
/// - Every probe that looks for an idle CPU (X1, X2 and, where it exists, X4) passes over heavy ones. X3 does not ask
///   whether its CPU is idle, and the capacity scans of asymmetric machines have no counterpart in 4.12: both stay.
/// - SCAN_3: the passes of the patch. A bound that runs out ends the CPU pass there and then: its backup is lost.
/// - SCAN_U: the same for its one pass. While idle cores are promised, the thread that it remembers takes the place of
///   the CPU pass: a clean one first, else the last heavy one. Its sibling pass returns its backup like the patch's, but
///   comes first, so a heavy sibling of prev wins over clean CPUs elsewhere.
/// - The group search of 4.7 and before has none of these passes: refused.
PolicyEntry irq_aware_entry(const Column& on);

}  // namespace rewake
