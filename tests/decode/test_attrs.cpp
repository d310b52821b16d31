// SPDX-License-Identifier: GPL-2.0-or-later
// Keys that come from a file: event ids of perf.data and names, made to collide.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "collectors/decode/comm.hpp"
#include "collectors/decode/decoder.hpp"
#include "collectors/decode/perfdata/attrs.hpp"

namespace rewake::decode {
namespace {

/// The inverse of an odd number modulo 2^64.
uint64_t inverse(uint64_t odd) {
    uint64_t x = odd;
    for (int i = 0; i < 6; ++i) {
        x *= 2 - odd * x;
    }
    return x;
}

/// Each of 200,000 insertions into one run of slots, or one bucket, would take minutes.
constexpr uint64_t kMany = 200'000;
constexpr auto kLimit = std::chrono::seconds(10);

TEST(Keys, IdsThatFollowEachOtherAfterAMultiplicationAreSpread) {
    const auto start = std::chrono::steady_clock::now();
    const uint64_t undo = inverse(0x9e3779b97f4a7c15ULL);
    perf::Attrs attrs;
    for (uint64_t i = 0; i < kMany; ++i) {
        ASSERT_TRUE(attrs.add_id(undo * (i << 52), static_cast<uint32_t>(i % 7)));  // the same middle bits
    }
    for (uint64_t i = 0; i < 4096; ++i) {
        EXPECT_NE(attrs.find(undo * (i << 52)), perf::Attrs::kNone);
    }
    EXPECT_EQ(attrs.find(undo * 3 + 1), perf::Attrs::kNone);
    EXPECT_LT(std::chrono::steady_clock::now() - start, kLimit);
}

TEST(Keys, TheSameIdAgainAndAgainIsRefused) {
    perf::Attrs attrs;
    size_t n = 0;
    while (attrs.add_id(1, 0)) {
        ++n;
    }
    EXPECT_EQ(n, perf::Attrs::kMostIds);
}

TEST(Keys, NamesKeepTheirNumbers) {
    const auto start = std::chrono::steady_clock::now();
    CommDictionary names;
    for (uint64_t round = 0; round < 2; ++round) {
        for (uint64_t i = 0; i < kMany; ++i) {
            // Names whose halves cancel out in (first ^ second * M): one bucket of all, if the hash were that.
            CommBytes b{};
            const uint64_t second = i + 1, first = second * 0x9e3779b97f4a7c15ULL;
            std::memcpy(b.data(), &first, 8);
            std::memcpy(b.data() + 8, &second, 8);
            ASSERT_EQ(names.id(b), i);
        }
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, kLimit);
}

TEST(Losses, StayInRange) {
    CpuLoss l;
    l.last_ns = INT64_MIN + 1;
    l.add(INT64_MAX, INT64_MAX, 0);
    l.add(INT64_MAX, INT64_MAX, 0);
    l.add_lost(UINT64_MAX);
    EXPECT_EQ(l.lost, INT64_MAX);
    EXPECT_EQ(l.blind_ns, INT64_MAX);
    EXPECT_EQ(l.gaps, 2U);
    l.last_ns = INT64_MAX;
    l.add(-1, INT64_MIN + 1, 0);  // a time that steps back
    EXPECT_EQ(l.blind_ns, INT64_MAX);
}

}  // namespace
}  // namespace rewake::decode
