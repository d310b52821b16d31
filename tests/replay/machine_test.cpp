// SPDX-License-Identifier: GPL-2.0-or-later
// Load tracking of the Machine: averages follow the closed form, move with their task and stay in proportion.
#include "replay/model/machine.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "replay/model/pelt.hpp"

namespace rewake {
namespace {

constexpr Ns kMs = 1'000'000;
constexpr double kHalf = 32.768 * kMs;

TEST(Pelt, DecayIsTheClosedForm) {
    for (Ns dt : {Ns{0}, Ns{1}, Ns{1000}, 1024 * Ns{1000}, 5 * kMs, Ns{32'768'000}, 100 * kMs, 1000 * kMs})
        EXPECT_NEAR(pelt_decay(dt), std::exp2(-static_cast<double>(dt) / kHalf), 2e-7) << dt;
    EXPECT_EQ(pelt_decay(3'600'000 * kMs), 0.0);
    EXPECT_EQ(pelt_decay(-5), 1.0);
}

TEST(Pelt, HalfOfTheTimeIsHalfOfTheWeight) {
    Pelt p;
    for (int i = 0; i < 2000; ++i) p.accrue(i * kMs, i % 2 ? 1024 : 0);
    EXPECT_NEAR(p.load, 512, 12);
}

class Loads : public testing::Test {
  protected:
    Loads() {
        topo_.n_cpus = 2;
        topo_.online.set(Cpu(0));
        topo_.online.set(Cpu(1));
        topo_.finish();
        table_.masks.push_back({topo_.online, 2});
        table_.tasks.resize(8);
        machine_.emplace(topo_, table_);
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

TEST_F(Loads, AWokenTaskTakesItsLoadAlong) {
    runs(kMs, 0, 0, 4);
    runs(500 * kMs, 0, 4, 0);
    machine_->on_wakeup(TaskId(4), 120, Cpu(1), 500 * kMs + static_cast<Ns>(kHalf));
    EXPECT_NEAR(static_cast<double>(load(0, LoadKind::average)), 0, 2);
    EXPECT_NEAR(static_cast<double>(load(1, LoadKind::average)), 512, 2);
    EXPECT_NEAR(static_cast<double>(load(1, LoadKind::runnable)), 512, 2);
    EXPECT_EQ(load(1, LoadKind::weight), 1024);
}

TEST_F(Loads, TwoTasksAddUp) {
    runs(kMs, 0, 0, 4);
    machine_->on_wakeup(TaskId(5), 120, Cpu(0), 2 * kMs);
    machine_->advance(900 * kMs, Cpu(0), Cpu(0));
    EXPECT_NEAR(static_cast<double>(load(0, LoadKind::average)), 2048, 4);
    EXPECT_NEAR(static_cast<double>(machine_->task_load(machine_->task(TaskId(4)), Cpu(0), LoadKind::average)), 1023,
                2);
    EXPECT_EQ(machine_->task_load(machine_->task(TaskId(4)), Cpu(0), LoadKind::weight), 1024);
}

}  // namespace
}  // namespace rewake
