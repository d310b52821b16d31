// SPDX-License-Identifier: GPL-2.0-or-later
// What the policies of the open loop answer, on its way into the ledger columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "replay/engine/buckets.hpp"
#include "replay/model/ids.hpp"
#include "replay/policies/policy.hpp"

namespace rewake {

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

/// Ledger columns of one policy for one part (forms/tables.py RUN_TABLES `ledger`).
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

// Bits of forms/tables.py OUTCOMES; a test compares them.
enum Outcome : uint16_t {
    kTargetIdle = 1,
    kIdleMissedLlc = 2,
    kIdleMissedMachine = 4,
    kStacked = 8,
    kExposed = 16,
    kSelfCollision = 32,
    kLowConfidence = 64,
};

/// What a pick of one CPU comes to: the same for every policy that makes it, so worked out once a decision.
struct Verdict {
    Cpu cpu{};
    uint16_t outcome = 0;
    bool known = false, lo_null = true, hi_null = true;
    bool counts = false;  ///< its latency is one of a wakeup
    int16_t lo_bucket = Histogram::kZero, hi_bucket = Histogram::kZero;
    Ns lo = 0, hi = 0;
};

/// What the rows of one policy add up to.
struct LedgerCounts {
    Histogram lo, hi;
    int64_t decided = 0, exposed = 0, self_collisions = 0;
};

/// Answers of all policies to the latest decisions, the answers to one decision in a row. They go into the columns a block
/// at a time: a policy's dozen of long columns, written decision by decision, would miss the cache at every store. What an
/// answer shares with others stays behind an index, and what can be counted later is.
class LedgerBlock {
  public:
    static constexpr size_t kRows = 64;  ///< of 25 policies they stay in the first-level cache
    static constexpr size_t kLate = kRows;  ///< slot of a row whose block is gone

    explicit LedgerBlock(size_t policies) : policies_(policies), answers_((kRows + 1) * policies) {}

    /// Number of a verdict, until the block is cleared.
    uint32_t add(const Verdict& v) {
        verdicts_.push_back(v);
        return static_cast<uint32_t>(verdicts_.size() - 1);
    }
    /// Policy `k` has no answer.
    void skip(size_t slot, size_t k) { at(slot, k).verdict = kNone; }
    void keep(size_t slot, size_t k, uint32_t verdict, const Decision& d, bool collides, uint32_t inputs_assumed) {
        const auto outcome = static_cast<uint8_t>(d.exposed * kExposed | collides * kSelfCollision);
        at(slot, k) = {inputs_assumed, verdict, d.scanned, static_cast<uint8_t>(d.branch), outcome};
    }
    /// Copies what policy `k` answered in slots [from, from + n) to the columns, at row `to`, and counts it.
    void write(size_t k, size_t from, size_t n, LedgerColumns& out, size_t to, LedgerCounts& counts) const;
    void clear() { verdicts_.clear(); }

  private:
    static constexpr uint32_t kNone = 0xffffffff;  ///< no answer
    struct Answer {
        uint32_t inputs_assumed = 0, verdict = kNone;
        uint16_t scanned = 0;
        uint8_t branch = 0, outcome = 0;  ///< what the verdict does not say of the outcome
    };
    Answer& at(size_t slot, size_t k) { return answers_[slot * policies_ + k]; }
    size_t policies_;
    std::vector<Answer> answers_;  ///< slot * policies + k
    std::vector<Verdict> verdicts_;
};

}  // namespace rewake
