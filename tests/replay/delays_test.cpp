// SPDX-License-Identifier: GPL-2.0-or-later
// Delayed dequeues: who sleeps ahead of the others counts on its run queue until it is picked, woken or moved.
#include "replay/model/fair/delays.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "tests/replay/policies_machine.hpp"

namespace rewake {
namespace {

constexpr Ns kMs = 1'000'000;

/// Two CPUs; tasks 4 to 7, of which 4 runs on CPU 0 from 1 ms on and 5 waits there from 2 ms on.
class DelayedDequeue : public testing::Test {
  protected:
    DelayedDequeue() { build(12); }
    void build(int minor) {
        topo_ = test::machine(2);
        topo_.cap_orig = {1024, 1024};
        topo_.finish();
        table_ = {};
        table_.masks.push_back({topo_.online, 2});
        table_.tasks.resize(8);
        delays_.reset();
        machine_.emplace(topo_, table_);
        delays_.emplace(table_, FairSettings::of(6, minor, 2, 4 * kMs), *machine_);
        runs(kMs, 0, 0, 4);
        wakes(2 * kMs, 0, 5);
    }
    void runs(Ns ts, uint16_t cpu, uint32_t prev, uint32_t next, PrevState state = PrevState::S) {
        const auto code = static_cast<uint8_t>(state);
        Batch b;
        SwitchColumns& s = b.sw;
        s.n = 1, s.id = &id_, s.ts = &ts, s.cpu = &cpu, s.prev_task = &prev, s.prev_prio = &prio_;
        s.prev_state = &code, s.next_task = &next, s.next_prio = &prio_;
        delays_->apply(b, Event::sw, 0);
    }
    void wakes(Ns ts, uint16_t cpu, uint32_t task) {
        const bool is_new = false;
        Batch b;
        WakeupColumns& w = b.wakeup;
        w.n = 1, w.id = &id_, w.ts = &ts, w.cpu = &cpu, w.task = &task, w.prio = &prio_, w.target_cpu = &cpu;
        w.is_new = &is_new;
        delays_->apply(b, Event::wakeup, 0);
    }
    void moves(Ns ts, uint16_t from, uint16_t to, uint32_t task) {
        const auto cause = static_cast<uint8_t>(Cause::periodic);
        Batch b;
        MigrateColumns& m = b.migrate;
        m.n = 1, m.id = &id_, m.ts = &ts, m.cpu = &to, m.task = &task, m.prio = &prio_, m.orig_cpu = &from;
        m.dest_cpu = &to, m.cause = &cause;
        delays_->apply(b, Event::migrate, 0);
    }
    /// nr_running of a CPU, and how many of these are delayed.
    std::pair<int, int> counts(int cpu) const {
        const View& v = machine_->view();
        return {v.nr[static_cast<size_t>(cpu)], v.delayed[static_cast<size_t>(cpu)]};
    }
    int64_t load(LoadKind kind, int cpu = 0) {
        machine_->select_load(kind);
        return machine_->view().load[static_cast<size_t>(cpu)];
    }
    int64_t id_ = 0;
    int16_t prio_ = 120;
    Topology topo_;
    TaskTable table_;
    std::optional<Machine> machine_;
    std::optional<Delays> delays_;
};

using Counts = std::pair<int, int>;

TEST_F(DelayedDequeue, WhoHasRunMoreThanItsShareCountsWhileItSleeps) {
    runs(3 * kMs, 0, 4, 5);  // 4 ran 1 ms since 5 is there: half a millisecond ahead of the average
    EXPECT_TRUE(delays_->delayed(TaskId(4)));
    EXPECT_EQ(counts(0), Counts(2, 1));
    EXPECT_EQ(load(LoadKind::weight), 2048);
    EXPECT_EQ(machine_->task(TaskId(4)).state, Machine::State::sleeping);
    machine_->advance(900 * kMs, Cpu(0), Cpu(1));
    EXPECT_NEAR(static_cast<double>(load(LoadKind::average)), 2048, 4);
    machine_->look_at_all();
    EXPECT_NEAR(machine_->view().slow->runnable[0], 1024, 2);  // it counts as queued there, and does not want to run
}

TEST_F(DelayedDequeue, WhoHasRunLessLeavesAtOnce) {
    runs(3 * kMs, 0, 4, 5, PrevState::R);
    runs(3 * kMs + 200'000, 0, 5, 4);
    EXPECT_FALSE(delays_->delayed(TaskId(5)));
    EXPECT_EQ(counts(0), Counts(1, 0));
    EXPECT_EQ(load(LoadKind::weight), 1024);
}

TEST_F(DelayedDequeue, KernelsBefore612DoNot) {
    build(11);
    runs(3 * kMs, 0, 4, 5);
    EXPECT_EQ(counts(0), Counts(1, 0));
}

TEST_F(DelayedDequeue, NobodyIsWhoBlocksForGood) {
    runs(3 * kMs, 0, 4, 5, PrevState::X);
    EXPECT_EQ(counts(0), Counts(1, 0));
}

TEST_F(DelayedDequeue, EndsWhereTheCpuGoesIdle) {
    runs(3 * kMs, 0, 4, 5);
    runs(4 * kMs, 0, 5, 0);
    EXPECT_EQ(counts(0), Counts(0, 0));
    EXPECT_EQ(load(LoadKind::weight), 0);
    EXPECT_TRUE(machine_->view().avail.test(Cpu(0)));
}

TEST_F(DelayedDequeue, EndsWhenItIsItsTurn) {
    wakes(2 * kMs + 1, 0, 6);
    runs(3 * kMs, 0, 4, 5);
    ASSERT_EQ(counts(0), Counts(3, 1));
    runs(6 * kMs, 0, 5, 6, PrevState::R);  // 5 is ahead of 4 by now, and so is 6, whose turn it is first
    EXPECT_EQ(counts(0), Counts(3, 1));
    runs(12 * kMs, 0, 6, 5, PrevState::R);
    EXPECT_EQ(counts(0), Counts(2, 0));
}

TEST_F(DelayedDequeue, EndsWithItsWakeup) {
    runs(3 * kMs, 0, 4, 5);
    wakes(3 * kMs + 100'000, 0, 4);
    EXPECT_EQ(counts(0), Counts(2, 0));
    EXPECT_EQ(machine_->task(TaskId(4)).state, Machine::State::queued);
    EXPECT_EQ(load(LoadKind::weight), 2048);
}

/// A reader that runs for longer than its writer waits each time: delayed if it began even, not if it was owed enough.
TEST_F(DelayedDequeue, WhoIsPlacedSoonAndAgainWasOwedSomething) {
    const Ns us = 1'000;
    const auto delayed_at_last = [&](Ns asleep) {
        build(12);
        Ns ts = 3 * kMs;
        int n = 0;
        for (int i = 0; i < 40; ++i) {
            runs(ts, 0, 4, 5);
            if (i >= 20) n += delays_->delayed(TaskId(4));
            ts += asleep;
            EXPECT_TRUE(delays_->places(TaskId(4), true, ts));
            wakes(ts, 0, 4);
            runs(ts, 0, 5, 4, PrevState::R);
            ts += 40 * us;
        }
        return n;
    };
    EXPECT_EQ(delayed_at_last(150 * us), 20) << "it may have been picked meanwhile";
    EXPECT_LE(delayed_at_last(50 * us), 5);
}

TEST_F(DelayedDequeue, EndsWherePlacementWasAskedForIt) {
    for (const bool certain : {false, true}) {
        build(12);
        runs(3 * kMs, 0, 4, 5);
        EXPECT_EQ(delays_->places(TaskId(4), certain, 3 * kMs + 100'000), certain);
        EXPECT_EQ(counts(0), certain ? Counts(1, 0) : Counts(2, 1)) << "as placement finds it";
    }
}

TEST_F(DelayedDequeue, EndsWithWhoIsWokenElsewhere) {
    for (const uint16_t chosen : {uint16_t{0}, uint16_t{1}}) {
        build(12);
        runs(3 * kMs, 0, 4, 5);
        delays_->placed(TaskId(4), Cpu(chosen), 3 * kMs + 100'000);
        EXPECT_EQ(counts(0), chosen == 0 ? Counts(2, 1) : Counts(1, 0)) << chosen;
    }
}

TEST_F(DelayedDequeue, GoesWithWhoIsMovedByABalance) {
    runs(kMs, 1, 1, 6);
    runs(3 * kMs, 0, 4, 5);
    moves(3 * kMs + 100'000, 0, 1, 4);
    EXPECT_EQ(counts(0), Counts(1, 0));
    EXPECT_EQ(counts(1), Counts(2, 1));
    EXPECT_EQ(load(LoadKind::weight, 1), 2048);
}

TEST_F(DelayedDequeue, EndsWhereEventsWereLost) {
    runs(3 * kMs, 0, 4, 5);
    machine_->on_loss(Cpu(0), 4 * kMs);
    EXPECT_EQ(counts(0), Counts(0, 0));
    EXPECT_EQ(load(LoadKind::weight), 0);
}

}  // namespace
}  // namespace rewake
