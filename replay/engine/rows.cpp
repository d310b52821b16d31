// SPDX-License-Identifier: GPL-2.0-or-later
// Rows of the open loop's ledgers: which are decided out of turn, what an answer is worth (policies.md D1), and their columns.
#include <algorithm>

#include "replay/engine/open_loop.hpp"

namespace rewake {

/// Forks and execs that are decided before their events, with when, the latest first.
std::vector<std::pair<Ns, size_t>> OpenLoop::decided_early(const DecisionColumns& d) {
    std::vector<std::pair<Ns, size_t>> found;
    for (size_t i = 0; d.decided && i < d.n; ++i)
        if (d.decided[i] >= 0 && static_cast<Kind>(d.kind[i]) != Kind::wake) found.push_back({d.decided[i], i});
    std::sort(found.rbegin(), found.rend());
    return found;
}

Verdict OpenLoop::judge(Cpu c, size_t row, const DecisionColumns& d, const Wakeup& w) const {
    const View& v = machine_.view();
    Verdict x;
    x.cpu = c;
    x.counts = w.kind == Kind::wake;
    x.outcome = d.low_confidence[row] ? kLowConfidence : 0;
    const bool usable = v.avail.test(c) || v.sidle.test(c);
    if (usable) {
        x.outcome |= kTargetIdle;
    } else {
        const CpuMask& llc = topo_.llc_span[topo_.llc[c.v].v];
        uint64_t in_llc = 0, anywhere = 0;
        for (int i = 0; i < topo_.words; ++i) {
            const uint64_t idle = (v.avail.w[i] | v.sidle.w[i]) & w.allowed->w[i];
            anywhere |= idle;
            in_llc |= idle & llc.w[i];
        }
        if (in_llc) x.outcome |= kIdleMissedLlc;
        if (anywhere) x.outcome |= kIdleMissedMachine;
    }
    if (c == w.waker && v.nr[c.v] >= 1) x.outcome |= kStacked;
    x.known = c.v == d.chosen_cpu[row];
    if (x.known) {
        x.lo_null = x.hi_null = d.latency_null && d.latency_null[row];
        x.lo = x.hi = d.latency[row];
    } else if (usable) {
        const auto& table = topo_.share_cache(w.waker, c) ? idle_latency_.same_llc : idle_latency_.cross_llc;
        if (!table.empty()) {
            const auto state = machine_.idle_state(c);
            const auto& range = table[state ? std::min<size_t>(*state, table.size() - 1) : table.size() - 1];
            x.lo = range.lo, x.hi = range.hi;
            x.lo_null = x.hi_null = false;
        }
    } else {
        // Busy: it waits at least for the running segment, at most one slice longer (model; policies.md D1).
        const int nr = v.runnable(c);
        x.lo_null = segment_[c.v] == kNoEnd;
        x.hi_null = x.lo_null || nr > kMaxQueue || machine_.runs_non_fair(c);
        x.lo = std::max<Ns>(segment_[c.v] - v.now, 0);
        if (!x.hi_null) x.hi = x.lo + slice_[static_cast<size_t>(nr)];
    }
    if (!x.lo_null) x.lo_bucket = static_cast<int16_t>(Histogram::bucket(x.lo));
    if (!x.hi_null) x.hi_bucket = x.hi == x.lo ? x.lo_bucket : static_cast<int16_t>(Histogram::bucket(x.hi));
    return x;
}

void OpenLoop::write_rows(size_t slot, size_t n, size_t to) {
    for (const size_t k : asking_) block_.write(k, slot, n, instances_[k].out, to, instances_[k].counts);
}

/// Moves the block that ends before row `end` into the columns. A row that is decided before or after that goes there by itself.
void OpenLoop::flush(size_t end) {
    for (const Cpu c : calling_)  // not decided yet
        if (const size_t row = called_[c.v]; row >= flushed_)
            for (const size_t k : asking_) block_.skip(row - flushed_, k);
    size_t from = flushed_;
    for (; !ahead_.empty() && ahead_.front() < end; ahead_.pop_front()) {
        write_rows(from - flushed_, ahead_.front() - from, from);
        from = ahead_.front() + 1;
    }
    write_rows(from - flushed_, end - from, from);
    block_.clear();
    flushed_ = end;
}

}  // namespace rewake
