// SPDX-License-Identifier: GPL-2.0-or-later
// The bound of SIS_UTIL by utilisation: the table of policies.md A7. And when it is written.
#include "replay/model/idle_scan.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>

namespace rewake {
namespace {

TEST(NrIdleScan, FallsWithTheUtilisation) {
    constexpr int kUtil[] = {0, 100, 256, 400, 512, 700, 800, 860, 874, 1024};
    constexpr struct {
        int size;
        int nr[10];
    } kRows[] = {{8, {8, 7, 7, 6, 5, 2, 1, 0, 0, 0}},
                 {16, {16, 15, 14, 12, 10, 5, 2, 0, 0, 0}},
                 {64, {64, 63, 58, 50, 42, 23, 10, 2, 0, 0}}};
    for (const auto& row : kRows)
        for (int i = 0; i < 10; ++i)
            EXPECT_EQ(nr_idle_scan_of(int64_t{kUtil[i]} * row.size, row.size), row.nr[i])
                << row.size << " " << kUtil[i];
}

CpuMask mask(std::initializer_list<uint16_t> cpus) {
    CpuMask m;
    for (uint16_t c : cpus) m.set(Cpu(c));
    return m;
}

/// Two cores of two threads in one LLC.
class Turns : public testing::Test {
  protected:
    Turns() {
        topo_.n_cpus = 4;
        topo_.online = mask({0, 1, 2, 3});
        topo_.smt = {mask({0, 1}), mask({0, 1}), mask({2, 3}), mask({2, 3})};
        topo_.llc_id = {0, 0, 0, 0};
        topo_.has_llc_domain = {true, true, true, true};
        auto domain = [&](CpuMask span) {
            Domain d;
            d.span = span;
            d.share_llc = true;
            topo_.domains.push_back(d);
        };
        domain(mask({0, 1})), domain(mask({2, 3})), domain(topo_.online);
        topo_.finish();
        balancer_.emplace(topo_);
    }
    bool look(uint16_t c, int64_t jiffy, const CpuMask& idle) {
        return balancer_->look(Cpu(c), idle.test(Cpu(c)), jiffy, idle);
    }
    Topology topo_;
    std::optional<Balancer> balancer_;
};

TEST_F(Turns, OneCpuOfEachCoreBalancesTheLlcAnIdleOneBefore) {
    EXPECT_TRUE(look(0, 100, {}));
    EXPECT_FALSE(look(1, 100, {}));
    EXPECT_TRUE(look(2, 100, {}));
    EXPECT_FALSE(look(2, 200, mask({3})));
    EXPECT_TRUE(look(3, 200, mask({3})));
    EXPECT_FALSE(look(3, 300, mask({2, 3}))) << "the first of two";
}

TEST_F(Turns, AnIdleCpuSoonABusyOneSixteenTimesLater) {
    EXPECT_TRUE(look(0, 100, mask({0})));
    EXPECT_FALSE(look(0, 101, mask({0})));
    EXPECT_TRUE(look(0, 102, mask({0}))) << "8 ms";
    EXPECT_FALSE(look(0, 132, {}));
    EXPECT_TRUE(look(0, 133, {})) << "8 x 16 ms, less a jiffy";
}

TEST_F(Turns, DomainsThatWereJustBuiltCountAsBalancedAndComeBackInHalfTheTime) {
    balancer_.emplace(topo_, 100);
    EXPECT_FALSE(look(0, 100, mask({0})));
    EXPECT_TRUE(look(0, 101, mask({0}))) << "4 ms";
    EXPECT_FALSE(look(0, 102, mask({0})));
    EXPECT_TRUE(look(0, 103, mask({0}))) << "8 ms: there was nothing to pull";
}

TEST_F(Turns, WhoPulledATaskComesBackInHalfTheTime) {
    EXPECT_TRUE(look(0, 100, mask({0})));
    balancer_->pulled(Cpu(2), Cpu(0));
    EXPECT_TRUE(look(0, 101, mask({0})));
    balancer_->pulled(Cpu(1), Cpu(0));
    EXPECT_FALSE(look(0, 102, mask({0}))) << "that was from within the core";
}

}  // namespace
}  // namespace rewake
