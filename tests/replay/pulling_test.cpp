// SPDX-License-Identifier: GPL-2.0-or-later
// Whom a CPU takes of those that wait on another one.
#include "replay/engine/closed/pulling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/replay/policies_machine.hpp"

namespace rewake::closed {
namespace {

using test::cpu;
constexpr Ns kMs = 1'000'000, kCost = 500'000;
constexpr TaskId a(4), b(5), c(6), d(7);
using How = FairQueues::How;

/// Two CPUs; a, b, c and d come to CPU 0 in this order, and a runs.
class Waiting : public testing::TestWithParam<int> {  // minor version of a 6.x kernel
  protected:
    Waiting() : topo_(test::machine(2)) {
        topo_.finish();
        table_.masks.push_back({topo_.online, 2});
        table_.tasks.resize(8);
        machine_.emplace(topo_, table_);
        queues_.emplace(2, table_, FairSettings::of(6, GetParam(), 16, kMs), *machine_);
        for (TaskId t : {a, b, c, d}) {
            machine_->on_wakeup(t, 120, cpu(0), 0);
            queues_->enqueue(cpu(0), t, 1024, How::wakeup, 0);
        }
        queues_->start(cpu(0), a, 0);
    }
    /// CPU 1 takes one at `now`; those of `not_these` may not come. Whom it passes over it looks at last the next time.
    std::vector<TaskId> takes(Ns now, std::vector<TaskId> not_these) {
        std::vector<TaskId> found;
        Pulling pulling(*queues_, *machine_, topo_.domains[0], cpu(1), Has::none_now, 0);
        EXPECT_TRUE(pulling.uneven());
        pulling.each(
            now, kCost, [](TaskId) { return true; },
            [&](TaskId t) { return std::ranges::find(not_these, t) == not_these.end(); },
            [&](TaskId t) { found.push_back(t); }, [&](TaskId t) { queues_->passed_over(t); });
        return found;
    }
    Topology topo_;
    TaskTable table_;
    std::optional<Machine> machine_;
    std::optional<FairTree> queues_;
};

TEST_P(Waiting, TheOldestThatMayComeAndWhomItPassesOverIsTheNewest) {
    EXPECT_EQ(takes(kMs, {a, b}), (std::vector{c}));
    EXPECT_EQ(takes(kMs, {a}), (std::vector{c})) << "b was looked at before, and c is still there";
    EXPECT_EQ(takes(kMs, {a, c}), (std::vector{d}));
    EXPECT_EQ(takes(kMs, {a}), (std::vector{d}));
    EXPECT_EQ(takes(kMs, {a, d}), (std::vector{b}));
}

TEST_P(Waiting, WhoRanJustNowStays) {
    queues_->stop(cpu(0), kMs);
    queues_->start(cpu(0), b, kMs);
    queues_->stop(cpu(0), kMs + 1'000);
    queues_->start(cpu(0), c, kMs + 1'000);
    EXPECT_EQ(takes(kMs + 2'000, {c, d}), (std::vector<TaskId>{})) << "a and b are hot";
    EXPECT_EQ(takes(kMs + 2 * kCost, {c, d}), (std::vector{a}));
}

TEST_P(Waiting, WhoRunsAloneOnACpuOfNoLessCapacityIsLeftThere) {
    for (const auto& [capacity, looks] : {std::pair{1024, true}, {540, true}, {539, false}, {400, false}}) {
        Topology topo = test::machine(4, false, 2);
        topo.cap_orig = {static_cast<uint16_t>(capacity), 1024, 512, 512};
        topo.finish();
        Machine machine(topo, table_);
        FairTree queues(4, table_, FairSettings::of(6, GetParam(), 16, kMs), machine);
        for (const auto& [t, on] : {std::pair{a, 2}, {b, 3}}) {
            machine.on_wakeup(t, 120, cpu(on), 0);
            queues.enqueue(cpu(on), t, 1024, How::wakeup, 0);
        }
        Pulling pulling(queues, machine, topo.domains.back(), cpu(0), Has::none, 0);
        EXPECT_EQ(pulling.uneven(), looks) << capacity;
    }
}

TEST_P(Waiting, FromWhereMostFairTasksAre) {
    constexpr TaskId of_rt(3);
    Topology topo = test::machine(4, false, 2);
    topo.finish();
    Machine machine(topo, table_);
    FairTree queues(4, table_, FairSettings::of(6, GetParam(), 16, kMs), machine);
    machine.on_wakeup(of_rt, 50, cpu(2), 0);
    for (const auto& [t, on] : {std::pair{a, 2}, {b, 3}, {c, 3}}) {
        machine.on_wakeup(t, 120, cpu(on), 0);
        queues.enqueue(cpu(on), t, 1024, How::wakeup, 0);
    }
    Pulling pulling(queues, machine, topo.domains.back(), cpu(0), Has::none_now, 0);
    ASSERT_TRUE(pulling.uneven());
    const auto all = [](TaskId) { return true; };
    pulling.each(kMs, kCost, all, all, [](TaskId t) { EXPECT_EQ(t, b); }, [](TaskId) {});
}

TEST_P(Waiting, ACpuWhoseTasksMayAllNotComeIsLeftOut) {
    constexpr TaskId e(8);
    table_.tasks.resize(9);
    Topology topo = test::machine(4, false, 2);
    topo.finish();
    Machine machine(topo, table_);
    FairTree queues(4, table_, FairSettings::of(6, GetParam(), 16, kMs), machine);
    for (const auto& [t, on] : {std::pair{a, 2}, {b, 2}, {c, 2}, {d, 3}, {e, 3}}) {
        machine.on_wakeup(t, 120, cpu(on), 0);
        queues.enqueue(cpu(on), t, 1024, How::wakeup, 0);
    }
    queues.start(cpu(2), a, 0), queues.start(cpu(3), d, 0);
    for (const std::vector<TaskId>& pinned : {std::vector{a, b, c}, {b, c}, {a, b, c, d, e}}) {
        std::vector<TaskId> found;
        const auto free = [&](TaskId t) { return std::ranges::find(pinned, t) == pinned.end(); };
        Pulling pulling(queues, machine, topo.domains.back(), cpu(0), Has::none_now, 0);
        ASSERT_TRUE(pulling.uneven());
        pulling.each(
            kMs, kCost, free, [&](TaskId t) { return free(t) && t != a && t != d; },
            [&](TaskId t) { found.push_back(t); }, [](TaskId) {});
        EXPECT_EQ(found, pinned.size() == 3 ? std::vector{e} : std::vector<TaskId>{})
            << "one that runs and may come keeps it in";
        EXPECT_EQ(pulling.uneven(), pinned.size() < 5);
    }
}

TEST_P(Waiting, WhereGroupsOverlapEachIsBalancedForByThoseWhoseItIs) {  // a ring of four nodes
    Topology topo;
    topo.n_cpus = 4;
    topo.online = test::first_cpus(4);
    for (int i = 0; i < 4; ++i) {
        Domain& near = topo.domains.emplace_back();
        near.span = test::cpus({(i + 3) % 4, i, (i + 1) % 4});
        near.cpus = test::cpus({i});
    }
    topo.domains.emplace_back().span = topo.online;
    topo.finish();
    const Machine machine(topo, table_);
    for (int i = 0; i < 4; ++i)
        EXPECT_TRUE(balances_for_group(machine, cpu(i), topo.domains[static_cast<size_t>(topo.stack[i][1])], false));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Waiting, testing::Values(1, 6, 12, 18));

}  // namespace
}  // namespace rewake::closed
