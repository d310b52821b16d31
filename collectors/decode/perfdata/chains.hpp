// SPDX-License-Identifier: GPL-2.0-or-later
// Records of a perf.data file as few chains, each of ascending time, so that a merge of the chains is in order whatever
// the order of the file. perf empties one CPU's buffer after another, round after round; within a buffer times ascend
// but for what an interrupt wrote while its outer event was being written. Each run of ascending times goes to the
// chain that ends latest before it: about one chain a CPU, a few more for the interrupts. Nothing is kept in memory but
// where the runs lie.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace rewake::decode::perf {

/// Consecutive records, [begin, end) of the file (or of what was unpacked).
struct Segment {
    uint64_t begin, end;
    bool unpacked;
    bool gap;  ///< records before it could not be read
};

class Chains {
  public:
    static constexpr size_t kMost = 16384;

    using Chain = std::vector<Segment>;

    /// The next record of the file. Records that are not added may lie between two of one segment, unless cut().
    void add(uint64_t time, uint32_t cpu, bool unpacked, uint64_t begin, uint64_t end) {
        if (chains_.empty()) {
            open(time);
        } else if (time < last_ || cpu != cpu_) {
            choose(time);
        }
        Chain& chain = chains_[now_];
        if (same_ && !chain.empty() && chain.back().unpacked == unpacked) {
            chain.back().end = end;
        } else {
            chain.push_back({begin, end, unpacked, gap_});
            gap_ = false;
        }
        same_ = true;
        last_ = last_ > time ? last_ : time;
        cpu_ = cpu;
    }
    /// The next record starts a segment of its own; `gap`: something before it is lost.
    void cut(bool gap = false) {
        same_ = false;
        gap_ |= gap;
    }
    /// Data were lost after the last record.
    [[nodiscard]] bool open_gap() const { return gap_; }
    [[nodiscard]] std::vector<Chain> take() { return std::move(chains_); }

  private:
    void open(uint64_t time) {
        now_ = static_cast<uint32_t>(chains_.size());
        chains_.emplace_back();
        last_ = time;
        same_ = false;
    }
    /// At the border of a run: the chain with the latest end at or before `time`, a new one when there is none.
    void choose(uint64_t time) {
        auto best = others_.upper_bound(time);
        if (best != others_.begin() && ((--best)->first > last_ || last_ > time)) {
            const uint32_t chain = best->second;
            const uint64_t last = best->first;
            others_.erase(best);
            others_.emplace(last_, now_);
            now_ = chain;
            last_ = last;
            same_ = false;
        } else if (last_ > time && chains_.size() < kMost) {
            others_.emplace(last_, now_);
            open(time);
        }  // otherwise the record stays where it is; a step back in time is counted when it is decoded
    }

    std::vector<Chain> chains_;
    std::multimap<uint64_t, uint32_t> others_;  // end of each chain but the current one
    uint64_t last_ = 0;  // end of the current one
    uint32_t now_ = 0, cpu_ = 0;
    bool same_ = false, gap_ = false;
};

}  // namespace rewake::decode::perf
