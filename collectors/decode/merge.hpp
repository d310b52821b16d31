// SPDX-License-Identifier: GPL-2.0-or-later
// k-way merge of per-CPU streams into (time, cpu, sequence) order: a loser tree that stays on the winner while it is
// below the runner-up, because events come in bursts of one CPU. Cost: one comparison an event within a burst, log2(k)
// at its end.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace rewake::decode {

/// `Stream` has next() (false: at its end) and ts() below UINT64_MAX. Streams are given in ascending CPU order: equal
/// times go to the lower index. A stream whose own time steps back is followed as it is.
template <class Stream>
class Merge {
  public:
    explicit Merge(std::vector<Stream> streams) : streams_(std::move(streams)), key_(streams_.size()) {
        for (uint32_t i = 0; i < streams_.size(); ++i) {
            advance(i);
        }
        if (!streams_.empty()) {
            loser_.resize(streams_.size());
            winner_ = build(1);
        }
    }

    /// Calls `visit(stream)` for each record in order until it returns false or all are at their end. True: there is
    /// more; the record that `visit` answered false for counts as visited.
    template <class Visit>
    bool run(Visit&& visit) {
        if (streams_.empty()) {
            return false;
        }
        while (key_[winner_] != kEnd) {
            const uint32_t w = winner_;
            const uint32_t second = runner_up();
            Stream& s = streams_[w];
            bool more = true;
            do {
                more = visit(s);
                advance(w);
            } while (more && before(w, second));
            replay(w);
            if (!more) {
                return key_[winner_] != kEnd;
            }
        }
        return false;
    }

  private:
    static constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();

    void advance(uint32_t i) { key_[i] = streams_[i].next() ? streams_[i].ts() : kEnd; }
    [[nodiscard]] bool before(uint32_t a, uint32_t b) const {
        return a == b ? key_[a] != kEnd : key_[a] < key_[b] || (key_[a] == key_[b] && a < b && key_[a] != kEnd);
    }
    [[nodiscard]] uint32_t leaf_node(uint32_t i) const { return i + static_cast<uint32_t>(streams_.size()); }

    /// Plays the games below `node`; the losers stay in the nodes, the winner is returned.
    uint32_t build(uint32_t node) {
        const auto k = static_cast<uint32_t>(streams_.size());
        if (node >= k) {
            return node - k;
        }
        const uint32_t a = build(2 * node), b = build(2 * node + 1);
        const bool a_wins = key_[a] < key_[b] || (key_[a] == key_[b] && a < b);
        loser_[node] = a_wins ? b : a;
        return a_wins ? a : b;
    }
    /// Best of those that lost to the winner; the winner itself when it is alone.
    [[nodiscard]] uint32_t runner_up() const {
        uint32_t best = winner_;
        for (uint32_t node = leaf_node(winner_) / 2; node > 0; node /= 2) {
            const uint32_t c = loser_[node];
            if (best == winner_ || key_[c] < key_[best] || (key_[c] == key_[best] && c < best)) {
                best = c;
            }
        }
        return best;
    }
    void replay(uint32_t leaf) {
        uint32_t w = leaf;
        for (uint32_t node = leaf_node(leaf) / 2; node > 0; node /= 2) {
            const uint32_t c = loser_[node];
            if (key_[c] < key_[w] || (key_[c] == key_[w] && c < w)) {
                loser_[node] = w;
                w = c;
            }
        }
        winner_ = w;
    }

    std::vector<Stream> streams_;
    std::vector<uint64_t> key_;
    std::vector<uint32_t> loser_;
    uint32_t winner_ = 0;
};

}  // namespace rewake::decode
