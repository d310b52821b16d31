// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/costs.hpp"

#include <gtest/gtest.h>

namespace rewake::closed {

TEST(Costs, FewSamplesAreJoinedWithTheirLikeButNotWithThoseThatBypassPlacement) {
    constexpr size_t kFewest = 4;
    std::vector<CostSample> samples;
    const auto add = [&](uint8_t target, size_t n, Ns queue) {
        for (size_t i = 0; i < n; ++i) samples.push_back({Path::busy, Relation::same_llc, true, target, {queue, 0, 0}});
    };
    const uint8_t asked = target_of(0, 1024, false, false), moved = target_of(0, 1024, true, false),
                  bypassed = target_of(0, 1024, false, true), slow = target_of(0, 512, false, true);
    add(asked, 100, 9000), add(moved, 1, 10'000), add(bypassed, 100, 2000), add(slow, 1, 3000);
    const Costs costs(samples, kFewest);
    const auto least = [&](uint8_t target) {
        return costs.draw(Path::busy, Relation::same_llc, true, target, 0).queue;
    };
    const auto most = [&](uint8_t target) {
        return costs.draw(Path::busy, Relation::same_llc, true, target, 0.9999).queue;
    };
    EXPECT_EQ(least(asked), 9000);
    EXPECT_EQ(most(asked), 9000);
    EXPECT_EQ(least(moved), 9000);
    EXPECT_EQ(most(moved), 10'000);
    EXPECT_EQ(most(bypassed), 2000);
    EXPECT_EQ(least(slow), 2000);
    EXPECT_EQ(most(slow), 3000);
}

}  // namespace rewake::closed
