// SPDX-License-Identifier: GPL-2.0-or-later
// Task groups: what they weigh, what their tasks count, when they are throttled; and the averages that a recording starts with.
#include "replay/model/groups.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "replay/model/machine.hpp"
#include "replay/model/quota.hpp"
#include "tests/replay/policies_machine.hpp"

namespace rewake {
namespace {

constexpr Ns kMs = 1'000'000;
constexpr Cpu k0{0}, k1{1};

TEST(GroupQueues, AnEntityOfBusyTasksCountsMoreThanItsWeight) {
    GroupQueues groups({{}, {.parent = 0}}, 1);
    QueuePelt root;
    int64_t weight = 0;
    int32_t entities = 0;
    const GroupQueues::At at{k0, {root, weight, entities}, 10 * kMs, 10 * kMs};
    Pelt task;
    task.load_avg = 1024, task.util_avg = task.runnable_avg = 1000;
    for (int i = 0; i < 2; ++i) {
        groups.attach(1, at, task, 1024);
        groups.enqueue(1, at, 1024);
    }
    EXPECT_EQ(weight, 1024);
    EXPECT_EQ(root.load_avg, 2000);  // runnable is at least their utilisation, together (update_tg_cfs_load)
}

Pelt averages(int32_t load, int32_t util) {
    Pelt p;
    p.load_avg = load, p.util_avg = p.runnable_avg = util;
    return p;
}

TEST(GroupQueues, ATaskThatMovesIsTakenOffBeforeItsGroupIsWeighed) {
    GroupQueues groups({{}, {.parent = 0, .shares = 1024}}, 2);
    QueuePelt root[2];
    int64_t weight[2] = {0, 0};
    int32_t entities[2] = {0, 0};
    for (const Cpu c : {k1, k0})
        for (int i = 0; i < 2; ++i) {
            const GroupQueues::At at{
                c, {root[c.v], weight[c.v], entities[c.v]}, (10 + 2 * i) * kMs, (10 + 2 * i) * kMs};
            groups.attach(1, at, averages(1024, 500), 1024);
            groups.enqueue(1, at, 1024);
        }
    EXPECT_EQ(weight[0], 512);  // half of the load is there
    const Pelt leaves = averages(1024, 500);
    groups.dequeue(1, {k0, {root[0], weight[0], entities[0]}, 12 * kMs, 12 * kMs}, 1024, &leaves);
    EXPECT_EQ(weight[0], 341);  // a third
}

/// A group on two CPUs, each with a root queue of its own.
struct Two {
    explicit Two(GroupRules rules) : groups({{}, {.parent = 0, .shares = 1024}}, 2, rules) {}
    GroupQueues::At at(Cpu c, Ns now) { return {c, {root[c.v], weight[c.v], entities[c.v]}, now, now}; }
    void add(Cpu c, int32_t load, Ns now) {
        groups.attach(1, at(c, now), averages(load, load), 1024);
        groups.enqueue(1, at(c, now), 1024);
    }
    GroupQueues groups;
    QueuePelt root[2];
    int64_t weight[2] = {0, 0};
    int32_t entities[2] = {0, 0};
};

TEST(GroupQueues, AGroupWhoseLastTaskSleepsIsWeighedByWhatItAveragesUntil611) {
    for (const bool weigh_empty : {false, true}) {
        Two two({.weigh_empty = weigh_empty});
        two.add(k1, 768, 10 * kMs), two.add(k0, 256, 10 * kMs);
        EXPECT_EQ(two.groups.share(1, k0), 1024 * 1024 / (768 + 1024));  // by the weight of its task
        two.groups.dequeue(1, two.at(k0, 10 * kMs), 1024);
        EXPECT_EQ(two.groups.share(1, k0), weigh_empty ? 1024 * 256 / (768 + 256) : 1024 * 1024 / (768 + 1024));
        EXPECT_EQ(two.weight[0], 0);
    }
}

TEST(GroupQueues, UntilSixSixAQueueTellsItsGroupOfItsLoadWithoutDelay) {
    for (const Ns every : {kMs, Ns{0}}) {
        Two two({.tell_every = every});
        two.add(k1, 1024, 10 * kMs), two.add(k0, 1024, 10 * kMs);
        two.add(k0, 1024, 10 * kMs + kMs / 2);
        two.groups.update(1, two.at(k1, 10 * kMs + kMs / 2), true);
        EXPECT_EQ(two.weight[1], 1024 * 1024 / (every ? 2048 : 3072));
    }
}

TEST(GroupQueues, WhoLeavesAndJoinsAgainIsNotInWhatItsQueueTellsForAMillisecond) {
    GroupQueues groups({{}, {.parent = 0, .shares = 1024}}, 2);
    QueuePelt root[2];
    int64_t weight[2] = {0, 0};
    int32_t entities[2] = {0, 0};
    const auto at = [&](Cpu c, Ns now) {
        return GroupQueues::At{c, {root[c.v], weight[c.v], entities[c.v]}, now, now};
    };
    for (const Cpu c : {k1, k0}) {
        groups.attach(1, at(c, 10 * kMs), averages(1024, 500), 1024);
        groups.enqueue(1, at(c, 10 * kMs), 1024);
    }
    groups.update(1, at(k1, 12 * kMs), true);
    EXPECT_EQ(weight[1], 512);
    Pelt task = averages(1024, 500);
    groups.rejoin(1, at(k0, 12 * kMs), 1024, task);
    EXPECT_EQ(groups.queue(1, k0).load_avg, 1024);
    EXPECT_EQ(weight[0], 512);
    groups.update(1, at(k1, 12 * kMs), true);
    EXPECT_EQ(weight[1], 1024) << "as if it had the whole load";
    groups.update(1, at(k0, 14 * kMs), false);
    groups.update(1, at(k1, 14 * kMs), true);
    EXPECT_LT(weight[1], 1024);
}

TEST(GroupQueues, AnEntityTakesOverTheUtilisationOfAGroupThatStoodStill) {
    GroupQueues groups({{}, {.parent = 0}}, 1);
    QueuePelt root;
    int64_t weight = 0;
    int32_t entities = 0;
    auto at = [&](Ns now) {
        root.accrue(now, static_cast<double>(weight), entities, false);
        return GroupQueues::At{k0, {root, weight, entities}, now, now};
    };
    groups.attach(1, at(10 * kMs), averages(1024, 800), 1024);
    groups.enqueue(1, at(10 * kMs), 1024);
    groups.dequeue(1, at(10 * kMs), 1024);
    groups.stop(1, k0, 10 * kMs);
    EXPECT_LT((at(210 * kMs), root.util_avg), 20);
    groups.start(1, k0, 210 * kMs, false);
    groups.attach(1, at(210 * kMs), averages(1024, 100), 1024);
    groups.enqueue(1, at(210 * kMs), 1024);
    EXPECT_NEAR(root.util_avg, 900, 5);
}

TEST(GroupQueues, EntitiesBeginWithTheWeightOfTheLoadThatIsThere) {
    GroupQueues groups({{}, {.parent = 0, .shares = 1024}, {.parent = 1, .shares = 256}}, 2);
    QueuePelt root[2];
    int64_t weight[2] = {0, 0};
    int32_t entities[2] = {0, 0};
    std::vector<GroupQueues::At> at;
    for (const Cpu c : {k0, k1}) at.push_back({c, {root[c.v], weight[c.v], entities[c.v]}, 10 * kMs, 10 * kMs});
    for (const GroupQueues::At& there : at) groups.attach(2, there, averages(512, 100), 1024);
    groups.begin(at);
    for (const Cpu c : {k0, k1}) {
        EXPECT_EQ(groups.queue(1, c).load_avg, 64);  // half of 256, for half of the time
        EXPECT_EQ(root[c.v].load_avg, 256);  // half of 1024 likewise
    }
}

class Groups : public testing::Test {
  protected:
    /// Tasks 4 and 5 are of group 1, task 6 of group 2 below it, task 7 of the root group.
    void build(std::vector<TaskGroup> groups) {
        topo_ = test::machine(2);
        topo_.finish();
        table_.masks.push_back({topo_.online, 2});
        table_.tasks.resize(8);
        table_.groups = std::move(groups);
        table_.tasks[4].group = table_.tasks[5].group = 1;
        table_.tasks[6].group = static_cast<uint16_t>(table_.groups.size() - 1);
        machine_.emplace(topo_, table_);
        for (const Cpu c : {k0, k1}) runs(0, c.v, c.v, c.v);
    }
    /// Group 1 gets `quota` every 100 ms, and has used it up by 41 ms. At 101 ms it gets it again: task 4 goes on, on CPU 0.
    void begin_period(Ns quota) {
        build({{}, {.parent = 0, .shares = 1024, .quota = quota, .period = 100 * kMs}});
        EventOrder none(2, 8);
        none.build({});
        machine_->prime({}, none, {});  // ticks begin
        runs(kMs, 0, 0, 4);
        runs(41 * kMs, 0, 4, 0, PrevState::R);
        runs(101 * kMs, 0, 0, 4);
    }
    void runs(Ns ts, uint16_t cpu, uint32_t prev, uint32_t next, PrevState state = PrevState::S) {
        const int64_t id = 0;
        const auto code = static_cast<uint8_t>(state);
        const int16_t prio = 120;
        SwitchColumns s;
        s.n = 1, s.id = &id, s.ts = &ts, s.cpu = &cpu, s.prev_task = &prev, s.prev_prio = &prio;
        s.prev_state = &code, s.next_task = &next, s.next_prio = &prio;
        machine_->on_switch(s, 0);
    }
    void wakes(Ns ts, uint32_t task, Cpu c) { machine_->on_wakeup(TaskId(task), 120, c, ts); }
    void looks(Ns ts) {
        machine_->advance(ts, k0, k1);
        machine_->advance(ts, k1, k0);
    }
    int64_t load(Cpu c, LoadKind kind) {
        machine_->select_load(kind);
        return machine_->view().load[c.v];
    }
    int64_t counts(uint32_t task, Cpu c) { return machine_->task_load(TaskId(task), c, LoadKind::average); }
    int32_t util(uint32_t task, Cpu c) { return machine_->task_util(machine_->task(TaskId(task)), c).util; }
    bool idle(Cpu c) const { return machine_->view().idle.test(c); }

    Topology topo_;
    TaskTable table_;
    std::optional<Machine> machine_;
};

TEST_F(Groups, AGroupOnOneCpuHasItsWholeShareThere) {
    build({{}, {.parent = 0, .shares = 512}});
    runs(kMs, 0, 0, 4);
    wakes(2 * kMs, 5, k0);
    for (Ns t = 10 * kMs; t <= 800 * kMs; t += 10 * kMs) looks(t);
    EXPECT_EQ(load(k0, LoadKind::weight), 512);
    EXPECT_NEAR(static_cast<double>(load(k0, LoadKind::average)), 512, 2);
    EXPECT_EQ(machine_->view().nr[0], 2);
    EXPECT_EQ(machine_->view().cfs_nr[0], 1);  // one entity
    EXPECT_NEAR(static_cast<double>(counts(4, k0)), 256, 2);  // half of the group's queue, which counts 512
    EXPECT_NEAR(static_cast<double>(machine_->queue_load(TaskId(4), k0)), 2048, 4);
}

TEST_F(Groups, RecordedLoadsAreNotTakenWhereQueuesHangTogether) {
    for (const bool grouped : {false, true}) {
        if (grouped)
            build({{}, {.parent = 0}});
        else
            build({});
        runs(kMs, 0, 0, 7);
        looks(10 * kMs);
        const int64_t before = load(k0, LoadKind::average);
        machine_->learn(TaskId(7), k0, 900, before + 5000, {});
        EXPECT_EQ(load(k0, LoadKind::average), grouped ? before : before + 5000);
        EXPECT_EQ(machine_->view().nr[0], 1);
    }
}

TEST_F(Groups, TheShareGoesWhereTheLoadIs) {
    build({{}, {.parent = 0, .shares = 1024}});
    runs(kMs, 0, 0, 4);
    runs(kMs, 1, 1, 5);
    for (Ns t = 10 * kMs; t <= 800 * kMs; t += 10 * kMs) looks(t);
    EXPECT_NEAR(static_cast<double>(load(k0, LoadKind::weight)), 512, 3);  // 1024 x 1024 / 2048
    EXPECT_NEAR(static_cast<double>(load(k1, LoadKind::average)), 512, 8);
    runs(800 * kMs, 1, 5, 1);
    for (Ns t = 810 * kMs; t <= 1600 * kMs; t += 10 * kMs) {
        machine_->on_balance(k1, t);  // the idle CPU tells that its load is gone
        looks(t);
    }
    EXPECT_NEAR(static_cast<double>(load(k0, LoadKind::weight)), 1024, 20);
    EXPECT_EQ(load(k1, LoadKind::weight), 0);
}

TEST_F(Groups, AQueueThatWasAtRestGoesOnAsOneThatWasKeptUpToDate) {
    std::array<int64_t, 2> root{}, counted{};
    for (const bool kept : {false, true}) {
        build({{}, {.parent = 0, .shares = 512}, {.parent = 1, .shares = 1024}});
        runs(kMs, 0, 0, 6);
        runs(50 * kMs, 0, 6, 0);
        for (Ns t = 54 * kMs; kept && t < 5'000 * kMs; t += 4 * kMs) machine_->on_balance(k0, t);
        EXPECT_EQ(kept ? load(k0, LoadKind::average) : 0, 0);
        wakes(5'000 * kMs, 6, k0);
        runs(5'000 * kMs, 0, 0, 6);
        for (Ns t = 5'010 * kMs; t <= 5'100 * kMs; t += 10 * kMs) looks(t);
        root[kept] = load(k0, LoadKind::average);
        counted[kept] = counts(6, k0);
    }
    EXPECT_GT(root[0], 400);
    EXPECT_NEAR(static_cast<double>(root[0]), static_cast<double>(root[1]), 1);
    EXPECT_NEAR(static_cast<double>(counted[0]), static_cast<double>(counted[1]), 1);
}

TEST_F(Groups, ATaskOfANestedGroupCountsByAllShares) {
    build({{}, {.parent = 0, .shares = 1024}, {.parent = 1, .shares = 512}});
    runs(kMs, 0, 0, 4);  // weighs 1024 in group 1, beside group 2 with 512
    wakes(kMs, 6, k0);
    wakes(kMs, 7, k0);  // weighs 1024 on the root queue, beside group 1 with 1024
    for (Ns t = 10 * kMs; t <= 800 * kMs; t += 10 * kMs) looks(t);
    EXPECT_EQ(machine_->view().cfs_nr[0], 2);
    EXPECT_NEAR(static_cast<double>(load(k0, LoadKind::average)), 2048, 6);
    EXPECT_NEAR(static_cast<double>(counts(7, k0)), 1002, 4) << "as of when it came, 1 ms after the beginning";
    EXPECT_NEAR(static_cast<double>(counts(4, k0)), 683, 4);  // 1024 x 1024 / 1536
    EXPECT_NEAR(static_cast<double>(counts(6, k0)), 333, 4);  // 1002 x 512 / 1536
}

TEST_F(Groups, AThrottledGroupIsNotRunnableAndItsClockStands) {
    build({{}, {.parent = 0, .shares = 1024, .quota = 10 * kMs, .period = 100 * kMs}});
    runs(kMs, 0, 0, 4);
    runs(41 * kMs, 0, 4, 0, PrevState::R);  // it could run on, and the CPU is idle: no quota
    EXPECT_TRUE(idle(k0));
    EXPECT_EQ(machine_->view().nr[0], 0);
    const int32_t then = util(4, k0);
    EXPECT_GT(then, 500);
    wakes(60 * kMs, 5, k0);  // of the same group: it waits, and the CPU stays idle
    EXPECT_TRUE(idle(k0));
    EXPECT_EQ(machine_->task(TaskId(5)).state, Machine::State::throttled);
    wakes(70 * kMs, 7, k1);  // of another group
    EXPECT_FALSE(idle(k1));
    looks(95 * kMs);
    EXPECT_EQ(util(4, k0), then);
    runs(101 * kMs, 0, 0, 4);  // its next period
    EXPECT_EQ(machine_->view().nr[0], 2);
    EXPECT_EQ(machine_->task(TaskId(5)).state, Machine::State::queued);
    looks(102 * kMs);
    EXPECT_NEAR(util(4, k0), then, 20);
}

TEST_F(Groups, AGroupWithoutQuotaIsThrottledWhereverItsTasksLeave) {
    build({{}, {.parent = 0, .shares = 1024, .quota = 20 * kMs, .period = 100 * kMs}});
    runs(kMs, 0, 0, 4);
    runs(kMs, 1, 1, 5);
    runs(21 * kMs, 0, 4, 0, PrevState::R);
    runs(23 * kMs, 1, 5, 1);  // it sleeps; the CPU has used up what it drew
    const int32_t then = util(5, k1);
    wakes(60 * kMs, 5, k1);
    EXPECT_TRUE(idle(k1));
    EXPECT_EQ(util(5, k1), then);
    runs(101 * kMs, 0, 0, 4);
    EXPECT_FALSE(idle(k1));  // the quota comes to all CPUs at once
}

TEST_F(Groups, WhatRunsOnDrawsAtEveryTick) {
    begin_period(20 * kMs);
    runs(101 * kMs, 1, 1, 5);
    for (Ns t = 102 * kMs; t <= 112 * kMs; t += kMs) looks(t);
    runs(112 * kMs + 50'000, 1, 5, 1);  // it sleeps; together they have run for 22 ms
    EXPECT_TRUE(machine_->held(1, k1));
}

TEST_F(Groups, WhatRunsDrawsWhenATaskOfItsGroupQueues) {
    for (const bool same : {true, false}) {
        begin_period(3 * kMs);
        wakes(103 * kMs, same ? 6 : 7, k0);  // 4 has run for 2 ms since the last tick: all goes there
        runs(103 * kMs + 100'000, 1, 1, 5);
        runs(103 * kMs + 180'000, 1, 5, 1);
        EXPECT_EQ(machine_->held(1, k1), same);
    }
}

TEST_F(Groups, WhoGoesOnWithNothingLeftHadDrawn) {
    for (const bool goes_on : {false, true}) {
        begin_period(20 * kMs);
        for (Ns t = 102 * kMs; t <= 124 * kMs; t += kMs) looks(t);  // the last tick finds nothing left
        runs(124 * kMs + (goes_on ? 2 * kMs : 50'000), 0, 4, 0);  // it sleeps
        EXPECT_EQ(machine_->held(1, k0), !goes_on);
    }
}

TEST_F(Groups, WhoDiesIsInItsQueueUntilThatIsUpdatedAndThenWhatItRanAfterItWokeItsParent) {
    constexpr TaskId parent(7);
    const auto starts = [&](uint32_t task, Ns ts) {
        machine_->on_fork(TaskId(task), parent);
        wakes(ts, task, k0);
        runs(ts, 0, 0, task);
        return util(task, k0);
    };
    const Ns begin = 100 * kPeltPeriod + 10'000, end = begin + 900'000;  // within one period
    const auto next_one = [&](bool wakes_parent, bool updated) {
        build({{}, {.parent = 0, .shares = 1024}});
        EXPECT_EQ(starts(4, begin), 512);
        machine_->on_exit(TaskId(4), begin + 100'000);
        if (wakes_parent) machine_->advance(begin + 100'000, k0, k0, parent);
        runs(end, 0, 4, 0, PrevState::X);
        if (updated) machine_->on_balance(k0, end + 4 * kMs);
        return starts(5, end + 5 * kMs);
    };
    EXPECT_EQ(next_one(false, false), 256) << "half of what is left of the CPU";
    EXPECT_EQ(next_one(false, true), 512);
    EXPECT_LT(next_one(true, true), 512);
}

TEST_F(Groups, AnIdleCpuThatDoesNotBeginIsThrottled) {
    build({{}, {.parent = 0, .shares = 1024, .quota = 20 * kMs, .period = 100 * kMs}});
    wakes(kMs, 4, k0);
    looks(kMs + 50'000);
    EXPECT_FALSE(idle(k0));  // it may still be on its way
    looks(kMs + 150'000);
    EXPECT_TRUE(idle(k0));
}

TEST_F(Groups, AnIdleCpuThatHasBegunInBetweenIsNotThrottled) {
    build({{}, {.parent = 0, .shares = 1024, .quota = 20 * kMs, .period = 100 * kMs}});
    wakes(kMs, 4, k0);
    runs(kMs + 5'000, 0, 0, 4);
    runs(kMs + 10'000, 0, 4, 0);
    wakes(kMs + 140'000, 4, k0);  // nobody has looked since it queued for the first time
    looks(kMs + 150'000);
    EXPECT_FALSE(idle(k0));
    looks(kMs + 250'000);
    EXPECT_TRUE(idle(k0));
}

TEST(QuotaTest, CpusDrawSlicesOfFiveMsAndGiveBackAllButOne) {
    Quota q(12 * kMs, 100 * kMs, 3);
    EXPECT_FALSE(q.used_up(k0));  // endless until a period is known
    q.set_used_up(k0);
    EXPECT_TRUE(q.used_up(k0));
    q.refill(1000 * kMs);
    EXPECT_EQ(q.due(), 1100 * kMs);
    q.forgive(k0);  // 1 ns of 12 ms
    q.ran(k0, 1);  // draws 5 ms: 7 ms - 1 ns are left
    q.ran(k1, 2 * kMs);  // had drawn 5 ms before the pool ended; 3 left
    q.quiet(k0);  // 4 ms go back, one stays: 11 ms - 1 ns
    q.ran(k0, 2 * kMs);  // overdrawn by one: draws 6 to have 5
    EXPECT_FALSE(q.used_up(k0));
    q.ran(k0, 5 * kMs);  // draws what is left
    q.ran(k0, 5 * kMs);
    EXPECT_TRUE(q.used_up(k0));
    q.goes_on(k0);  // it had drawn five, then
    q.ran(k0, 4 * kMs);
    EXPECT_FALSE(q.used_up(k0));
    q.goes_on(k0);  // as it may
    q.ran(k0, 1 * kMs);
    EXPECT_TRUE(q.used_up(k0));
    EXPECT_TRUE(q.near(1200 * kMs + 50'000, 100'000));
    EXPECT_TRUE(q.near(1200 * kMs - 50'000, 100'000));
    EXPECT_FALSE(q.near(1250 * kMs, 100'000));
}

TEST_F(Groups, AveragesBeginAsTheFirstEventsWouldHaveMadeThem) {
    const std::vector<int64_t> id{0, 1, 2, 3, 4}, ts{0, 10 * kMs, 20 * kMs, 30 * kMs, 50 * kMs};
    const std::vector<uint16_t> cpu{0, 0, 1, 1, 0};
    const std::vector<uint32_t> prev{0, 7, 1, 7, 0}, next{7, 0, 7, 1, 7};
    const std::vector<int16_t> prio(5, 120);
    const std::vector<uint8_t> state(5, static_cast<uint8_t>(PrevState::S));
    Batch b;
    b.sw.n = 5, b.sw.id = id.data(), b.sw.ts = ts.data(), b.sw.cpu = cpu.data();
    b.sw.prev_task = prev.data(), b.sw.next_task = next.data(), b.sw.prev_state = state.data();
    b.sw.prev_prio = b.sw.next_prio = prio.data();
    EventOrder order(2, 8);
    order.build(b);
    // The time before it is its beginning backwards: what is later weighs less, by half in 32 periods.
    const auto weight = [](double from, double to) { return std::exp2(-from / 33.554) - std::exp2(-to / 33.554); };
    for (const uint16_t capacity : {uint16_t{1024}, uint16_t{512}}) {  // of CPU 1, where it ran 10 of its 20 of 50 ms
        build({{}});
        topo_.cap_orig = {1024, capacity};
        machine_.emplace(topo_, table_);
        machine_->prime(b, order, {});
        const double expected = (1024 * weight(0, 10) + capacity * weight(20, 30)) / weight(0, 50);
        EXPECT_NEAR(util(7, k0), expected, 1.1);
        EXPECT_NEAR(machine_->task(TaskId(7)).util_est, expected, 1.1);
    }
}

}  // namespace
}  // namespace rewake
