// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/fair/hot_queues.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace rewake {
namespace {

TEST(HotQueues, NobodyIsLongerInTheSetThanSaid) {
    constexpr int kCpus = 70;
    HotQueues hot;
    std::vector<Ns> until(kCpus, 0);
    std::mt19937 random(1);
    int64_t held = 0, due = 0;
    for (Ns now = 1'000'000'000; now < 1'400'000'000; now += random() % 40'000) {
        const CpuMask& set = hot.at(now);
        for (uint16_t c = 0; c < kCpus; ++c) {
            EXPECT_FALSE(set.test(Cpu(c)) && now >= until[c]) << c << " at " << now;
            held += set.test(Cpu(c));
            due += now < until[c];
        }
        const Cpu c(static_cast<uint16_t>(random() % kCpus));
        if (random() % 4 == 0) {
            hot.clear(c);
            until[c.v] = 0;
        } else {
            const Ns end = now + static_cast<Ns>(random() % 2'000'000);
            until[c.v] = std::max(until[c.v], end);
            hot.set(c, end, now);
        }
        if (random() % 1000 == 0) now += 5'000'000;
    }
    EXPECT_GT(held * 2, due);  // and most of them for most of that time
}

}  // namespace
}  // namespace rewake
