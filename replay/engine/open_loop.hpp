// SPDX-License-Identifier: GPL-2.0-or-later
// Open loop: every recorded decision is decided again by every policy, all against the same View, in one pass.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "replay/engine/buckets.hpp"
#include "replay/engine/divergence.hpp"
#include "replay/model/decisions.hpp"
#include "replay/model/events.hpp"
#include "replay/model/machine.hpp"
#include "replay/policies/policy.hpp"

namespace rewake {

/// Columns of the recording's `decision` table that replay reads (forms.py). Null arrays may be nullptr: no NULL.
struct DecisionColumns {
    size_t n = 0;
    const int64_t* event_id = nullptr;
    const int64_t* ts = nullptr;
    const uint8_t* kind = nullptr;
    const uint8_t* cls = nullptr;
    const uint32_t* task = nullptr;
    const uint32_t* waker_task = nullptr;
    const bool* waker_task_null = nullptr;
    const uint16_t* waker_cpu = nullptr;
    const bool* waker_cpu_null = nullptr;
    const uint8_t* irq_ctx = nullptr;
    const bool* irq_ctx_null = nullptr;
    const int16_t* prio = nullptr;
    const uint16_t* prev_cpu = nullptr;
    const bool* prev_cpu_null = nullptr;
    const uint16_t* chosen_cpu = nullptr;
    const bool* chosen_cpu_null = nullptr;
    const int64_t* latency = nullptr;
    const bool* latency_null = nullptr;
    const bool* low_confidence = nullptr;
};

/// Ledger rows of one policy for one part (forms.py RUN_TABLES `ledger`). Buffers are re-used from part to part.
struct LedgerColumns {
    std::vector<uint16_t> cpu, cpus_scanned, outcome;
    std::vector<uint8_t> branch;
    std::vector<uint32_t> inputs_assumed;
    std::vector<uint8_t> known;     ///< bool
    std::vector<int64_t> lo, hi;
    std::vector<uint8_t> undecided;  ///< bool: the columns above are NULL
    std::vector<uint8_t> lo_null, hi_null;
    void resize(size_t n);
};

// Bits of forms.py OUTCOMES; a test compares them.
enum Outcome : uint16_t {
    kTargetIdle = 1, kIdleMissedLlc = 2, kIdleMissedMachine = 4, kStacked = 8, kExposed = 16, kSelfCollision = 32,
    kLowConfidence = 64,
};

/// Recorded wakeup latency on idle targets (policies.md D1 lat_est): per relation of waker and target and idle state.
struct IdleLatency {
    struct Range {
        Ns lo = 0, hi = 0;
    };
    bool have = false;
    std::vector<Range> same_llc, cross_llc;  ///< index: idle state, last entry: state unknown
};

struct ReplayOptions {
    bool sync = false;        ///< --assume sync
    uint32_t hz = 250;
    Ns slice_base = 750'000;  ///< base of the fair slice, 0.75 ms
    Ns slice_latency = 6'000'000;
    Ns migration_cost = 500'000;
    uint32_t inferred = 0;    ///< Input bits that this recording leaves to inference or to a model
    Ns warm_up = 2'000'000'000;  ///< flips and recent count as assumed until then
};

class OpenLoop {
  public:
    struct Instance {
        std::unique_ptr<Policy> policy;
        LedgerColumns out;
        Histogram lo, hi;
        int64_t decided = 0, exposed = 0, self_collisions = 0;
    };

    OpenLoop(const Topology& topo, const TaskTable& tasks, std::vector<std::unique_ptr<Policy>> policies,
             ReplayOptions options, IdleLatency idle_latency, Running running);

    /// Replays one part. `next` (the following part's switches) ends the running segments that reach beyond it; nullptr at
    /// the end of the recording. Fills every instance's `out` with d.n rows.
    void run(const Batch& b, const SwitchColumns* next, const DecisionColumns& d);

    std::vector<Instance>& instances() { return instances_; }
    const Histogram& recorded() const { return recorded_; }  ///< recorded latency of the decisions above

  private:
    static constexpr Ns kNoEnd = -1;
    void segments(const Batch& b, const SwitchColumns* next);
    void decide(const DecisionColumns& d, size_t row);
    void count_latencies(const DecisionColumns& d);
    void write(Instance& in, size_t k, size_t row, const DecisionColumns& d, const Wakeup& w, const Decision& dec,
               bool confident);
    uint32_t assumed(const Wakeup& w) const;

    Machine machine_;
    const Topology& topo_;
    const TaskTable& table_;
    ReplayOptions opt_;
    IdleLatency idle_latency_;
    std::vector<Instance> instances_;
    Histogram recorded_;
    Divergence divergence_;
    EventOrder order_;
    std::vector<Ns> segment_;  ///< per CPU: when what runs there now leaves it, as recorded; kNoEnd: not known
    std::vector<Ns> ends_;     ///< per switch row of the batch: end of the segment it starts
    Running running_;
    bool primed_ = false;
    Ns start_ = 0;
    static constexpr int kMaxQueue = 2;  ///< more tasks on a CPU leave the wait there unbounded (policies.md D1)
    std::array<Ns, kMaxQueue + 1> slice_{};  ///< by nr: one fair slice with one task more
};

}  // namespace rewake
