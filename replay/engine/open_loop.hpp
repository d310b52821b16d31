// SPDX-License-Identifier: GPL-2.0-or-later
// Open loop: every recorded decision is decided again by every policy, all against the same View, in one pass.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replay/engine/buckets.hpp"
#include "replay/engine/divergence.hpp"
#include "replay/engine/irq_ticks.hpp"
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
    const uint8_t* hint = nullptr;  ///< hints of the task (seed 5); nullptr: none
    const bool* sync = nullptr;  ///< WF_SYNC per decision where it was inferred; nullptr: ReplayOptions::sync
};

/// An array that grows without touching its memory, and is re-used from part to part.
template <class T>
class Buffer {
  public:
    void resize(size_t n) {
        if (n > room_) {
            data_ = std::make_unique_for_overwrite<T[]>(n);
            room_ = n;
        }
        size_ = n;
    }
    T& operator[](size_t i) { return data_[i]; }
    T* data() { return data_.get(); }
    size_t size() const { return size_; }

  private:
    std::unique_ptr<T[]> data_;
    size_t size_ = 0, room_ = 0;
};

/// Ledger columns of one policy for one part (forms.py RUN_TABLES `ledger`).
struct LedgerColumns {
    Buffer<uint16_t> cpu, cpus_scanned, outcome;
    Buffer<uint8_t> branch;
    Buffer<uint32_t> inputs_assumed;
    Buffer<bool> known;
    Buffer<int64_t> lo, hi;
    Buffer<bool> undecided;  ///< the columns above are NULL
    Buffer<bool> lo_null, hi_null;
    void resize(size_t n);
};

/// What the model gave the decisions of one part, for comparison with probes; 0 in rows that are nobody's decision.
struct InputColumns {
    Buffer<int32_t> util, nr_idle_scan, rq_nr;  ///< util_avg of the wakee as of its sleep
    Buffer<int64_t> load, rq_load;  ///< load_avg of the wakee, of the run queue of its previous CPU
    void resize(size_t n) {
        util.resize(n), nr_idle_scan.resize(n), rq_nr.resize(n), load.resize(n), rq_load.resize(n);
    }
};

/// Ledger rows on their way into the columns: rows of all policies are collected in blocks that stay in the cache, because
/// writing a dozen long columns of each policy row by row would miss it at every store.
struct LedgerBlock {
    static constexpr size_t kRows = 512;
    template <class T>
    using Column = std::array<T, kRows>;
    Column<uint16_t> cpu, cpus_scanned, outcome;
    Column<uint8_t> branch;
    Column<uint32_t> inputs_assumed;
    Column<Ns> lo, hi;
    Column<bool> known, undecided, lo_null, hi_null;
    void clear(size_t i) { undecided[i] = lo_null[i] = hi_null[i] = true; }
};

// Bits of forms.py OUTCOMES; a test compares them.
enum Outcome : uint16_t {
    kTargetIdle = 1,
    kIdleMissedLlc = 2,
    kIdleMissedMachine = 4,
    kStacked = 8,
    kExposed = 16,
    kSelfCollision = 32,
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
    Ns tick_at = 0;           ///< when some tick was
    Ns slice_base = 750'000;  ///< base of the fair slice, 0.75 ms
    Ns slice_latency = 6'000'000;
    Ns migration_cost = 500'000;
    bool audit = false;       ///< keep InputColumns
    uint32_t inferred = 0;    ///< Input bits that this recording leaves to inference or to a model
    Ns warm_up = 2'000'000'000;  ///< flips and recent count as assumed until then
};

class OpenLoop {
  public:
    struct Instance {
        std::unique_ptr<Policy> policy;
        LedgerColumns out;
        LoadKind load{};
        const IrqLoad* irq = nullptr;        ///< what it reads as View::irq
        std::unique_ptr<LedgerBlock> block;  ///< rows not yet in `out`
        Histogram lo, hi;
        int64_t decided = 0, exposed = 0, self_collisions = 0;
    };

    OpenLoop(const Topology& topo, const TaskTable& tasks, std::vector<std::unique_ptr<Policy>> policies,
             ReplayOptions options, IdleLatency idle_latency, Running running);

    /// Replays one part. `next` (the following part's switches) ends the running segments that reach beyond it; nullptr at
    /// the end of the recording. Fills every instance's `out` with d.n rows.
    void run(const Batch& b, const SwitchColumns* next, const DecisionColumns& d);

    std::vector<Instance>& instances() { return instances_; }
    InputColumns& inputs() { return inputs_; }
    const Histogram& recorded() const { return recorded_; }  ///< recorded latency of the decisions above

  private:
    static constexpr Ns kNoEnd = -1;
    void segments(const Batch& b, const SwitchColumns* next);
    void decide(const DecisionColumns& d, size_t row);
    void flush(size_t end);
    void audit(size_t row, const Machine::Task& p, Ns now, Cpu prev);
    /// What a pick of one CPU comes to: the same for every policy that makes it, so worked out once a decision.
    struct Verdict {
        int64_t decision = -1;  ///< number of the decision that it belongs to
        Cpu cpu{};
        uint16_t outcome = 0;
        bool known = false, lo_null = true, hi_null = true;
        int lo_bucket = Histogram::kZero, hi_bucket = Histogram::kZero;
        Ns lo = 0, hi = 0;
    };
    const Verdict& verdict(Cpu c, size_t row, const DecisionColumns& d, const Wakeup& w);
    void judge(Instance& in, size_t k, size_t slot, const Verdict& v, const Wakeup& w, Cpu recorded,
               const Decision& dec);
    uint32_t assumed(const Wakeup& w) const;

    Machine machine_;
    const Topology& topo_;
    const TaskTable& table_;
    ReplayOptions opt_;
    IdleLatency idle_latency_;
    std::vector<Instance> instances_;
    std::vector<Policy*> idle_cores_;  ///< policies that keep has_idle_cores
    IrqTicks irq_;
    InputColumns inputs_;
    Histogram recorded_;
    size_t flushed_ = 0;  ///< rows of the part that are in the columns
    Divergence divergence_;
    EventOrder order_;
    std::vector<Ns> segment_;  ///< per CPU: when what runs there now leaves it, as recorded; kNoEnd: not known
    std::vector<Verdict> verdicts_;  ///< per CPU
    int64_t decision_ = 0;           ///< decisions so far
    std::vector<Ns> ends_;     ///< per switch row of the batch: end of the segment it starts
    Running running_;
    bool primed_ = false;
    Ns start_ = 0;
    static constexpr int kMaxQueue = 2;  ///< more tasks on a CPU leave the wait there unbounded (policies.md D1)
    std::array<Ns, kMaxQueue + 1> slice_{};  ///< by nr: one fair slice with one task more
};

}  // namespace rewake
