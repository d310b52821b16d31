// SPDX-License-Identifier: GPL-2.0-or-later
// Hypotheses of wakee_flips, and what the record tells of has_idle_cores.
#include "replay/engine/flips.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "replay/policies/steps/wakee.hpp"
#include "tests/replay/policies_machine.hpp"

namespace rewake::test {
namespace {

constexpr uint32_t kHz = 250;
constexpr uint64_t kStart = 100'000;
constexpr TaskId kWaker{50};

/// `kWaker` wakes `p`, as a policy sees it and as hypotheses follow it.
void wake(FlipHypotheses& all, PolicyState& s, TaskId p, uint64_t jiffies) {
    Wakeup w;
    w.curr = kWaker, w.p = p, w.jiffies = jiffies;
    const PolicyState::Task before = s.task(kWaker);
    record_wakee(s, kWaker, p, jiffies, kHz);
    all.follow(w, before, s.task(kWaker));
}

/// And as what is certain follows it; `edge`: or a jiffy earlier.
void wake(KnownFlips& certain, PolicyState& s, TaskId p, uint64_t jiffies, bool edge = false) {
    Wakeup w;
    w.curr = kWaker, w.p = p;
    const PolicyState::Task before = s.task(kWaker);
    record_wakee(s, kWaker, p, jiffies, kHz);
    certain.follow(w, before, s.task(kWaker), jiffies - edge, jiffies);
}

TEST(Flips, EveryHypothesisIsHalvedInItsTurn) {
    FlipHypotheses all({{{64, 0, 0}}, {{64, 0, 0.5}}, {{64, 0, 1}}}, kHz);
    all.begin(kStart, {});
    PolicyState s;
    auto flips = [&](size_t which) {
        PolicyState::Task t;
        all.give(t, kWaker, which);
        return t.flips;
    };
    wake(all, s, TaskId{1}, kStart);
    EXPECT_EQ(flips(0), 33u);
    EXPECT_EQ(flips(1), 65u);
    wake(all, s, TaskId{1}, kStart + kHz / 2);  // the same again: no flip
    EXPECT_EQ(flips(1), 32u);
    wake(all, s, TaskId{2}, kStart + kHz);  // a second after the first was halved: not yet again
    EXPECT_EQ(flips(0), 34u);
    EXPECT_EQ(flips(1), 33u);
    EXPECT_EQ(flips(2), 33u);
    wake(all, s, TaskId{2}, kStart + kHz + 1);
    EXPECT_EQ(flips(0), 17u);
}

TEST(Flips, TheirCourseAnswersForHypothesesThatNobodyFollowed) {
    const std::vector<FlipHypothesis> first{{{0, 0, 0}}, {{16, 0, 0}}, {{40, 0, 0.5}}, {{64, 0.5f, 0.5f}}};
    const std::vector<float> rates(60, 8);
    FlipHypotheses all(first, kHz);
    FlipCourse course;
    all.begin(kStart, rates), course.begin(kStart, rates);
    PolicyState s;
    std::vector<uint32_t> expected;
    for (uint32_t i = 0; i < 60; ++i) {
        if (i == 20) all.fork(kWaker, TaskId{3}), course.fork(kWaker, TaskId{3});
        Wakeup w;
        w.curr = kWaker, w.p = TaskId{1 + i % 4}, w.jiffies = kStart + 20 * i;
        const PolicyState::Task before = s.task(kWaker);
        if (i % 5 != 4) record_wakee(s, kWaker, w.p, w.jiffies, kHz);  // else it is not called
        all.follow(w, before, s.task(kWaker));
        const int factor = i % 7 == 6 ? 0 : 2;
        expected.push_back(factor ? all.wide(kWaker, w.p, factor) : 0);
        course.woke(w, before, s.task(kWaker), i, factor);
    }
    EXPECT_EQ(course.wide(first, kHz), expected);
    EXPECT_NE(std::count(expected.begin(), expected.end(), 0u), 60);
    const std::vector<uint32_t> one = course.wide({first[2]}, kHz);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i], expected[i] >> 2 & 1) << i;
}

/// `curr` wakes `p`, row `row` of a course.
void wake(FlipCourse& course, PolicyState& s, TaskId curr, TaskId p, uint32_t row,
          std::optional<uint32_t> recorded = {}) {
    Wakeup w;
    w.curr = curr, w.p = p, w.jiffies = kStart + row;
    const PolicyState::Task before = s.task(curr);
    record_wakee(s, curr, p, w.jiffies, kHz);
    course.woke(w, before, s.task(curr), row, 4, recorded);
}

TEST(Flips, TheirCourseTellsOfTasksThatBeganOtherwiseThanTheRest) {
    constexpr TaskId kChild{60}, kOther{51};
    FlipCourse course;
    course.begin(kStart, {});
    PolicyState s;
    wake(course, s, kWaker, TaskId{1}, 0);
    course.fork(kWaker, kChild);
    wake(course, s, kChild, TaskId{1}, 1);
    wake(course, s, kOther, TaskId{1}, 2, 2);  // recorded: the wakee has two, which is too few whatever it began with
    wake(course, s, kOther, TaskId{1}, 3);
    wake(course, s, kChild, kWaker, 4);
    const FirstFlips few{10, 0, 1}, many{200, 0, 1};
    const FlipHypothesis base{.all = few, .own = {{kOther.v, many}}};
    EXPECT_EQ(course.wide({base}, kHz), (std::vector<uint32_t>{0, 0, 0, 0, 0}));
    const std::vector<FlipHypothesis> tries{{.all = many}, {.all = few, .own = {{kWaker.v, many}}}};
    const FlipsApart told = course.apart(base, tries, std::vector<bool>(5, true), kHz);
    EXPECT_EQ(course.apart(base, tries, {false, true}, kHz).row, std::vector<uint32_t>{1}) << "only of those";
    EXPECT_EQ(told.row, (std::vector<uint32_t>{0, 1}));
    EXPECT_EQ(told.curr, (std::vector<uint32_t>{kWaker.v, kWaker.v})) << "whom it has them from";
    EXPECT_EQ(told.p, (std::vector<uint32_t>{1, 1}));
    EXPECT_EQ(told.of_curr, (std::vector<uint32_t>{0b110, 0b110})) << "200 against 10";
    EXPECT_EQ(told.of_p, (std::vector<uint32_t>{0b010, 0b010})) << "10 against 200";
}

TEST(Flips, OfALongCourseNoStepIsLostOnTheWayThroughAFile) {
    FlipHypotheses all({{{8, 0, 0}}}, kHz);
    FlipCourse course;
    all.begin(kStart, {}), course.begin(kStart, {});
    PolicyState s;
    std::vector<uint32_t> expected;
    for (uint32_t i = 0; i < 150'000; ++i) {
        Wakeup w;
        w.curr = kWaker, w.p = TaskId{1 + i * i % 7}, w.jiffies = kStart + i / 100;
        const PolicyState::Task before = s.task(kWaker);
        record_wakee(s, kWaker, w.p, w.jiffies, kHz);
        all.follow(w, before, s.task(kWaker));
        expected.push_back(all.wide(kWaker, w.p, 1 + i % 40));
        course.woke(w, before, s.task(kWaker), i, static_cast<int>(1 + i % 40));
        if (i == 100'000) {
            EXPECT_EQ(course.wide({{{8, 0, 0}}}, kHz), expected) << "and more may come";
        }
    }
    EXPECT_EQ(course.wide({{{8, 0, 0}}}, kHz), expected);
}

TEST(Flips, AreCertainFromOneRecordedValueOn) {
    KnownFlips certain;
    certain.begin(kStart, kHz);
    PolicyState s;
    EXPECT_FALSE(certain.of(kWaker));
    certain.see(kWaker, 12);  // it has not called yet: halved next when it does so a second after the start, or later
    EXPECT_EQ(certain.of(kWaker), 12u);
    wake(certain, s, TaskId{1}, kStart + kHz + 1);  // but whom it woke last is not known: a flip or none
    EXPECT_FALSE(certain.of(kWaker));
    certain.see(kWaker, 7);
    wake(certain, s, TaskId{2}, kStart + kHz + 2);
    EXPECT_EQ(certain.of(kWaker), 8u);
    certain.see(kWaker, 100);  // only the first value is taken
    wake(certain, s, TaskId{2}, kStart + 2 * kHz + 1);
    EXPECT_EQ(certain.of(kWaker), 8u);
    wake(certain, s, TaskId{1}, kStart + 2 * kHz + 2);  // a second after the first call, which halved for certain
    EXPECT_EQ(certain.of(kWaker), 5u);
    certain.fork(kWaker, TaskId{60});
    EXPECT_EQ(certain.of(TaskId{60}), 5u);
}

TEST(Flips, AreLostWhereACallMayHaveHalvedThem) {
    KnownFlips certain;
    certain.begin(kStart, kHz);
    PolicyState s;
    wake(certain, s, TaskId{1}, kStart + 1);
    certain.see(kWaker, 12);  // a value does not help: it is halved again within a second of some time before the start
    EXPECT_FALSE(certain.of(kWaker));
    wake(certain, s, TaskId{2}, kStart + kHz);
    certain.see(kWaker, 12);
    EXPECT_FALSE(certain.of(kWaker));
    wake(certain, s, TaskId{2}, kStart + 2 * kHz + 1);  // a second without a call
    certain.see(kWaker, 12);
    EXPECT_EQ(certain.of(kWaker), 12u);
}

TEST(Flips, AreLostWhereACallOnTheEdgeOfAJiffyMayHaveHalvedThem) {
    KnownFlips certain;
    certain.begin(kStart, kHz);
    PolicyState s;
    wake(certain, s, TaskId{1}, kStart + kHz + 1, true);  // halved in the first jiffy of the next second or before it
    certain.see(kWaker, 12);
    EXPECT_FALSE(certain.of(kWaker)) << "or not at all: just a second may have passed";
    wake(certain, s, TaskId{1}, kStart + 2 * kHz + 3, true);  // now it was halved, in one of two jiffies
    certain.see(kWaker, 12);
    EXPECT_EQ(certain.of(kWaker), 12u);
    wake(certain, s, TaskId{1}, kStart + 3 * kHz + 2);
    EXPECT_EQ(certain.of(kWaker), 12u) << "a second has not passed since either";
    wake(certain, s, TaskId{1}, kStart + 3 * kHz + 3);
    EXPECT_FALSE(certain.of(kWaker)) << "since the first of them";
    certain.see(kWaker, 6);
    wake(certain, s, TaskId{1}, kStart + 3 * kHz + 4);
    EXPECT_FALSE(certain.of(kWaker)) << "since the second";
    certain.see(kWaker, 6);
    wake(certain, s, TaskId{2}, kStart + 4 * kHz + 3);
    EXPECT_EQ(certain.of(kWaker), 7u) << "by now it was halved in one of two jiffies whichever it was";
    wake(certain, s, TaskId{2}, kStart + 4 * kHz + 5);
    EXPECT_EQ(certain.of(kWaker), 3u) << "and a second has passed since both";
}

TEST(Flips, GrowAtTheRateOfTheBeginningAndAreInherited) {
    constexpr Ns kMs = 1'000'000;
    std::vector<int64_t> ts;
    std::vector<uint32_t> curr, task;
    for (int i = 0; i <= 100; ++i) ts.push_back(i * kMs), curr.push_back(kWaker.v), task.push_back(i % 2 + 1);
    WakingColumns c;
    c.n = ts.size(), c.ts = ts.data(), c.curr_task = curr.data(), c.task = task.data();
    const std::vector<float> rates = flip_rates(c);
    EXPECT_NEAR(rates.at(kWaker.v), 1010, 1);  // 100 in the first 99 ms
    FlipHypotheses all({{{8, 0.5, 1}}, {{100, 0, 1}}}, kHz);
    all.begin(kStart, rates);
    const TaskId child{70};
    all.fork(kWaker, child);
    PolicyState::Task t;
    all.give(t, child, 0);
    EXPECT_NEAR(t.flips, 513, 1);
    EXPECT_EQ(all.wide(kWaker, TaskId{1}, 8), 1u) << "513 against 8, 100 against 100";
    all.know(TaskId{1}, 7);
    EXPECT_EQ(all.wide(kWaker, TaskId{1}, 8), 0u);
}

TEST(Flips, RecordedValuesTellWhenTheyAreHalved) {
    FlipHypotheses all({{{8, 0, 0}}}, kHz);  // due at once, by the hypothesis
    all.begin(kStart, {});
    PolicyState s;
    const auto flips = [&] {
        PolicyState::Task t;
        all.give(t, kWaker, 0);
        return t.flips;
    };
    wake(all, s, TaskId{1}, kStart);
    all.know(kWaker, 100);
    wake(all, s, TaskId{2}, kStart + 30);
    EXPECT_EQ(flips(), 101u);
    all.know(kWaker, 51);  // halved by the last call, and counted
    wake(all, s, TaskId{2}, kStart + kHz + 1);
    EXPECT_EQ(flips(), 51u) << "not before a second has passed since then";
    wake(all, s, TaskId{2}, kStart + kHz + 31);
    EXPECT_EQ(flips(), 25u);
    all.know(kWaker, 24);  // one less is no half
    wake(all, s, TaskId{2}, kStart + 2 * kHz + 32);
    EXPECT_EQ(flips(), 12u);
}

TEST(Flips, ARecordedValueThatNobodyHalvedTellsOfAllThatInheritTheSame) {
    FlipHypotheses all({{{64, 0, 0}}}, kHz);  // due at once, by the hypothesis
    const TaskId parent{2}, stranger{3}, first{50}, second{51};
    const auto flips = [&](TaskId t) {
        PolicyState::Task state;
        all.give(state, t, 0);
        return state.flips;
    };
    all.begin(kStart, {});
    const auto now = static_cast<uint32_t>(kStart);
    for (TaskId child : {first, second}) all.fork(parent, child), all.know(child, 64);
    all.count(first, now + 10, true);
    EXPECT_EQ(flips(first), 33u) << "as far as is known";
    all.know(first, 65);
    all.count(first, now + 20, true);
    EXPECT_EQ(flips(first), 66u);
    all.count(second, now + 30, true);
    EXPECT_EQ(flips(second), 65u) << "it inherited from the same task";
    all.know(stranger, 64), all.count(stranger, now + 30, true);
    EXPECT_EQ(flips(stranger), 33u);
    all.count(second, now + kHz, true);
    EXPECT_EQ(flips(second), 33u) << "halved some time in the second before the first called";
}

TEST(Flips, AllHypothesesAreAskedAtOnceAsEachWouldBe) {
    const std::vector<uint32_t> tried{0, 1, 7, 8, 9, 63, 64, 65, 100, 512, 4096, 1u << 20, 1u << 30};
    const TaskId p{1};
    for (const int factor : {1, 2, 8, 64, 4096}) {
        for (const uint32_t of_p : tried) {
            std::vector<FlipHypothesis> first;
            for (const uint32_t of_curr : tried) first.push_back({{of_p, 0, 1}, {{kWaker.v, {of_curr, 0, 1}}}});
            FlipHypotheses all(first, kHz);
            all.begin(kStart, {});
            uint32_t each = 0;
            for (size_t h = 0; h < tried.size(); ++h) each |= uint32_t{wake_wide(tried[h], of_p, factor)} << h;
            EXPECT_EQ(all.wide(kWaker, p, factor), each) << of_p << ", factor " << factor;
            const auto [of_waker, of_wakee] = all.wide_apart(kWaker, p, factor);
            EXPECT_EQ(of_waker, each) << of_p << ", factor " << factor;
            EXPECT_EQ(of_wakee, each & 1 ? (1u << tried.size()) - 1 : 0u);
            EXPECT_EQ(all.wide_apart(p, kWaker, factor).second, each) << "the other way round";
        }
    }
}

TEST(Flips, RefusesTooManyHypotheses) {
    EXPECT_THROW(FlipHypotheses({}, kHz), std::invalid_argument);
    EXPECT_THROW(FlipHypotheses(std::vector<FlipHypothesis>(33), kHz), std::invalid_argument);
}

/// has_idle_cores after `recorded` was chosen where the flag was `before`; of the CPUs 5 and 6 are idle, 5 is prev's sibling.
bool flag_after(bool before, int recorded, int scan) {
    static const Topology t = [] {
        Topology made = machine(8, true);
        made.finish();
        return made;
    }();
    const auto policy = make_policy("linux-6.1", {}, t, 0);
    Scene x(t, {5, 6}, 0, 1);
    std::fill(x.v.nr_idle_scan.begin(), x.v.nr_idle_scan.end(), scan);
    policy->state.hic.assign(t.llc_span.size(), before);
    const PolicyState::Task task = policy->state.task(x.w.p);
    const std::vector<uint8_t> hic = policy->state.hic;
    const Decision made = policy->decide(x.v, x.w, nullptr, cpu(recorded));
    policy->follow(x.v, x.w, cpu(recorded), made, task, hic);
    return policy->state.hic[0] != 0;
}

TEST(Follow, ABusyTargetBesideAnIdleSiblingTellsThatTheFlagWasSet) {
    EXPECT_TRUE(flag_after(false, 0, 0));
    EXPECT_TRUE(flag_after(false, 1, 8));
}

TEST(Follow, ASearchThatFoundAThreadTellsThatTheFlagIsClear) {
    EXPECT_FALSE(flag_after(true, 5, 0));
    EXPECT_FALSE(flag_after(true, 5, 8));
}

}  // namespace
}  // namespace rewake::test
