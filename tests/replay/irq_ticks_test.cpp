// SPDX-License-Identifier: GPL-2.0-or-later
// Ticks of the interrupt estimator over gaps and corrupted times.
#include "replay/engine/irq_ticks.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace rewake {
namespace {

constexpr Ns kTick = 4'000'000;

class Ticks : public testing::Test {
  protected:
    Ticks() {
        topo_.n_cpus = 1;
        topo_.online.set(Cpu(0));
        topo_.finish();
    }
    Topology topo_;
};

TEST_F(Ticks, ALoadDecaysOverAGapAsItWouldTickByTick) {
    for (const IrqSettings& settings : {IrqSettings{}, IrqSettings{.decay = 1000}}) {
        IrqTicks jumping(topo_, 250), stepping(topo_, 250);
        const IrqLoad &jumped = jumping.estimate(settings), &stepped = stepping.estimate(settings);
        for (IrqTicks* t : {&jumping, &stepping}) {
            t->idle(Cpu(0), false, 0);
            t->irq(Cpu(0), true, kTick / 2);
            t->irq(Cpu(0), false, kTick);
        }
        for (Ns ts = kTick; ts <= 5000 * kTick; ts += kTick) stepping.advance(ts);
        jumping.advance(5000 * kTick);
        EXPECT_EQ(jumped.intrload, stepped.intrload);
        EXPECT_EQ(jumped.threshold, stepped.threshold);
    }
}

TEST_F(Ticks, EachSettingHasItsOwnEstimate) {
    IrqTicks t(topo_, 250);
    const IrqLoad& posted = t.estimate({});
    EXPECT_EQ(&t.estimate(IrqSettings{}), &posted);
    const IrqLoad& slow = t.estimate({.decay = 100});
    const IrqLoad& fixed = t.estimate({.fixed = 5});
    const IrqLoad& warm = t.estimate({.warm = true});
    const IrqLoad& early = t.estimate({.initial = 30});
    const IrqLoad& costly = t.estimate({.entry_overhead = 500'000});
    EXPECT_EQ(&t.estimate({}), &posted) << "references stay valid";
    t.idle(Cpu(0), false, 0);
    t.irq(Cpu(0), true, kTick / 2);
    t.irq(Cpu(0), true, kTick / 2 + 1);  // nested
    t.irq(Cpu(0), false, kTick / 2 + 2);
    t.irq(Cpu(0), false, kTick / 2 + 1'000'000);
    t.advance(kTick);
    EXPECT_EQ(posted.intrload[0], 23);
    EXPECT_EQ(costly.intrload[0], 34) << "1.5 ms: one interrupt, its nested one included";
    EXPECT_EQ(posted.threshold, 1000);
    EXPECT_EQ(early.threshold, 30);
    EXPECT_EQ(warm.threshold, 30) << "the only CPU is in bucket 2";
    t.advance(2 * kTick);
    EXPECT_EQ(posted.intrload[0], 17);
    EXPECT_EQ(slow.intrload[0], 22);
    t.advance(30 * kTick);
    EXPECT_EQ(posted.threshold, 10);
    EXPECT_EQ(early.threshold, 10);
    EXPECT_EQ(fixed.threshold, 5);
}

TEST_F(Ticks, TheThresholdIsOfTheCpusThatAreOnline) {
    Topology topo;  // CPUs 4 to 7 do not exist
    topo.n_cpus = 8;
    for (uint16_t c = 0; c < 4; ++c) topo.online.set(Cpu(c));
    topo.finish();
    IrqTicks t(topo, 250);
    const IrqLoad& warm = t.estimate({.warm = true});
    Ns now = 0;
    auto tick = [&](int n, bool interrupts = true) {
        for (; n > 0; --n, now += kTick) {
            for (uint16_t c = 0; c < 4; ++c) t.idle(Cpu(c), false, now + 1);
            if (!interrupts) continue;
            t.irq(Cpu(2), true, now + kTick / 2), t.irq(Cpu(2), false, now + kTick / 2 + 1'000'000);
        }
        t.advance(now + 1);
    };
    tick(3);
    EXPECT_EQ(warm.intrload[2], 23);
    EXPECT_EQ(warm.threshold, 30) << "three clean ones of four are not more than 80 %";
    CpuMask without = topo.online;
    without.clear(Cpu(2));
    t.set_online(without);
    tick(3, false);
    EXPECT_EQ(warm.threshold, 10);
    EXPECT_EQ(warm.intrload[2], 23) << "it has no ticks";
    t.set_online(topo.online);
    EXPECT_EQ(warm.intrload[2], 0);
    tick(3);
    EXPECT_EQ(warm.threshold, 30);
}

TEST_F(Ticks, TheLastPossibleTimeEnds) {
    IrqTicks t(topo_, 1000);
    t.irq(Cpu(0), true, 1);
    t.advance(std::numeric_limits<Ns>::max() - 1);
    t.irq(Cpu(0), false, std::numeric_limits<Ns>::max() - 1);
    t.advance(5);
}

}  // namespace
}  // namespace rewake
