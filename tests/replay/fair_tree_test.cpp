// SPDX-License-Identifier: GPL-2.0-or-later
// The tree of task groups by hand: shares of a CPU, who is found from the root down, and groups that are throttled.
#include "replay/model/fair/tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "tests/replay/policies_machine.hpp"

namespace rewake {
namespace {

constexpr Ns kMs = 1'000'000;
constexpr FairPolicy kNormal = FairPolicy::normal;
constexpr Cpu c0(0), c1(1);
constexpr TaskId a(4), b(5), c(6);
using How = FairQueues::How;

class Trees : public testing::TestWithParam<int> {  // minor version of a 6.x kernel
  protected:
    /// `group_of`: of tasks a, b and c.
    void build(std::vector<TaskGroup> groups, std::vector<uint16_t> group_of) {
        topo_ = test::machine(2);
        topo_.finish();
        table_.masks.push_back({topo_.online, 2});
        table_.tasks.resize(8);
        table_.groups = std::move(groups);
        for (size_t i = 0; i < group_of.size(); ++i) table_.tasks[a.v + i].group = group_of[i];
        machine_.emplace(topo_, table_);
        tree_.emplace(2, table_, FairSettings::of(6, GetParam(), 16, kMs), *machine_);
    }
    void wakes(TaskId t, Ns now, Cpu cpu = c0) {
        machine_->on_wakeup(t, 120, cpu, now);
        tree_->enqueue(cpu, t, 1024, How::wakeup, now);
    }
    /// What each got of CPU 0 in so many ms, with a look at every tick.
    std::map<uint32_t, int> shares(int ms) {
        std::map<uint32_t, int> got;
        for (int i = 0; i < ms; ++i, ++now_) {
            if (!running_ || tree_->tick(c0)) {
                const TaskId next = tree_->pick(c0);
                if (running_ != next) {
                    if (running_) tree_->stop(c0, now_ * kMs);
                    tree_->start(c0, next, now_ * kMs);
                    running_ = next;
                }
            }
            ++got[running_->v];
            tree_->charge(c0, (now_ + 1) * kMs);
        }
        return got;
    }

    Topology topo_;
    TaskTable table_;
    std::optional<Machine> machine_;
    std::optional<FairTree> tree_;
    std::optional<TaskId> running_;
    Ns now_ = 0;
};

TEST_P(Trees, TwoGroupsOfWeightsOneAndThreeShareACpuOneToThree) {
    build({{}, {.parent = 0, .shares = 1024}, {.parent = 0, .shares = 3072}}, {1, 2});
    wakes(a, 0), wakes(b, 0);
    const auto got = shares(2000);
    EXPECT_NEAR(got.at(a.v), 500, 25);
    EXPECT_NEAR(got.at(b.v), 1500, 25);
}

TEST_P(Trees, AGroupOfTwoHasNoMoreThanAGroupOfOne) {
    build({{}, {.parent = 0}, {.parent = 0}}, {1, 1, 2});
    wakes(a, 0), wakes(b, 0), wakes(c, 0);
    const auto got = shares(2000);
    EXPECT_NEAR(got.at(c.v), 1000, 40);
    EXPECT_NEAR(got.at(a.v), 500, 40);
    EXPECT_NEAR(got.at(b.v), 500, 40);
}

TEST_P(Trees, NestedGroupsShareWhatTheirParentGets) {
    // 1 and 2 are below 3: 3 : 1 of one half. (Parents come first: 1 is the parent, 2 and 3 its children, c is in the root.)
    build({{}, {.parent = 0}, {.parent = 1, .shares = 3072}, {.parent = 1, .shares = 1024}}, {2, 3, 0});
    wakes(a, 0), wakes(b, 0), wakes(c, 0);
    const auto got = shares(4000);
    EXPECT_NEAR(got.at(c.v), 2000, 60);
    EXPECT_NEAR(got.at(a.v), 1500, 60);
    EXPECT_NEAR(got.at(b.v), 500, 60);
}

TEST_P(Trees, AThrottledGroupIsNotFoundAndItsTasksWait) {
    build({{}, {.parent = 0}, {.parent = 1}}, {1, 2, 0});
    wakes(a, 0), wakes(b, 0), wakes(c, 0);
    std::vector<TaskId> turned;
    tree_->hold(1, c0, 0, &turned);
    EXPECT_EQ(turned, (std::vector{a, b})) << "those of its child, too";
    EXPECT_TRUE(tree_->held(a) && tree_->held(b) && tree_->blocked(b, c0) && !tree_->blocked(b, c1));
    EXPECT_EQ(tree_->queue(c0), std::vector{c});
    EXPECT_EQ(shares(50).at(c.v), 50);
    tree_->dequeue(b, true);
    wakes(b, 50 * kMs);
    EXPECT_EQ(tree_->size(c0), 1u) << "who wakes into it waits";
    EXPECT_FALSE(tree_->preempts(c0, b, kNormal, kNormal));
    turned.clear();
    tree_->release(1, c0, 50 * kMs, &turned);
    EXPECT_EQ(turned, (std::vector{a, b}));
    EXPECT_EQ(tree_->size(c0), 3u);
    EXPECT_GT(shares(50).count(a.v), 0u) << "it goes on";
}

TEST_P(Trees, AChildThatIsThrottledItselfStaysSo) {
    build({{}, {.parent = 0}, {.parent = 1}}, {1, 2, 0});
    wakes(a, 0), wakes(b, 0);
    tree_->hold(2, c0, 0);
    tree_->hold(1, c0, 0);
    EXPECT_EQ(tree_->size(c0), 0u);
    tree_->release(1, c0, 0);
    EXPECT_EQ(tree_->queue(c0), std::vector{a});
    tree_->release(2, c0, 0);
    EXPECT_EQ(tree_->size(c0), 2u);
}

TEST_P(Trees, WhoSleepsLeavesAnEmptyGroupBehind) {
    build({{}, {.parent = 0}}, {1, 0});
    wakes(a, 0), wakes(b, 0);
    EXPECT_TRUE(tree_->occupied(1, c0));
    tree_->leave(a);
    EXPECT_FALSE(tree_->occupied(1, c0));
    EXPECT_EQ(tree_->pick(c0), b);
    EXPECT_EQ(tree_->queue(c0), std::vector{b});
    tree_->start(c0, b, 0);
    tree_->dequeue(b, true);
    tree_->drain(c0);
    EXPECT_EQ(tree_->size(c0), 0u);
    wakes(a, kMs);
    EXPECT_EQ(tree_->pick(c0), a);
}

TEST_P(Trees, AWakeeIsWeighedAgainstWhatRunsOnTheLevelThatTheyShare) {
    build({{}, {.parent = 0}, {.parent = 0}}, {1, 2, 1});
    wakes(a, 0);
    tree_->dequeue(a, true);
    tree_->drain(c0);
    wakes(b, 0);
    tree_->start(c0, b, 0);
    const Ns until = GetParam() < 6 ? 60 * kMs : kMs;  // EEVDF: of equals, who has had its slice makes way
    tree_->charge(c0, until);
    wakes(a, until);
    if (GetParam() < 6)
        EXPECT_TRUE(tree_->preempts(c0, a, kNormal, kNormal)) << "its group is half a latency behind";
    else
        EXPECT_FALSE(tree_->preempts(c0, a, kNormal, kNormal)) << "nobody is owed anything";
}

TEST_P(Trees, TasksOfAGroupOfIdlePolicyCountAsSuch) {  // idle_h_nr_running, which sched_idle_cpu() looks at
    build({{}, {.parent = 0, .shares = 3, .idle = true}, {.parent = 1}}, {2, 0});
    wakes(a, 0);
    EXPECT_TRUE(machine_->view().sidle.test(c0));
    EXPECT_EQ(machine_->task_load(a, c0, LoadKind::weight), 1024) << "it weighs what it does, within its group";
    wakes(b, 0);
    EXPECT_FALSE(machine_->view().sidle.test(c0));
}

TEST_P(Trees, AGroupOfIdlePolicyMakesWayForOthersAndTakesTheCpuFromNone) {
    for (const bool idle : {true, false}) {
        build({{}, {.parent = 0, .shares = 3, .idle = true}, {.parent = 1, .idle = idle}, {.parent = 0}}, {2, 3, 1});
        wakes(a, 0);
        tree_->start(c0, a, 0);
        tree_->charge(c0, kMs / 10);
        wakes(b, kMs / 10);
        EXPECT_TRUE(tree_->preempts(c0, b, kNormal, kNormal));
        tree_->stop(c0, kMs / 10);
        tree_->start(c0, b, kMs / 10);
        const Ns until = GetParam() < 6 ? 100 * kMs : kMs / 2;  // EEVDF: within its slice
        tree_->charge(c0, until);
        wakes(c, until);
        EXPECT_FALSE(tree_->preempts(c0, c, kNormal, kNormal));
        tree_->stop(c0, until);
        tree_->start(c0, c, until);
        tree_->charge(c0, until + kMs / 10);
        tree_->dequeue(a, true), tree_->drain(c0);
        wakes(a, until + kMs / 10);
        if (idle) {
            EXPECT_FALSE(tree_->preempts(c0, a, kNormal, kNormal)) << "it is below a group that c is in itself";
        }
    }
}

TEST_P(Trees, WhatRunsUntilItGoesIsTheTimeOfWhoComesNextAndOfItsGroup) {
    build({{}, {.parent = 0}}, {1, 1, 1});
    wakes(b, 0);
    tree_->dequeue(b, true);
    tree_->drain(c0);
    wakes(a, 0);
    tree_->start(c0, a, 0);
    tree_->charge(c0, 60 * kMs);
    wakes(b, 60 * kMs);
    ASSERT_TRUE(tree_->preempts(c0, b, kNormal, kNormal));
    tree_->stop(c0, 61 * kMs);
    const int64_t before = tree_->behind(a, b);
    tree_->start(c0, b, 61 * kMs);
    tree_->charge(c0, 62 * kMs);
    EXPECT_EQ(before - tree_->behind(a, b), 2 * kMs);
}

TEST_P(Trees, BalancingTakesASleeperThatCompetesToTheQueueOfItsGroup) {
    if (GetParam() < 12) GTEST_SKIP() << "nobody competes in its sleep";
    build({{}, {.parent = 0}}, {1, 1, 1});
    wakes(a, 0), wakes(b, 0);
    tree_->start(c0, a, 0);
    tree_->stop(c0, kMs);
    tree_->dequeue(a, true);
    ASSERT_TRUE(tree_->delayed(a));
    wakes(c, kMs, c1);
    tree_->start(c1, c, kMs);
    tree_->carry(c1, a, kMs);
    EXPECT_TRUE(tree_->delayed(a));
    EXPECT_EQ(tree_->cpu(a), c1);
    EXPECT_EQ(tree_->behind(a, c), kMs) << "half a ms ahead of the average of its group, on both CPUs";
    EXPECT_TRUE(tree_->occupied(1, c0));
    tree_->dequeue(b, true);
    EXPECT_FALSE(tree_->occupied(1, c0));
    tree_->dequeue(c, true);
    EXPECT_TRUE(tree_->occupied(1, c1)) << "by who sleeps and competes";
}

TEST_P(Trees, BalancingLooksFirstAtWhoCameOrRanOrWasLookedAtLongestAgo) {
    for (const std::vector<uint16_t>& group_of : {std::vector<uint16_t>{0, 0, 0}, {0, 1, 1}}) {
        build({{}, {.parent = 0}}, group_of);
        const auto order = [this] {
            std::vector<uint32_t> all;
            tree_->any_by_age(c0, true, [&](TaskId t) { return all.push_back(t.v), false; });
            return all;
        };
        for (TaskId t : {a, b, c}) wakes(t, 0);
        EXPECT_EQ(order(), (std::vector{a.v, b.v, c.v}));
        tree_->start(c0, a, 0);
        EXPECT_EQ(order(), (std::vector{b.v, c.v, a.v}));
        tree_->passed_over(b);
        EXPECT_EQ(order(), (std::vector{c.v, a.v, b.v}));
        tree_->taken(b);
        EXPECT_EQ(order(), (std::vector{b.v, c.v, a.v})) << "whom it takes, it met after these";
        tree_->stop(c0, kMs);
        tree_->start(c0, c, kMs);
        EXPECT_EQ(order(), (std::vector{b.v, a.v, c.v}));
    }
}

TEST_P(Trees, WhoIsWokenInItsDelayedSleepKeepsItsPlaceInThatOrder) {
    if (GetParam() < 12) GTEST_SKIP() << "nobody competes in its sleep";
    build({{}}, {0, 0, 0});
    wakes(a, 0), wakes(b, 0);
    tree_->start(c0, a, 0);
    tree_->stop(c0, kMs);
    tree_->dequeue(a, true);
    ASSERT_TRUE(tree_->delayed(a));
    tree_->start(c0, b, kMs);
    EXPECT_TRUE(tree_->before(a, b));
    wakes(a, kMs);
    EXPECT_TRUE(tree_->before(a, b));
    EXPECT_TRUE(tree_->queue(c0) == (std::vector{b, a})) << "of equal claims it has the later one";
}

INSTANTIATE_TEST_SUITE_P(Kernels, Trees, testing::Values(1, 6, 12, 18));

}  // namespace
}  // namespace rewake
