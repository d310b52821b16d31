// SPDX-License-Identifier: GPL-2.0-or-later
// Logarithmic latency buckets that merge by adding, as those of DDSketch (Masson, Rim, Lee, VLDB 2019): bucket b holds the
// x with gamma^(b-1) < x <= gamma^b, gamma = 101/99 (1 % relative error). The edges are a table made with integer
// arithmetic alone, so that every machine agrees at them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/model/ids.hpp"

namespace rewake {

class BucketEdges {
  public:
    static const BucketEdges& get();
    /// Bucket of `x` >= 1.
    int bucket(Ns x) const {
        const auto u = static_cast<uint64_t>(x);
        const int h = 64 - __builtin_clzll(u);
        const auto top = static_cast<std::size_t>((u << (64 - h)) >> (64 - kTop - 1)) & ((1u << kTop) - 1);
        int b = start_[static_cast<std::size_t>(h)][top];
        while (edges_[static_cast<std::size_t>(b)] < u) ++b;
        return b;
    }
    std::size_t size() const { return edges_.size(); }
    uint64_t edge(int b) const { return edges_[static_cast<std::size_t>(b)]; }

  private:
    static constexpr int kTop = 7;  ///< bits below the highest one: steps finer than a bucket
    BucketEdges();
    std::vector<uint64_t> edges_;  ///< inclusive upper edge of each bucket
    std::array<std::array<uint16_t, std::size_t{1} << kTop>, 65> start_{};
};

/// Counts per bucket; zero has its own.
struct Histogram {
    static constexpr int kZero = -1;  ///< bucket() of zero
    std::vector<int64_t> n;
    int64_t zero = 0;
    Histogram() : n(BucketEdges::get().size(), 0) {}
    static int bucket(Ns x) { return x <= 0 ? kZero : BucketEdges::get().bucket(x); }
    void count(int bucket) { ++(bucket == kZero ? zero : n[static_cast<std::size_t>(bucket)]); }
};

}  // namespace rewake
