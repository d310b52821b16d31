// SPDX-License-Identifier: GPL-2.0-or-later
// Load tracking of the Machine: averages move with their task and stay in proportion.
#include "replay/model/machine.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "replay/model/pelt.hpp"
#include "tests/replay/policies_machine.hpp"

namespace rewake {
namespace {

using test::cpu, test::cpus, test::machine;

constexpr Ns kMs = 1'000'000;
constexpr double kHalf = 33.554432 * kMs;  // 32 periods of 1024 times 1024 ns

TEST(Topology, LosesCpusThatGoOfflineAndKeepsItsNumbers) {
    Topology t = machine(8, false, 4);
    for (int c = 0; c < 8; ++c) {
        t.smt.push_back(cpus({c & ~1, c | 1}));
        if (c % 2) continue;
        Domain& d = t.domains.emplace_back();
        d.name = "SMT", d.span = t.smt.back(), d.share_llc = true;
    }
    t.finish();
    const Topology less = t.without(cpus({1}));
    EXPECT_EQ(less.smt[0], cpus({0}));
    EXPECT_EQ(less.llc_weight, (std::vector<int>{3, 4}));
    EXPECT_EQ(less.llc_span[0], cpus({0, 2, 3}));
    EXPECT_TRUE(less.smt_active);
    EXPECT_FALSE(less.share_cache(cpu(1), cpu(2)));
    EXPECT_TRUE(less.share_cache(cpu(0), cpu(2)));
    EXPECT_TRUE(less.stack[1].empty());
    ASSERT_EQ(less.stack[0].size(), 2u);  // MC and PKG: a core of one CPU has no domain
    EXPECT_EQ(less.domains[less.stack[0][0]].name, "MC");
    EXPECT_EQ(less.llc_level[0], 0);
    EXPECT_EQ(less.stack[2].size(), 3u);
    EXPECT_EQ(less.domains.size(), t.domains.size());
    const Topology bare = t.without_domains();
    EXPECT_FALSE(bare.has_llc_domain[0]);
    EXPECT_FALSE(bare.share_cache(cpu(0), cpu(1)));
    EXPECT_EQ(bare.smt[0], t.smt[0]);
}

class Loads : public testing::Test {
  protected:
    Loads() { build({1024, 1024}); }
    void build(std::vector<uint16_t> capacities) {
        topo_ = test::machine(2);
        topo_.cap_orig = std::move(capacities);
        topo_.finish();
        table_ = {};
        table_.masks.push_back({topo_.online, 2});
        table_.tasks.resize(8);
        machine_.emplace(topo_, table_);
    }
    Machine::TaskUtil util(uint32_t task, int cpu) {
        return machine_->task_util(machine_->task(TaskId(task)), Cpu(static_cast<uint16_t>(cpu)));
    }
    const SlowInputs& all(Ns ts) {
        machine_->advance(ts, Cpu(0), Cpu(1));
        machine_->look_at_all();
        return *machine_->view().slow;
    }
    void runs(Ns ts, uint16_t cpu, uint32_t prev, uint32_t next, PrevState state = PrevState::S, int16_t was = 120) {
        const int64_t id = 0;
        const auto code = static_cast<uint8_t>(state);
        const int16_t prio = 120;
        SwitchColumns s;
        s.n = 1, s.id = &id, s.ts = &ts, s.cpu = &cpu, s.prev_task = &prev, s.prev_prio = &was;
        s.prev_state = &code, s.next_task = &next, s.next_prio = &prio;
        machine_->on_switch(s, 0);
    }
    /// CPU 0 runs task 4, CPU 1 goes idle at 2 ms.
    void one_goes_idle() {
        runs(kMs, 0, 0, 4);
        runs(kMs, 1, 1, 5);
        runs(2 * kMs, 1, 5, 1);
    }
    /// Whether CPU 1 looks idle so long after that.
    bool idle_after(Ns ns) {
        machine_->advance(2 * kMs + ns, Cpu(1), Cpu(0));
        return machine_->view().avail.test(Cpu(1));
    }
    int64_t load(int cpu, LoadKind kind) {
        machine_->select_load(kind);
        return machine_->view().load[static_cast<size_t>(cpu)];
    }
    Topology topo_;
    TaskTable table_;
    std::optional<Machine> machine_;
};

TEST_F(Loads, ASleeperStaysInLoadAvgButNotInTheRunnableOne) {
    runs(kMs, 0, 0, 4);
    runs(500 * kMs, 0, 4, 0);
    EXPECT_NEAR(static_cast<double>(load(0, LoadKind::average)), 1024, 2);
    EXPECT_EQ(load(0, LoadKind::runnable), 0);
    EXPECT_EQ(load(0, LoadKind::weight), 0);
}

TEST_F(Loads, AWakeeThatMovesIsGoneWithTheNextUpdateOfItsOldCpuAndNotOnlyWhenItIsQueued) {
    for (const bool at_once : {false, true}) {  // an update so close after it was before it
        build({1024, 1024});
        runs(kMs, 0, 0, 4);
        runs(500 * kMs, 0, 4, 5);
        machine_->on_waking(TaskId(4), 120, true, Cpu(1), Cpu(0));
        machine_->on_migrate(TaskId(4), Cpu(0), Cpu(1), 500 * kMs + 1'000, Cpu(0));
        EXPECT_NEAR(static_cast<double>(load(0, LoadKind::average)), 1024, 2);
        runs(500 * kMs + 1'000 + (at_once ? 1'499 : 1'500), 0, 5, 0);
        EXPECT_NEAR(static_cast<double>(load(0, LoadKind::average)), at_once ? 1024 : 0, 4);
        EXPECT_EQ(load(1, LoadKind::average), 0);
        machine_->on_wakeup(TaskId(4), 120, Cpu(1), 500 * kMs + 6'000);
        EXPECT_NEAR(static_cast<double>(load(1, LoadKind::average)), 1024, 2);
        runs(500 * kMs + 7'000, 0, 0, 5);
        EXPECT_NEAR(static_cast<double>(load(0, LoadKind::average)), 0, 8) << "once";
    }
}

TEST_F(Loads, TasksThatABalanceMovesAreOnNoQueueBeforeTheLastOfThemIsOffTheOld) {
    for (const bool switches : {false, true}) {
        build({1024, 1024});
        machine_->set_pulling(2'000);
        runs(kMs, 0, 0, 4);
        for (uint32_t p : {5u, 6u}) {
            machine_->on_waking(TaskId(p), 120, true, Cpu(0));
            machine_->on_wakeup(TaskId(p), 120, Cpu(0), 2 * kMs);
        }
        const auto queued = [&](Ns ts) {
            machine_->advance(ts, Cpu(0), Cpu(1));
            return std::pair(machine_->view().nr[0], machine_->view().nr[1]);
        };
        machine_->on_migrate(TaskId(5), Cpu(0), Cpu(1), 3 * kMs, Cpu(1));
        EXPECT_EQ(queued(3 * kMs + 1'500), std::pair(2, 0));
        machine_->on_migrate(TaskId(6), Cpu(0), Cpu(1), 3 * kMs + 1'800, Cpu(1));
        EXPECT_EQ(queued(3 * kMs + 3'799), std::pair(1, 0));
        EXPECT_EQ(load(0, LoadKind::weight), 1024);
        if (switches) runs(3 * kMs + 3'799, 1, 1, 6);
        EXPECT_EQ(queued(3 * kMs + (switches ? 3'799 : 3'800)), std::pair(1, 2));
        EXPECT_EQ(load(1, LoadKind::weight), 2048);
    }
}

TEST_F(Loads, ACpuThatWasBusyAMomentAgoBalancesForItself) {
    for (const bool wakes : {false, true}) {
        build({1024, 1024});
        const auto scans = [&] { return machine_->view().nr_idle_scan[0]; };
        const auto tick_by = [&](Ns ts) { machine_->advance(ts, Cpu(0), Cpu(0)); };
        runs(kMs, 1, 1, 4);
        for (Ns ts = 2; ts < 400; ++ts) tick_by(ts * kMs);
        EXPECT_EQ(scans(), 1);
        runs(400 * kMs, 1, 4, 1);
        for (Ns ts = 401; ts < 700; ts += 3) {
            if (wakes) {  // in time before the next tick
                runs(ts * kMs, 1, 1, 5);
                runs(ts * kMs + 1000, 1, 5, 1);
            }
            tick_by(ts * kMs + kMs);
        }
        EXPECT_EQ(scans(), wakes ? 2 : 1) << "nobody looks: no tick goes on";
    }
}

TEST_F(Loads, ACpuOfIdlePolicyAloneBalancesAsOftenAsAnIdleOne) {
    for (const FairPolicy policy : {FairPolicy::normal, FairPolicy::idle}) {
        build({1024, 1024});
        table_.tasks[4].policy = policy;
        runs(kMs, 0, 0, 4);
        runs(kMs, 1, 1, 5);
        for (Ns ts = 4; ts < 400; ts += 4) machine_->on_balance(Cpu(0), ts * kMs);
        EXPECT_EQ(machine_->scan_of(Llc(0)).writes, policy == FairPolicy::idle ? 99 : 7) << "4 ms, or 15 jiffies";
    }
}

TEST_F(Loads, AWokenTaskTakesItsLoadAlong) {
    runs(kMs, 0, 0, 4);
    runs(500 * kMs, 0, 4, 0);
    machine_->on_wakeup(TaskId(4), 120, Cpu(1), 500 * kMs + static_cast<Ns>(kHalf));
    EXPECT_NEAR(static_cast<double>(load(1, LoadKind::average)), 512, 2);
    EXPECT_NEAR(static_cast<double>(load(1, LoadKind::runnable)), 512, 2);
    EXPECT_EQ(load(1, LoadKind::weight), 1024);
}

TEST_F(Loads, TwoTasksAddUp) {
    runs(kMs, 0, 0, 4);
    machine_->on_wakeup(TaskId(5), 120, Cpu(0), 2 * kMs);
    machine_->advance(900 * kMs, Cpu(0), Cpu(0));
    EXPECT_NEAR(static_cast<double>(load(0, LoadKind::average)), 2048, 4);
    EXPECT_NEAR(static_cast<double>(machine_->task_load(TaskId(4), Cpu(0), LoadKind::average)), 1023, 2);
    EXPECT_EQ(machine_->task_load(TaskId(4), Cpu(0), LoadKind::weight), 1024);
}

TEST_F(Loads, ATaskOfIdlePolicyWeighsNextToNothing) {
    table_.tasks[4].policy = FairPolicy::idle;
    runs(kMs, 0, 0, 4);
    machine_->advance(900 * kMs, Cpu(0), Cpu(0));
    EXPECT_NEAR(static_cast<double>(load(0, LoadKind::average)), 3, 1);
    EXPECT_EQ(load(0, LoadKind::weight), 3);
    EXPECT_EQ(machine_->task_load(TaskId(4), Cpu(0), LoadKind::weight), 3);
    EXPECT_NEAR(util(4, 0).util, 1023, 2) << "it uses the CPU as others do";
    EXPECT_TRUE(machine_->view().sidle.test(Cpu(0)));
}

TEST_F(Loads, UtilisationOfATaskThatRanWaitedAndSleeps) {
    runs(kMs, 0, 0, 4);
    runs(101 * kMs, 0, 4, 0);  // 100 ms: 1024 (1 - 2^(-100/33.554)) = 894.2
    EXPECT_NEAR(util(4, 0).util, 894, 2);
    EXPECT_EQ(util(4, 0).util_est, util(4, 0).util);
    EXPECT_NEAR(util(4, 0).runnable, 894, 2);
    machine_->on_wakeup(TaskId(4), 120, Cpu(0), 101 * kMs + static_cast<Ns>(kHalf));
    EXPECT_NEAR(util(4, 0).util, 447, 2);
    EXPECT_EQ(all(134 * kMs).util_est[0], util(4, 0).util_est);
    EXPECT_EQ(all(134 * kMs).util_est[1], 0);
}

TEST_F(Loads, AWakeupThatPreemptsEndsTheOthersTimeUnlessItPreemptsLazily) {
    for (const bool lazily : {false, true}) {
        build({1024, 1024});
        table_.preempts_lazily = lazily;
        runs(0, 0, 0, 5);
        Ns at = 0;
        for (int i = 0; i < 5000; ++i, at += 100'000) {  // woken at 0 us, on the CPU from 15 to 35
            machine_->on_wakeup(TaskId(4), 120, Cpu(0), at);
            runs(at + 15'000, 0, 5, 4, PrevState::R);
            runs(at + 35'000, 0, 4, 5);
        }
        EXPECT_NEAR(util(4, 0).util, 1024 * (lazily ? 0.20 : 0.35), 4);
        machine_->on_wakeup(TaskId(4), 120, Cpu(0), at);
        runs(at + 50'000, 0, 5, 4, PrevState::R);  // longer after it than a switch that it causes
        runs(at + 60'000, 0, 4, 5);
        EXPECT_NEAR(util(5, 0).util, 1024 * (lazily ? 0.80 : 0.65), 4);
    }
}

TEST_F(Loads, ARunEndsByTheClockThatItsSwitchReadAndBeginsWithTheWakeup) {
    for (const Ns woken : {Ns{0}, Ns{2'000}}) {  // 2 us of 10 run before the switch that the wakeup asks for, or not
        build({1024, 1024});
        Ns at = 0;
        for (int i = 0; i < 20'000; ++i, at += 20'000) {
            machine_->on_wakeup(TaskId(4), 120, Cpu(0), at + woken);
            runs(at + 2'000, 0, 0, 4);
            runs(at + 10'000, 0, 4, 0);
        }
        const double ran = static_cast<double>(10'000 - 350 - woken);
        EXPECT_NEAR(util(4, 0).util, 1024 * ran / 20'000, 1.5);
    }
}

TEST(SwitchClock, StandsAtTheWakeupThatPreemptsElseALittleBeforeTheSwitch) {
    const TaskId p(4), other(5);
    SwitchClock c;
    EXPECT_EQ(c.at(50'000, false, p, 1024), 49'650);
    EXPECT_EQ(c.at(50'000, false, p, 512), 49'300);
    c.woke(p, 60'000);
    EXPECT_TRUE(c.last_woke(p));
    EXPECT_EQ(c.at(62'000, true, p, 1024), 60'000);
    EXPECT_FALSE(c.last_woke(p));
    EXPECT_EQ(c.at(64'000, true, p, 1024), 63'650);  // no wakeup since
    c.woke(p, 70'000);
    EXPECT_EQ(c.at(72'000, true, other, 1024), 71'650);
    c.woke(p, 80'000);
    EXPECT_EQ(c.at(80'100, false, p, 1024), 80'000);  // the clock never goes back
    c.woke(p, 90'000);
    EXPECT_EQ(c.at(110'000, true, p, 1024), 109'650);  // too long ago
}

TEST_F(Loads, WhatATaskDidBeforeTheRecordingIsGuessedByTheSameClock) {
    constexpr size_t n = 3000;  // 60 ms: woken at 0 us, on the CPU from 2 to 10, of 20
    std::vector<int64_t> woken, woken_id, ts, id;
    const std::vector<uint32_t> task(n, 4);
    const std::vector<uint16_t> cpu(2 * n, 0);
    const std::vector<int16_t> prio(2 * n, 120);
    const std::vector<uint8_t> state(2 * n, static_cast<uint8_t>(PrevState::S));
    const std::array<bool, n> no{};
    std::vector<uint32_t> prev, next;
    for (size_t i = 0; i < n; ++i) {
        const auto at = static_cast<Ns>(20'000 * i);
        const auto first = static_cast<int64_t>(3 * i);
        woken.push_back(at), woken_id.push_back(first);
        ts.insert(ts.end(), {at + 2'000, at + 10'000}), id.insert(id.end(), {first + 1, first + 2});
        prev.insert(prev.end(), {0, 4}), next.insert(next.end(), {4, 0});
    }
    Batch b;
    b.wakeup.n = n, b.wakeup.id = woken_id.data(), b.wakeup.ts = woken.data(), b.wakeup.cpu = cpu.data();
    b.wakeup.task = task.data(), b.wakeup.target_cpu = cpu.data(), b.wakeup.prio = prio.data(),
    b.wakeup.is_new = no.data();
    b.wakeup.curr_task = task.data();
    b.sw.n = 2 * n, b.sw.id = id.data(), b.sw.ts = ts.data(), b.sw.cpu = cpu.data();
    b.sw.prev_task = prev.data(), b.sw.next_task = next.data(), b.sw.prev_state = state.data();
    b.sw.prev_prio = b.sw.next_prio = prio.data();
    EventOrder order(2, 8);
    order.build(b);
    machine_->prime(b, order, {});
    EXPECT_NEAR(util(4, 0).util, 1024 * 9'650 / 20'000, 1);
}

TEST_F(Loads, WaitingKeepsTheEstimateOnlyFrom68) {
    for (const bool keeps : {false, true}) {
        build({1024, 1024});
        table_.estimates_ignore_waits = !keeps;
        runs(kMs, 0, 0, 4);
        runs(101 * kMs, 0, 4, 0);
        const int32_t before = util(4, 0).util_est;
        runs(201 * kMs, 0, 0, 5);
        machine_->on_wakeup(TaskId(4), 120, Cpu(0), 202 * kMs);
        runs(252 * kMs, 0, 5, 4);
        runs(254 * kMs, 0, 4, 0);
        EXPECT_EQ(util(4, 0).util_est == before, keeps);
        EXPECT_GE(util(4, 0).util_est, before * 3 / 4);
    }
}

TEST_F(Loads, ABusyCpuFollowsItsTicksAndAnIdleOneTheBalancer) {
    machine_->set_tick(4 * kMs, 1 * kMs);
    all(0), all(3'800'000);
    runs(3'850'000, 1, 1, 5);
    EXPECT_EQ(all(4'900'000).util[1], 0);
    EXPECT_EQ(all(5'700'000).util[1], 24);  // as of the tick at 5 ms: 1024 (1 - 2^(-1.15/33.554)) = 24.04
    runs(40 * kMs, 1, 5, 1);
    const int32_t then = all(40 * kMs).util[1];
    EXPECT_GT(then, 500);
    EXPECT_EQ(all(60 * kMs).util[1], then);  // nobody ticks
    runs(61 * kMs, 0, 0, 6);
    EXPECT_EQ(all(70 * kMs).util[1], then);  // nothing to give to another CPU
    machine_->on_wakeup(TaskId(7), 120, Cpu(0), 72 * kMs);
    EXPECT_NEAR(all(40 * kMs + static_cast<Ns>(2 * kHalf)).util[1], then / 4, 2);
}

TEST_F(Loads, WhatIsSeenChangesWithThePeriodsOfTheSchedulersClock) {
    machine_->set_clock_offset(5 * kPeltPeriod + 300'000);
    runs(kMs, 0, 0, 4);
    machine_->on_wakeup(TaskId(5), 120, Cpu(0), kPeltPeriod - 310'000);
    EXPECT_EQ(util(4, 0).util, 0);
    machine_->on_wakeup(TaskId(6), 120, Cpu(0), 2 * kPeltPeriod - 310'000);
    EXPECT_EQ(util(4, 0).util, 0) << "10 us before the period ends";
    machine_->on_wakeup(TaskId(7), 120, Cpu(0), 2 * kPeltPeriod - 290'000);
    EXPECT_GT(util(4, 0).util, 10);
}

TEST_F(Loads, TasksOfOnePullLeaveAtOneInstant) {
    machine_->on_fork(TaskId(5)), machine_->on_fork(TaskId(6)), machine_->on_fork(TaskId(7));
    runs(kMs, 0, 0, 4);
    for (uint32_t t : {5u, 6u, 7u}) machine_->on_wakeup(TaskId(t), 120, Cpu(0), kMs);
    const Ns edge = 8 * kPeltPeriod;
    machine_->on_migrate(TaskId(5), Cpu(0), Cpu(1), edge - 1'000, Cpu(1));
    machine_->on_migrate(TaskId(6), Cpu(0), Cpu(1), edge + 1'000, Cpu(1));
    EXPECT_EQ(machine_->now(), edge - 1'000);
    machine_->on_migrate(TaskId(7), Cpu(0), Cpu(1), edge + 100'000, Cpu(1));
    EXPECT_EQ(machine_->now(), edge + 100'000);
}

TEST_F(Loads, APlacedTaskIsCountedOnItsOldCpuUntilThatIsUpdated) {
    runs(kMs, 0, 0, 4);
    runs(501 * kMs, 0, 4, 0);
    machine_->on_wakeup(TaskId(4), 120, Cpu(1), 502 * kMs);
    EXPECT_GT(load(0, LoadKind::average), 1000);
    EXPECT_GT(load(1, LoadKind::average), 950);
    machine_->on_fork(TaskId(5));
    machine_->on_wakeup(TaskId(5), 120, Cpu(0), 503 * kMs);  // a new task attaches its weight
    EXPECT_NEAR(static_cast<double>(load(0, LoadKind::average)), 1024, 60);
}

TEST_F(Loads, ATaskThatDiesLeavesNothing) {
    runs(kMs, 0, 0, 4);
    runs(501 * kMs, 0, 4, 0, PrevState::X);
    machine_->on_fork(TaskId(5));
    machine_->on_wakeup(TaskId(5), 120, Cpu(0), 1500 * kMs);
    EXPECT_NEAR(static_cast<double>(load(0, LoadKind::average)), 1024, 2);
}

TEST_F(Loads, WhatASlowCpusClockIsBehindComesUpInIdleButNotAfterFullLoad) {
    const Ns half = 32 * kPeltPeriod;
    for (const Ns busy : {100 * kMs, 2000 * kMs}) {
        build({512, 1024});
        runs(kMs, 0, 0, 4);
        runs(kMs + busy, 0, 4, 0);
        machine_->on_fork(TaskId(5));
        machine_->on_wakeup(TaskId(5), 120, Cpu(0), kMs + busy + half);
        const auto left = static_cast<double>(load(0, LoadKind::average) - 1024);
        EXPECT_NEAR(left, busy == 100 * kMs ? 1024 * std::exp2(-1 - 50 * kMs / kHalf) : 512, 30);
    }
}

TEST_F(Loads, ALoadFollowsTheNiceValue) {
    machine_->on_fork(TaskId(4));
    machine_->on_wakeup(TaskId(4), 120, Cpu(0), kMs);
    runs(kMs, 0, 0, 4);
    runs(2 * kMs, 0, 4, 0);
    EXPECT_EQ(load(0, LoadKind::average), 1024);
    machine_->on_wakeup(TaskId(4), 100, Cpu(0), 2 * kMs);  // nice -20 weighs 88761
    EXPECT_EQ(load(0, LoadKind::average), 88761);
    EXPECT_EQ(machine_->task(TaskId(4)).pelt.load_avg, 88761);
}

TEST_F(Loads, ANiceValueThatChangesWhileTheTaskRunsCountsFromItsNextEvent) {
    for (const bool stays : {false, true}) {
        build({1024, 1024});
        machine_->on_fork(TaskId(4)), machine_->on_fork(TaskId(5));
        machine_->on_wakeup(TaskId(4), 120, Cpu(0), kMs);
        runs(kMs, 0, 0, 4);
        if (stays) machine_->on_wakeup(TaskId(5), 120, Cpu(0), kMs);
        runs(kMs, 0, 4, stays ? 5 : 0, stays ? PrevState::R : PrevState::S, 100);
        EXPECT_EQ(load(0, LoadKind::average), 88761 + (stays ? 1024 : 0));
        EXPECT_EQ(load(0, LoadKind::runnable), stays ? 88761 + 1024 : 0);
        EXPECT_EQ(load(0, LoadKind::weight), stays ? 88761 + 1024 : 0);
    }
}

TEST_F(Loads, NothingRemainsOfATaskThatExitsButWhatItRunsAfterItWokeItsParent) {
    constexpr TaskId parent(3), child(4), stranger(5);
    const Ns begin = 100 * kPeltPeriod + 10'000, us = 1'000, end = begin + 1'000 * us;  // within one period
    const auto starts = [&](uint32_t task, Ns ts) {
        machine_->on_fork(TaskId(task), parent);
        machine_->on_wakeup(TaskId(task), 120, Cpu(0), ts);
        runs(ts, 0, 0, task);
        return util(task, 0).util;
    };
    const auto left_by = [&](std::optional<TaskId> woken) {
        build({1024, 1024});
        EXPECT_EQ(starts(child.v, begin), 512);
        machine_->on_exit(child, begin + 300 * us);
        if (woken) machine_->advance(begin + 500 * us, Cpu(0), Cpu(0), woken);
        runs(end, 0, child.v, 0, PrevState::X);
        machine_->on_balance(Cpu(0), end + 4 * kMs);
        return 512 - starts(6, end + 5 * kMs);
    };
    EXPECT_EQ(left_by({}), 0) << "as on a CPU that has done nothing";
    EXPECT_EQ(left_by(stranger), 0) << "a reader of what it closed";
    EXPECT_GT(left_by(parent), 0);
}

TEST_F(Loads, AnIdleCpuWhoseTickGoesOnBalancesForItself) {
    for (const bool goes_on : {false, true})
        for (const uint16_t by : {uint16_t{0}, uint16_t{1}}) {
            build({1024, 1024});
            machine_->set_tick(4 * kMs, 0);
            runs(kMs, 0, 0, 4);
            runs(kMs, 1, 1, 5);
            runs(31 * kMs, 0, 4, 0);
            runs(31 * kMs, 1, 5, 1);
            const int32_t before = all(31 * kMs).util[0];
            if (goes_on) machine_->on_idle_tick(Cpu(0), 40 * kMs);
            machine_->on_balance(Cpu(by), 40 * kMs + 3'000);
            EXPECT_EQ(all(41 * kMs).util[0] < before, !goes_on || by == 0);
            EXPECT_EQ(all(41 * kMs).util[1] < before, !goes_on || by == 1);
        }
}

TEST_F(Loads, ANewTaskStartsFromItsCpu) {
    machine_->on_fork(TaskId(4));
    machine_->on_wakeup(TaskId(4), 120, Cpu(0), kMs);
    EXPECT_EQ(util(4, 0).util, 512);  // half of what an idle CPU has left
    machine_->on_fork(TaskId(5));
    machine_->on_wakeup(TaskId(5), 120, Cpu(0), kMs);
    EXPECT_EQ(util(5, 0).util, 256);  // as its CPU, but half of the rest at most
    EXPECT_EQ(util(5, 0).runnable, 256);
}

TEST_F(Loads, ANewTaskTakesAsMuchAsItMayUntil69) {
    for (const bool full : {false, true}) {
        build({1024, 1024});
        table_.forks_weigh_full = full;
        machine_->on_fork(TaskId(4)), machine_->on_fork(TaskId(5));
        machine_->on_wakeup(TaskId(4), 100, Cpu(0), kMs);  // nice -20: 512 of 88761
        machine_->on_wakeup(TaskId(5), 120, Cpu(0), kMs);
        EXPECT_EQ(util(5, 0).util, full ? 256 : 512 * 1024 / 88762);
    }
}

TEST_F(Loads, UntilFiveNineteenWhoLeavesAnIdleCpuHasNotDecayedSince) {
    for (const bool decay : {false, true}) {
        build({1024, 1024});
        table_.leavers_decay = decay;
        runs(kMs, 0, 0, 4);
        runs(501 * kMs, 0, 4, 0);
        const int32_t slept_with = machine_->task(TaskId(4)).pelt.load_avg;
        EXPECT_GT(slept_with, 1000);
        machine_->advance(534 * kMs, Cpu(0), Cpu(1), TaskId(4));
        machine_->on_waking(TaskId(4), 120, true, Cpu(1), Cpu(1));
        machine_->on_migrate(TaskId(4), Cpu(0), Cpu(1), 534 * kMs + 1'000, Cpu(1));
        machine_->on_wakeup(TaskId(4), 120, Cpu(1), 534 * kMs + 2'000);
        EXPECT_NEAR(machine_->task(TaskId(4)).pelt.load_avg, decay ? slept_with / 2 : slept_with, 16);
        EXPECT_NEAR(static_cast<double>(load(1, LoadKind::average)), decay ? slept_with / 2 : slept_with, 16);
    }
}

TEST_F(Loads, TheClockOfASlowCpuIsSlowWhileItIsBusy) {
    build({512, 1024});
    runs(kMs, 0, 0, 4);
    runs(kMs, 1, 1, 5);
    runs(33 * kMs, 0, 4, 0);
    runs(33 * kMs, 1, 5, 1);
    EXPECT_NEAR(util(4, 0).util, 1024 * (1 - std::exp2(-16 * kMs / kHalf)), 2);
    EXPECT_NEAR(util(5, 1).util, 1024 * (1 - std::exp2(-32 * kMs / kHalf)), 2);
}

TEST_F(Loads, IdleStampsAndPendingWakeups) {
    runs(kMs, 0, 0, 4);
    runs(7 * kMs, 0, 4, 0);
    machine_->on_waking(TaskId(4), 120, true, Cpu(1));
    const SlowInputs& in = all(8 * kMs);
    EXPECT_EQ(in.idle_stamp[0], 7 * kMs);
    EXPECT_LT(in.idle_stamp[1], kMs);  // idle since before the recording
    EXPECT_FALSE(in.pending.test(Cpu(0)));
    EXPECT_TRUE(in.pending.test(Cpu(1)));
    EXPECT_LT(in.exit_latency[0], 0);
    machine_->on_idle_state(Cpu(0), 1);
    EXPECT_EQ(all(8 * kMs).exit_latency[0], 1);  // no table: the state's number
    machine_->set_exit_latency({{2, 133}, {}});
    EXPECT_EQ(all(8 * kMs).exit_latency[0], 133);
    machine_->on_idle_state(Cpu(0), 5);
    EXPECT_EQ(all(8 * kMs).exit_latency[0], 5);  // a state that the table does not have
}

TEST_F(Loads, AnIdleCpuIsBusyWithAWakeListButNotWhileTheWakerQueues) {
    for (const WakeLists lists : {WakeLists::none, WakeLists::other_llc, WakeLists::idle_too}) {
        build({1024, 1024});
        table_.wake_lists = lists;
        runs(kMs, 0, 0, 4);
        runs(kMs, 1, 1, 5);
        runs(2 * kMs, 1, 5, 1);
        machine_->on_waking(TaskId(6), 120, true, Cpu(1), Cpu(0));
        EXPECT_EQ(machine_->view().idle.test(Cpu(1)), lists != WakeLists::idle_too);
        machine_->on_wakeup(TaskId(6), 120, Cpu(1), 2 * kMs + 1000);
        EXPECT_FALSE(machine_->view().idle.test(Cpu(1)));
        runs(2 * kMs + 2000, 1, 1, 6);
        runs(3 * kMs, 1, 6, 1);
        EXPECT_TRUE(machine_->view().idle.test(Cpu(1)));
        machine_->on_waking(TaskId(6), 120, true, Cpu(1), Cpu(1));  // from an interrupt there
        EXPECT_TRUE(machine_->view().idle.test(Cpu(1)));
    }
}

TEST_F(Loads, AnIdleCpuStaysIdleUntilItsWakeListHasTheTask) {
    build({1024, 1024});
    machine_->set_listing({{2'000, 500}, {}});
    one_goes_idle();
    EXPECT_TRUE(idle_after(1'000));
    machine_->on_waking(TaskId(6), 120, true, Cpu(1), Cpu(0));
    EXPECT_TRUE(idle_after(2'999));
    EXPECT_FALSE(idle_after(3'000));
    machine_->on_migrate(TaskId(6), Cpu(0), Cpu(1), 2 * kMs + 3'500, Cpu(0));  // its search took longer than as a rule
    EXPECT_TRUE(idle_after(5'499));
    EXPECT_FALSE(idle_after(5'500));
    machine_->on_wakeup(TaskId(6), 120, Cpu(1), 2 * kMs + 6'000);
    EXPECT_FALSE(idle_after(7'000));
    runs(2 * kMs + 8'000, 1, 1, 6);
    runs(2 * kMs + 9'000, 1, 6, 1);
    EXPECT_TRUE(idle_after(10'000));
    machine_->on_waking(TaskId(6), 120, true, Cpu(1), Cpu(0));  // stays
    EXPECT_TRUE(idle_after(10'499));
    EXPECT_FALSE(idle_after(10'500));
}

TEST_F(Loads, AWakeeThatMovesIsOnNoListBeforeItsMigrationIsRecorded) {
    for (const bool recorded : {false, true}) {
        build({1024, 1024});
        machine_->set_listing({{2'000, 500}, {}});
        one_goes_idle();
        if (recorded) machine_->on_migrate(TaskId(7), Cpu(1), Cpu(0), 2 * kMs + 500, Cpu(0));
        machine_->on_waking(TaskId(6), 120, true, Cpu(1), Cpu(0));  // as answered, which is not as recorded
        EXPECT_EQ(idle_after(5'000), recorded);
        machine_->on_migrate(TaskId(6), Cpu(0), Cpu(1), 2 * kMs + 6'000, Cpu(0));
        EXPECT_TRUE(idle_after(7'999));
        EXPECT_FALSE(idle_after(8'000));
    }
}

TEST_F(Loads, AnIdleCpuIsIdleAgainWhileItEmptiesItsWakeList) {
    build({1024, 1024});
    machine_->set_clearing({0, 1'000});
    one_goes_idle();
    EXPECT_TRUE(idle_after(1'000));
    machine_->on_wake_list(Cpu(1), 2 * kMs + 1'500);  // sent for something else
    EXPECT_TRUE(idle_after(3'000));
    machine_->on_waking(TaskId(6), 120, true, Cpu(1), Cpu(0));
    EXPECT_FALSE(idle_after(4'000));
    machine_->on_wake_list(Cpu(1), 2 * kMs + 5'000);
    EXPECT_FALSE(idle_after(5'999));
    EXPECT_TRUE(idle_after(6'000));
    machine_->on_waking(TaskId(7), 120, true, Cpu(1), Cpu(0));  // the list has one again
    EXPECT_FALSE(idle_after(7'000));
    machine_->on_wakeup(TaskId(6), 120, Cpu(1), 2 * kMs + 8'000);
    EXPECT_FALSE(idle_after(9'000));
}

TEST_F(Loads, AnEstimateWaitsForTheEndOfAPeriod) {
    runs(kMs, 0, 0, 4);
    runs(101 * kMs, 0, 4, 0);
    const int32_t first = util(4, 0).util_est;
    const auto hop = [&](Ns at, Ns ran, uint16_t cpu) {
        machine_->on_wakeup(TaskId(4), 120, Cpu(cpu), at);
        runs(at, cpu, cpu, 4);
        runs(at + ran, cpu, 4, cpu);
    };
    const Ns edge = 140 * kPeltPeriod;
    hop(edge + 100'000, 100'000, 1);
    EXPECT_EQ(util(4, 1).util_est, first) << "it moved, and ran within one period";
    hop(edge + 300'000, 100'000, 1);
    EXPECT_EQ(util(4, 1).util_est, first) << "nor did one end while it slept";
    hop(edge + kPeltPeriod + 100'000, 100'000, 1);
    EXPECT_LT(util(4, 1).util_est, first);
}

TEST_F(Loads, UntilSixSevenAnEstimateFallsAlsoWhereTheTaskWaited) {
    for (const bool ignores : {false, true}) {
        build({1024, 1024});
        table_.estimates_ignore_waits = ignores;
        runs(kMs, 0, 0, 4);
        runs(101 * kMs, 0, 4, 0);
        const int32_t first = util(4, 0).util_est;
        runs(150 * kMs, 0, 0, 5);
        machine_->on_wakeup(TaskId(4), 120, Cpu(0), 151 * kMs);
        runs(180 * kMs, 0, 5, 4, PrevState::R);
        runs(181 * kMs, 0, 4, 5);
        EXPECT_EQ(util(4, 0).util_est < first, ignores);
    }
}

TEST_F(Loads, OverutilisedFromFourFifthsOfACpu) {
    runs(kMs, 0, 0, 4);
    machine_->advance(70 * kMs, Cpu(0), Cpu(0));  // 76 %
    EXPECT_FALSE(machine_->overutilised());
    machine_->advance(90 * kMs, Cpu(0), Cpu(0));  // 85 %
    EXPECT_TRUE(machine_->overutilised());
}

TEST_F(Loads, AnExecIsCountedWhereItWasDecided) {
    runs(kMs, 0, 0, 4);
    runs(2 * kMs, 1, 1, 5);
    runs(40 * kMs, 1, 5, 1);
    machine_->advance(40 * kMs, Cpu(0), Cpu(1));
    const int64_t load_0 = load(0, LoadKind::average), load_1 = load(1, LoadKind::average);
    machine_->move_running(TaskId(4), Cpu(1));
    EXPECT_TRUE(machine_->view().idle.test(Cpu(0)));
    EXPECT_FALSE(machine_->view().idle.test(Cpu(1)));
    EXPECT_EQ(machine_->view().nr, (std::vector<int32_t>{0, 1}));
    EXPECT_LT(load(0, LoadKind::average), load_0);
    machine_->move_running(TaskId(4), Cpu(0));
    EXPECT_FALSE(machine_->view().idle.test(Cpu(0)));
    EXPECT_TRUE(machine_->view().idle.test(Cpu(1)));
    EXPECT_EQ(load(0, LoadKind::average), load_0);
    EXPECT_EQ(load(1, LoadKind::average), load_1);
}

TEST_F(Loads, ATaskCountsByItsQueueAsOfTheFirstQuestionInTheJiffy) {
    machine_->set_tick(4 * kMs, 0);
    runs(kMs, 0, 0, 4);
    runs(501 * kMs, 0, 4, 0);
    machine_->advance(504 * kMs, Cpu(0), Cpu(0));
    const auto counts = [&] { return machine_->task_load(TaskId(4), Cpu(0), LoadKind::average); };
    const int64_t alone = counts();
    machine_->asked_load(machine_->task(TaskId(4)), Cpu(0));
    machine_->on_fork(TaskId(5));
    machine_->on_wakeup(TaskId(5), 120, Cpu(0), 505 * kMs);  // the queue is twice as heavy, the task as before
    machine_->advance(506 * kMs, Cpu(0), Cpu(0));
    EXPECT_NEAR(static_cast<double>(counts()), static_cast<double>(alone) / 2, 30);
    machine_->advance(509 * kMs, Cpu(0), Cpu(0));
    EXPECT_NEAR(static_cast<double>(counts()), static_cast<double>(alone), 30);
}

}  // namespace
}  // namespace rewake
