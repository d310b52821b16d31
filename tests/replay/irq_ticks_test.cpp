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
    IrqTicks jumping(topo_, 250), stepping(topo_, 250);
    for (IrqTicks* t : {&jumping, &stepping}) {
        t->idle(Cpu(0), false, 0);
        t->irq(Cpu(0), true, kTick / 2);
        t->irq(Cpu(0), false, kTick);
    }
    for (Ns ts = kTick; ts <= 5000 * kTick; ts += kTick) stepping.advance(ts);
    jumping.advance(5000 * kTick);
    EXPECT_EQ(jumping.load().intrload, stepping.load().intrload);
    EXPECT_EQ(jumping.load().threshold, stepping.load().threshold);
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
