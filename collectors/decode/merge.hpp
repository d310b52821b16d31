// SPDX-License-Identifier: GPL-2.0-or-later
// k-way merge of per-CPU streams into (time, cpu, sequence) order: a loser tree that stays on the winner while it is
// below the runner-up, because events come in bursts of one CPU. Cost: one comparison an event within a burst, log2(k)
// at its end.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace rewake::decode {

/// `Stream` has next() (false: at its end) and ts() below UINT64_MAX. Equal times go to the lower tie(), or without such
/// a function to the lower index: streams are given in ascending CPU order. A stream whose own time steps back is
/// followed as it is.
template <class Stream>
class Merge {
  public:
    explicit Merge(std::vector<Stream> streams) : streams_(std::move(streams)), loser_(streams_.size()) {
        for (uint32_t i = 0; i < streams_.size(); ++i) {
            entries_.push_back(advance(i));
        }
        if (!streams_.empty()) {
            winner_ = build(1);
        }
        entries_.clear();
    }

    /// Calls `visit(stream)` for each record in order until it returns false or all are at their end. True: there is
    /// more; the record that `visit` answered false for counts as visited.
    template <class Visit>
    bool run(Visit&& visit) {
        while (winner_.key != kEnd) {
            const uint32_t w = winner_.stream;
            bool more = visit(streams_[w]);
            replay(advance(w));
            if (!more) {
                return winner_.key != kEnd;
            }
            if (winner_.stream != w) {
                continue;
            }
            // Twice in a row: a burst. One comparison an event while it lasts.
            const Entry second = runner_up();
            Entry now = winner_;
            while (more && before(now, second) && now.key != kEnd) {
                more = visit(streams_[w]);
                now = advance(w);
            }
            replay(now);
            if (!more) {
                return winner_.key != kEnd;
            }
        }
        return false;
    }

  private:
    static constexpr uint64_t kEnd = std::numeric_limits<uint64_t>::max();

    struct Entry {
        uint64_t key = kEnd;  // time, kEnd: the stream is at its end
        uint32_t stream = 0;
    };

    Entry advance(uint32_t i) { return {streams_[i].next() ? streams_[i].ts() : kEnd, i}; }
    [[nodiscard]] bool before(const Entry& a, const Entry& b) const {
        if constexpr (requires(const Stream& s) { s.tie(); }) {
            if (a.key == b.key && a.key != kEnd && a.stream < streams_.size() && b.stream < streams_.size())
                [[unlikely]] {
                return streams_[a.stream].tie() < streams_[b.stream].tie();
            }
        }
        // Without branches: at the leaves of many streams the outcome cannot be predicted.
        return (a.key < b.key) | ((a.key == b.key) & (a.stream < b.stream));
    }

    /// Plays the games below `node`; the losers stay in the nodes, the winner is returned.
    Entry build(uint32_t node) {
        const auto k = static_cast<uint32_t>(streams_.size());
        if (node >= k) {
            return entries_[node - k];
        }
        const Entry a = build(2 * node), b = build(2 * node + 1);
        loser_[node] = before(a, b) ? b : a;
        return before(a, b) ? a : b;
    }
    [[nodiscard]] uint32_t first_game(uint32_t stream) const {
        return (stream + static_cast<uint32_t>(streams_.size())) / 2;
    }
    /// Best of those that lost to the winner.
    [[nodiscard]] Entry runner_up() const {
        Entry best{kEnd, std::numeric_limits<uint32_t>::max()};
        for (uint32_t node = first_game(winner_.stream); node > 0; node /= 2) {
            best = before(loser_[node], best) ? loser_[node] : best;
        }
        return best;
    }
    /// The winner's stream has a new entry.
    void replay(Entry now) {
        for (uint32_t node = first_game(now.stream); node > 0; node /= 2) {
            const Entry other = loser_[node];
            const bool lost = before(other, now);
            loser_[node] = lost ? now : other;
            now = lost ? other : now;
        }
        winner_ = now;
    }

    std::vector<Stream> streams_;
    std::vector<Entry> loser_;
    std::vector<Entry> entries_;  // of all streams, while the tree is built
    Entry winner_;
};

}  // namespace rewake::decode
