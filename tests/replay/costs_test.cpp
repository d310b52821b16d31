// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/costs.hpp"

#include <gtest/gtest.h>

#include <tuple>

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

TEST(Costs, APathThatWasNeverRecordedCostsWhatOthersDo) {
    const auto drawn = [](const std::vector<CostSample>& samples, Path path) {
        return Costs(samples, 1).draw(path, Relation::cross_llc, false, 9, 0.5);
    };
    const auto sample = [](Path path, Cost cost) { return CostSample{path, Relation::same_cpu, true, 0, cost}; };
    const std::vector<CostSample> idle = {sample(Path::idle, {4000, 3000, 0})},
                                  busy = {sample(Path::busy, {2500, 0, 0}), sample(Path::preempt, {0, 1500, 0})};
    for (const auto& [samples, path, queue, run] : {std::tuple{idle, Path::busy, 4000, 0},
                                                    {idle, Path::preempt, 0, 3000},
                                                    {idle, Path::fork, 4000, 3000},
                                                    {idle, Path::on_cpu, 4000, 3000},
                                                    {busy, Path::idle, 2500, 1500},
                                                    {busy, Path::fork, 2500, 1500},
                                                    {idle, Path::in_call, 0, 3000},
                                                    {{}, Path::idle, 0, 0}}) {
        const Cost c = drawn(samples, path);
        EXPECT_EQ(c.queue, queue);
        EXPECT_EQ(c.run, run);
        EXPECT_EQ(c.leave, 0);
    }
    EXPECT_TRUE(Costs(busy, 1).has(Path::preempt));
    EXPECT_TRUE(Costs(busy).has(Path::preempt));
    EXPECT_FALSE(Costs(busy, 1).has(Path::in_call));
}

TEST(Costs, OfMoreThanFourSecondsComeOutWhole) {
    constexpr Ns kShort = 4'294'967'294, kLong = 4'294'967'295, kLonger = 1'000'000'000'000;
    std::vector<CostSample> samples;
    for (Ns queue : {kLonger, Ns{5}, kLong, kShort})
        samples.push_back({Path::on_cpu, Relation::same_cpu, true, 0, {queue, queue / 5, queue / 2}});
    samples.push_back({Path::on_cpu, Relation::same_cpu, true, 0, {7, kLonger, 3}});
    const Costs costs(samples, 1);
    const std::array<Cost, 5> sorted = {{{5, 1, 2},
                                         {kShort, kShort / 5, kShort / 2},
                                         {kLong, kLong / 5, kLong / 2},
                                         {7, kLonger, 3},
                                         {kLonger, kLonger / 5, kLonger / 2}}};
    for (size_t i = 0; i < sorted.size(); ++i) {
        const Cost c = costs.draw(Path::on_cpu, Relation::same_cpu, true, 0, (static_cast<double>(i) + 0.5) / 5);
        EXPECT_EQ(c.queue, sorted[i].queue);
        EXPECT_EQ(c.run, sorted[i].run);
        EXPECT_EQ(c.leave, sorted[i].leave);
    }
}

}  // namespace rewake::closed
