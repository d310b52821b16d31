// SPDX-License-Identifier: GPL-2.0-or-later
// Who pulls from whom, by the tasks and idle CPUs of both groups.
#include "replay/engine/closed/imbalance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/replay/policies_machine.hpp"

namespace rewake::closed {
namespace {

using test::cpu;

/// Two LLCs of four CPUs.
class BusyGroups : public testing::Test {
  protected:
    BusyGroups() : topo_(test::machine(8, false, 4)) {
        topo_.finish();
        view_.topo = &topo_;
        view_.delayed.assign(8, 0);
    }
    const Domain& level(const char* name) const {
        return *std::ranges::find_if(topo_.domains, [&](const Domain& d) { return d.name == name; });
    }
    bool may_pull(const char* name, std::vector<int32_t> nr, int to, int from, bool newidle = false) {
        view_.nr = std::move(nr);
        Imbalance groups(view_, level(name), cpu(to), newidle, late_);
        const bool may = groups.may_pull(cpu(from));
        EXPECT_EQ(groups.may_pull(cpu(from)), may) << "as remembered";
        return may;
    }
    int tasks(const char* name, std::vector<int32_t> nr, int to, int from) {
        view_.nr = std::move(nr);
        return Imbalance(view_, level(name), cpu(to), false).tasks(cpu(from));
    }
    Topology topo_;
    View view_;
    bool late_ = false;
};

TEST_F(BusyGroups, AnIdleCpuFromOneWithTwoTasksMore) {
    EXPECT_TRUE(may_pull("PKG", {0, 1, 1, 1, 2, 1, 1, 1}, 0, 4));
    EXPECT_FALSE(may_pull("PKG", {0, 1, 1, 1, 2, 1, 1, 0}, 0, 4)) << "half of one task is none";
    EXPECT_TRUE(may_pull("PKG", {0, 0, 1, 1, 2, 1, 0, 1}, 0, 4)) << "it has an idle CPU";
    EXPECT_TRUE(may_pull("PKG", {1, 0, 0, 0, 2, 1, 0, 1}, 0, 4, true)) << "a CPU that goes idle, too";
    EXPECT_TRUE(may_pull("PKG", {0, 3, 1, 0, 3, 1, 1, 1}, 0, 4)) << "its own has as many as CPUs";
    EXPECT_FALSE(may_pull("PKG", {0, 2, 1, 1, 2, 1, 1, 1}, 0, 4));
    EXPECT_FALSE(may_pull("PKG", {0, 3, 2, 1, 3, 1, 1, 1}, 0, 4)) << "its own has as many";
}

TEST_F(BusyGroups, ABusyCpuFromOneWithMoreTasksThanCpus) {
    EXPECT_TRUE(may_pull("PKG", {1, 0, 0, 0, 3, 1, 1, 1}, 0, 4));
    EXPECT_FALSE(may_pull("PKG", {1, 0, 0, 0, 2, 1, 0, 1}, 0, 4));
    EXPECT_FALSE(may_pull("PKG", {2, 3, 1, 1, 3, 1, 1, 1}, 0, 4)) << "its own is as crowded";
}

TEST_F(BusyGroups, WhereNumbersAreNotEvenedOutFromOneWithTwoIdleCpusLess) {
    for (Domain& d : topo_.domains) d.prefer_sibling = false;
    topo_.finish();
    EXPECT_TRUE(may_pull("PKG", {0, 0, 0, 1, 2, 1, 0, 1}, 0, 4));
    EXPECT_FALSE(may_pull("PKG", {0, 0, 0, 1, 2, 1, 0, 1}, 0, 4, true)) << "it is not idle yet";
    EXPECT_TRUE(may_pull("PKG", {1, 0, 0, 0, 2, 1, 0, 1}, 0, 4, true));
    EXPECT_FALSE(may_pull("PKG", {0, 0, 1, 1, 2, 1, 0, 1}, 0, 4));
    EXPECT_TRUE(may_pull("PKG", {0, 1, 1, 1, 2, 1, 1, 1}, 0, 4)) << "it has more tasks than CPUs";
    EXPECT_TRUE(may_pull("PKG", {0, 3, 1, 1, 3, 1, 1, 1}, 0, 4)) << "five for four CPUs, six for four";
    EXPECT_FALSE(may_pull("PKG", {0, 4, 1, 1, 2, 0, 0, 0}, 0, 4)) << "its own is the crowded one";
}

TEST_F(BusyGroups, DelayedTasksCountOnlyWithLate) {
    view_.delayed[4] = 1;
    EXPECT_FALSE(may_pull("PKG", {0, 1, 1, 1, 2, 1, 1, 1}, 0, 4)) << "four to three";
    EXPECT_TRUE(may_pull("PKG", {0, 1, 1, 1, 3, 1, 1, 1}, 0, 4));
    late_ = true;
    EXPECT_TRUE(may_pull("PKG", {0, 1, 1, 1, 2, 1, 1, 1}, 0, 4)) << "five to three";
}

TEST_F(BusyGroups, WithinItsOwnFromAnybody) {
    EXPECT_TRUE(may_pull("PKG", {0, 2, 0, 0, 0, 0, 0, 0}, 0, 1));
    EXPECT_TRUE(may_pull("MC", {0, 2, 0, 0, 0, 0, 0, 0}, 0, 1)) << "groups of one CPU";
}

TEST_F(BusyGroups, AnIdleCpuTakesHalfABusyOneUpToTheMean) {
    EXPECT_EQ(tasks("MC", {0, 7, 1, 1, 0, 0, 0, 0}, 0, 1), 3);
    EXPECT_EQ(tasks("MC", {0, 1, 1, 1, 0, 0, 0, 0}, 0, 1), 1) << "one at the least";
    EXPECT_EQ(tasks("MC", {1, 9, 1, 1, 0, 0, 0, 0}, 0, 1), 2) << "three for each";
    EXPECT_EQ(tasks("PKG", {1, 9, 1, 1, 9, 1, 1, 1}, 0, 4), 2);
}

}  // namespace
}  // namespace rewake::closed
