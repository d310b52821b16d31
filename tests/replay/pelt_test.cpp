// SPDX-License-Identifier: GPL-2.0-or-later
// Averages follow the closed form.
#include "replay/model/pelt.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace rewake {
namespace {

constexpr Ns kMs = 1'000'000;
constexpr double kHalf = 33.554432 * kMs;  // 32 periods of 1024 times 1024 ns

TEST(Pelt, DecayIsTheClosedForm) {
    for (Ns dt : {Ns{0}, Ns{1}, Ns{1000}, 1024 * Ns{1000}, 5 * kMs, Ns{33'554'432}, 100 * kMs, 1000 * kMs})
        EXPECT_NEAR(pelt_decay(dt), std::exp2(-static_cast<double>(dt) / kHalf), 2e-9) << dt;
    EXPECT_EQ(pelt_decay(3'600'000 * kMs), 0.0);
    EXPECT_EQ(pelt_decay(-5), 1.0);
}

TEST(Pelt, RunningForNMillisecondsIsTheClosedForm) {
    for (int n : {2, 5, 10, 33, 100, 1000}) {
        Pelt p;
        p.accrue(n * kMs, 1024, true);
        const double expected = 1024 * (1 - std::exp2(-n * kMs / kHalf));  // 1024 (1 - y^n)
        EXPECT_NEAR(p.util_avg, expected, 1) << n;
        EXPECT_NEAR(p.load_avg, expected, 1) << n;
        EXPECT_NEAR(p.runnable_avg, expected, 1) << n;
        p.accrue(n * kMs + static_cast<Ns>(kHalf), 0, false);
        EXPECT_NEAR(p.util_avg, expected / 2, 1) << n;
    }
}

TEST(Pelt, WholeNumbersGainAsMuchInEveryPeriodThatIsUpdatedByItself) {
    const auto settled = [](Ns every) {
        Pelt p;
        QueuePelt q;
        for (Ns at = kPeltPeriod; at < 2000 * kPeltPeriod; at += every)
            p.accrue(at, 1024, true), q.accrue(at, 1024, 1, true);
        EXPECT_NEAR(q.util, p.util, 1e-6);
        EXPECT_NEAR(q.runnable, p.runnable, 1e-6);
        return p.util;
    };
    EXPECT_NEAR(settled(kPeltPeriod), 1024 + 0.5, 0.01);  // 0.5 / 47742 a period, of which 1 / (1 - 2^(-1/32)) add up
    EXPECT_NEAR(settled(4 * kPeltPeriod), 1024, 0.01);
}

TEST(Pelt, WaitingIsLoadButNotUtilisation) {
    Pelt p;
    for (int i = 1; i <= 3000; ++i) p.accrue(i * kMs, i % 3 ? 88761 : 0, i % 3 == 1);
    EXPECT_NEAR(p.util, 1024 / 3.0, 10);
    EXPECT_NEAR(p.runnable, 1024 * 2 / 3.0, 12);
    EXPECT_NEAR(p.load, 88761 * 2 / 3.0, 1000);
}

TEST(Pelt, ALargeLoadIsCutTo32BitsWhenATaskLeaves) {
    constexpr auto load_of_the_rest = [](int tasks) {
        QueuePelt q;
        q.edge = kPeltPeriod;
        Pelt one;
        one.load_avg = 1024;
        for (int i = 0; i < tasks; ++i) q.attach(one);
        q.detach_later(one);
        q.accrue(kPeltPeriod, 1024.0 * (tasks - 1), tasks - 1, true);
        return q.load_avg;
    };
    EXPECT_NEAR(static_cast<double>(load_of_the_rest(85)), 84 * 1024, 10);
    EXPECT_LT(load_of_the_rest(100), 50 * 1024);  // 99 * 1024 * 46718 is more than 2^32
}

TEST(Pelt, Until516WhoLeavesUndoesWhatDecayedSinceTheLastPeriod) {
    constexpr auto left_after = [](bool follows) {
        QueuePelt q;
        q.edge = kPeltPeriod, q.follows = follows;
        Pelt one;
        one.load_avg = 1000;
        for (int i = 0; i < 10; ++i) q.attach(one);
        one.load_avg = 1;
        for (Ns at = 0; at < 32 * kPeltPeriod; at += kPeltPeriod / 16)
            q.accrue(at, 0, 0, false), q.attach(one), q.detach(one);
        return static_cast<double>(q.load_avg);
    };
    EXPECT_NEAR(left_after(false), 5'000, 120);  // half after 32 periods
    EXPECT_GT(left_after(true), 9'000);
}

TEST(Pelt, WhatIsSeenChangesOnceAPeriodAndIsAllThatMoves) {
    Pelt p;
    p.edge = kPeltPeriod;
    p.accrue(1'000'000, 1024, true);
    EXPECT_EQ(p.util_avg, 0);
    EXPECT_GT(p.util, 20);
    Pelt moved = p;
    moved.move(5 * kMs, 6 * kMs);
    EXPECT_EQ(moved.util, 0);
    p.accrue(1'100'000, 1024, true);
    EXPECT_EQ(p.util_avg, 23);  // 1024 (1 - 2^(-1.1/33.554)) = 23.01
    EXPECT_EQ(p.edge, 2 * kPeltPeriod);
}

TEST(Pelt, EstimateRisesAtOnceAndFallsByAQuarter) {
    EXPECT_EQ(util_est_after_sleep(100, 300, 300, 1024), 300);
    EXPECT_EQ(util_est_after_sleep(300, 100, 100, 1024), 250);
    EXPECT_EQ(util_est_after_sleep(300, 295, 295, 1024), 300);  // within the margin
    EXPECT_EQ(util_est_after_sleep(300, 100, 111, 1024), 300);  // it wanted to run more
    EXPECT_EQ(util_est_after_sleep(600, 500, 500, 462), 600);  // more than its CPU has
}

}  // namespace
}  // namespace rewake
