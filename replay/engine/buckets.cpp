// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/buckets.hpp"

#include <limits>

namespace rewake {

const BucketEdges& BucketEdges::get() {
    static const BucketEdges edges;
    return edges;
}

BucketEdges::BucketEdges() {
    // value = gamma^b as 64.64 fixed point, truncated at each step: the same on every machine.
    unsigned __int128 value = static_cast<unsigned __int128>(1) << 64;
    constexpr uint64_t kLast = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    for (;;) {
        const auto whole = static_cast<uint64_t>(value >> 64);
        if (whole >= kLast) break;
        edges_.push_back(whole);
        value = value / 99 * 101 + value % 99 * 101 / 99;
    }
    edges_.push_back(kLast);
    uint16_t b = 0;  // `smallest` never falls
    for (size_t h = 1; h < start_.size(); ++h)
        for (size_t top = 0; top < start_[h].size(); ++top) {
            const uint64_t smallest = ((uint64_t{1} << kTop) | top) << (64 - kTop - 1) >> (64 - h);
            while (b + 1u < edges_.size() && edges_[b] < smallest) ++b;
            start_[h][top] = b;
        }
}

}  // namespace rewake
