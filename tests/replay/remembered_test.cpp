// SPDX-License-Identifier: GPL-2.0-or-later
// What a window of the closed loop begins with: the recorded kernel's flips and recent CPUs, whatever a policy made of the window
// before.
#include "replay/engine/closed/remembered.hpp"

#include <gtest/gtest.h>

namespace rewake::closed {
namespace {

constexpr uint32_t kHz = 250;
constexpr Ns kSecond = 1'000'000'000;

Opening wakeup(uint32_t curr, uint32_t p, uint16_t prev, uint16_t chosen, DecisionClass cls = DecisionClass::stayed) {
    Opening o;
    o.cls = cls;
    o.curr = TaskId(curr), o.p = TaskId(p);
    o.waker = Cpu(0), o.prev = Cpu(prev), o.chosen = Cpu(chosen);
    o.waker_known = o.prev_known = o.chosen_known = true;
    return o;
}

TEST(Remembered, FlipsGoOnFromWhatTasksBeganWith) {
    Remembered r(8, {.all = {.flips = 10, .grown_s = 0.5, .halved_s = 0.25}}, kHz, true);
    r.begin(5 * kSecond, {0, 0, 0, 0, 20});
    EXPECT_EQ(r.tasks()[3].flips, 10u) << "inherited";
    EXPECT_EQ(r.tasks()[4].flips, 20u) << "and half a second at 20 a second";
    for (uint32_t wakee : {5u, 6u, 6u, 5u}) r.decided(wakeup(4, wakee, 1, 1), 5 * kSecond + 100, false);
    EXPECT_EQ(r.tasks()[4].flips, 23u) << "three switches";
    r.decided(wakeup(4, 7, 1, 1, DecisionClass::bypass_on_rq), 5 * kSecond + 200, false);
    EXPECT_EQ(r.tasks()[4].flips, 23u) << "placement was not asked";
    r.decided(wakeup(4, 5, 1, 1), 5 * kSecond + kSecond / 2, false);
    EXPECT_EQ(r.tasks()[4].flips, 11u) << "halved a quarter of a second after the beginning";
    r.fork(TaskId(4), TaskId(2));
    EXPECT_EQ(r.tasks()[2].flips, 11u);
    EXPECT_EQ(r.tasks()[2].last_wakee, TaskId(5));
}

TEST(Remembered, ForgetsTasksThatNobodyTouched) {
    Remembered r(200, {.all = {.flips = 10}}, kHz, true);
    r.begin(0, {});
    r.forget(6);
    const Paged<PolicyState::Task> tasks = r.tasks();
    EXPECT_EQ(tasks[199].flips, 10u);
}

TEST(Remembered, RecentIsWhereTheSearchMovedATaskFrom) {
    for (const bool recent : {true, false}) {
        Remembered r(8, {}, kHz, recent);
        r.begin(0, {});
        r.decided(wakeup(4, 5, 1, 1), 0, false);
        r.decided(wakeup(4, 6, 1, 0, DecisionClass::moved), 0, false);
        EXPECT_FALSE(r.tasks()[5].has_recent) << "prev was idle";
        EXPECT_FALSE(r.tasks()[6].has_recent) << "the waker's CPU was";
        r.decided(wakeup(4, 5, 1, 2, DecisionClass::moved), 0, false);
        r.decided(wakeup(4, 6, 3, 3), 0, true);
        EXPECT_EQ(r.tasks()[5].has_recent, recent);
        EXPECT_EQ(r.tasks()[6].has_recent, recent) << "nothing was found";
        if (recent) {
            EXPECT_EQ(r.tasks()[5].recent, Cpu(1));
            EXPECT_EQ(r.tasks()[6].recent, Cpu(3));
        }
    }
}

TEST(Remembered, AWindowBeginsWithItAndKeepsWhatItDoesNotSay) {
    Remembered r(4, {.all = {.flips = 3}}, kHz, true);
    r.begin(0, {});
    r.decided(wakeup(0, 2, 1, 2, DecisionClass::moved), 0, false);
    PolicyState own;
    for (uint32_t t : {2u, 3u}) own.task(TaskId(t)) = {.flips = 99, .has_recent = true, .recent = Cpu(7)};
    remember(own, r.tasks());
    EXPECT_EQ(own.task(TaskId(2)).flips, 3u);
    EXPECT_EQ(own.task(TaskId(2)).recent, Cpu(1));
    EXPECT_EQ(own.task(TaskId(3)).flips, 3u);
    EXPECT_EQ(own.task(TaskId(3)).recent, Cpu(7)) << "its own";
}

}  // namespace
}  // namespace rewake::closed
