// SPDX-License-Identifier: GPL-2.0-or-later
// The fair class by hand: who runs next, who takes the CPU, what is kept over a sleep.
#include "replay/model/fair/queues.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "replay/model/events.hpp"

namespace rewake {
namespace {

constexpr Ns kMs = 1'000'000;
constexpr FairPolicy kNormal = FairPolicy::normal;
constexpr Cpu c0(0), c1(1);
constexpr TaskId a(10), b(11), c(12);
using How = FairQueues::How;

FairQueues cfs() { return {2, 20, FairSettings::of(6, 1, 16, 4 * kMs)}; }
FairQueues eevdf() { return {2, 20, FairSettings::of(6, 12, 16, 4 * kMs)}; }

void run(FairQueues& q, Cpu cpu, TaskId t, Ns from, Ns to) {
    q.start(cpu, t, from);
    q.charge(cpu, to);
}

TEST(Cfs, ASleeperIsAtMostHalfALatencyBehindAndTakesTheCpu) {
    FairQueues q = cfs();
    q.enqueue(c0, b, 1024, How::wakeup, 0);
    q.dequeue(b, true);
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    run(q, c0, a, 0, 40 * kMs);
    q.enqueue(c0, b, 1024, How::wakeup, 40 * kMs);
    EXPECT_EQ(q.behind(a, b), 12 * kMs);
    EXPECT_TRUE(q.preempts(c0, b, kNormal, kNormal));
    EXPECT_EQ(q.pick(c0), b);
}

TEST(Cfs, WhoIsSeenLateForTheFirstTimeSleptAsLongBefore) {
    for (const auto& [ran, behind] : {std::pair{kMs, 2 * kMs}, {3 * kMs, 6 * kMs}, {40 * kMs, 12 * kMs}}) {
        FairQueues q = cfs();
        q.enqueue(c0, a, 1024, How::wakeup, 0);
        run(q, c0, a, 0, ran);
        q.enqueue(c0, b, 1024, How::wakeup, ran);
        EXPECT_EQ(q.behind(a, b), behind);
        EXPECT_EQ(q.preempts(c0, b, kNormal, kNormal), behind > 4 * kMs);
    }
}

TEST(Cfs, WhatWasSeenEarlyIsTrueOfWhatTasksBeginWith) {
    for (bool early : {false, true}) {
        FairQueues q = cfs();
        q.enqueue(c0, a, 1024, How::wakeup, 0);
        run(q, c0, a, 0, kMs);
        q.enqueue(c0, b, 1024, How::wakeup, kMs);
        if (early) q.as_expected(a, b, q.behind(a, b), false);  // 2 ms: not enough
        q.learn_preempted(a, b, q.behind(a, b));
        EXPECT_EQ(q.behind(a, b), 12 * kMs) << "either way from now on";
        EXPECT_EQ(q.leads()[b.v], early ? 0 : -10 * kMs);
    }
}

TEST(Cfs, WhoRanLongestAgoIsFirstOnTheQueue) {
    FairQueues q = cfs();
    for (TaskId t : {a, b, c}) q.enqueue(c0, t, 1024, How::wakeup, 0);
    run(q, c0, b, 0, kMs);
    EXPECT_TRUE(q.queue(c0) == (std::vector{a, c, b}));
    q.stop(c0, kMs);
    run(q, c0, a, kMs, 2 * kMs);
    EXPECT_TRUE(q.queue(c0) == (std::vector{c, b, a}));
    q.enqueue(c0, TaskId(13), 1024, How::wakeup, 2 * kMs);
    EXPECT_TRUE(q.queue(c0) == (std::vector{c, b, a, TaskId(13)})) << "who comes is behind all";
}

TEST(Cfs, WhatRunsIsToldToGoOnce) {
    FairQueues q = cfs();
    for (TaskId t : {b, c}) q.enqueue(c0, t, 1024, How::wakeup, 0), q.dequeue(t, true);
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    run(q, c0, a, 0, 6 * kMs);
    q.enqueue(c0, b, 1024, How::wakeup, 6 * kMs);
    EXPECT_TRUE(q.preempts(c0, b, kNormal, kNormal));
    q.enqueue(c0, c, 1024, How::wakeup, 6 * kMs);
    EXPECT_FALSE(q.preempts(c0, c, kNormal, kNormal)) << "it goes already";
    EXPECT_EQ(q.pick(c0), b) << "the first to be promised the CPU";
}

TEST(Cfs, AQueueNamesWhoRanThereLast) {
    FairQueues q = cfs();
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    EXPECT_FALSE(q.done_with(a));
    run(q, c0, a, 0, kMs);
    q.dequeue(a, true), q.stop(c0, kMs);
    EXPECT_TRUE(q.done_with(a)) << "it is not queued";
    std::vector<TaskId> named;
    q.each_named([&](TaskId t) { named.push_back(t); });
    EXPECT_EQ(std::ranges::count(named, a), 1);
    EXPECT_EQ(std::ranges::count(named, b), 0);
}

TEST(Cfs, ANewbornWaitsForASliceOfTheQueueWithItInIt) {
    FairQueues q = cfs();
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    q.start(c0, a, 0);
    q.fork(c0, a, b);
    q.enqueue(c0, b, 1024, How::fork, 0);
    EXPECT_EQ(q.behind(b, a), 12 * kMs) << "half of the latency: there are two";
}

TEST(Cfs, ANiceNewbornWaitsLongerForItsSliceIsAsLongAsItsWeightMakesIt) {
    FairQueues q = cfs();
    q.enqueue(c0, a, 110, How::wakeup, 0);  // nice 10
    q.start(c0, a, 0);
    q.fork(c0, a, b);
    q.enqueue(c0, b, 110, How::fork, 0);
    EXPECT_EQ(q.behind(b, a), 12 * kMs * 1024 / 110) << "half of the latency, in its own time (sched_vslice())";
}

TEST(Cfs, OfTasksThatMoveTogetherTheLastOneComesFirst) {
    for (const Ns between : {Ns{1'000}, Ns{20'000}}) {
        FairQueues q = cfs();
        Ns now = 0;
        for (TaskId t : {a, b, c}) q.enqueue(c0, t, 1024, How::wakeup, 0);
        for (TaskId t : {a, b, c}) {
            q.leave(t);
            q.enqueue(c1, t, 1024, How::moved, now += between);
        }
        EXPECT_EQ(q.pick(c1), between < 5'000 ? c : a) << "alike but for when they came";
    }
}

TEST(Cfs, ATaskThatMovesKeepsItsPlaceAmongThoseThatItLeaves) {
    FairQueues q = cfs();
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    q.enqueue(c0, b, 1024, How::wakeup, 0);
    run(q, c0, a, 0, 5 * kMs);  // b is 5 ms behind, and the smallest
    q.enqueue(c1, c, 1024, How::wakeup, 0);
    q.leave(b);
    q.enqueue(c1, b, 1024, How::moved, 5 * kMs);
    EXPECT_EQ(q.behind(c, b), 0) << "the smallest there, the smallest here";
}

TEST(Cfs, WhatTheKernelDidTellsOfTasksOlderThanTheRecording) {
    FairQueues q = cfs();
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    run(q, c0, a, 0, kMs);
    q.enqueue(c0, b, 1024, How::wakeup, kMs);
    const int64_t behind = q.behind(a, b);
    EXPECT_FALSE(q.preempts(c0, b, kNormal, kNormal));
    q.learn_preempted(a, b, behind);
    EXPECT_EQ(q.behind(a, b), 12 * kMs) << "most that take the CPU are as far behind as sleepers are let";
    EXPECT_EQ(q.leads()[b.v], behind - 12 * kMs) << "what to begin with";
    q.learn_kept(a, b, q.behind(a, b));
    EXPECT_EQ(q.behind(a, b), 0) << "most that do not are not behind at all";
}

TEST(Policies, BatchAndIdleTakeTheCpuFromNobodyButOthersFromIdle) {
    for (const bool is_cfs : {true, false}) {
        FairQueues q = is_cfs ? cfs() : eevdf();
        q.enqueue(c0, b, 1024, How::wakeup, 0);
        q.dequeue(b, true);
        q.enqueue(c0, a, 1024, How::wakeup, 0);
        const Ns until = is_cfs ? 50 * kMs : 2 * kMs;  // within its slice of 2.8 ms
        run(q, c0, a, 0, until);
        q.enqueue(c0, b, 1024, How::wakeup, until);
        FairQueues other = q;
        EXPECT_EQ(other.preempts(c0, b, kNormal, kNormal), is_cfs);
        EXPECT_FALSE(q.preempts(c0, b, FairPolicy::batch, kNormal));
        EXPECT_FALSE(q.preempts(c0, b, FairPolicy::idle, FairPolicy::idle));
        EXPECT_TRUE(q.preempts(c0, b, FairPolicy::batch, FairPolicy::idle));
    }
}

TEST(Cfs, WhoPreemptsByItsPolicyAloneIsNotFavoured) {  // check_preempt_wakeup() marks no buddy then
    FairQueues q = cfs();
    for (TaskId t : {a, b}) q.enqueue(c0, t, 1024, How::wakeup, 0);
    run(q, c0, b, 0, 3 * kMs);
    q.dequeue(b, true);
    q.start(c0, a, 3 * kMs);
    q.enqueue(c0, b, 1024, How::wakeup, 3 * kMs);
    ASSERT_EQ(q.behind(a, b), -3 * kMs);
    EXPECT_TRUE(q.preempts(c0, b, kNormal, FairPolicy::idle));
    EXPECT_EQ(q.pick(c0), a) << "it had less of the CPU";
}

TEST(Eevdf, TheSliceOfATaskOfIdlePolicyDoesNotProtectItFromOthers) {
    for (const FairPolicy of_curr : {FairPolicy::idle, kNormal}) {
        FairQueues q = eevdf();
        q.enqueue(c0, a, 3, How::wakeup, 0);
        q.start(c0, a, 0);
        q.enqueue(c0, b, 1024, How::wakeup, kMs);  // at its place: both are eligible
        EXPECT_EQ(q.preempts(c0, b, kNormal, of_curr), of_curr == FairPolicy::idle);
        EXPECT_EQ(q.pick(c0), of_curr == FairPolicy::idle ? b : a);
    }
}

TEST(Eevdf, ATaskThatOwesNothingAndIsOwedNothingWaits) {
    FairQueues q = eevdf();
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    q.start(c0, a, 0);
    q.enqueue(c0, b, 1024, How::wakeup, kMs);
    EXPECT_FALSE(q.preempts(c0, b, kNormal, kNormal));
    q.charge(c0, 2 * kMs);
    EXPECT_FALSE(q.tick(c0)) << "within its slice of 2.8 ms";
    EXPECT_EQ(q.pick(c0), b) << "it has run ahead: no longer protected";
}

TEST(Cfs, WhoComesToAnEmptyQueueLeavesItsPlaceToTheNext) {
    FairQueues q = cfs();
    for (TaskId t : {a, b}) q.enqueue(c1, t, 1024, How::wakeup, 0);
    run(q, c1, a, 0, 5 * kMs);  // ahead of b
    for (TaskId t : {a, b}) q.dequeue(t, true), q.leave(t);
    q.enqueue(c0, a, 1024, How::wakeup, 6 * kMs);
    q.enqueue(c0, b, 1024, How::wakeup, 6 * kMs);
    EXPECT_EQ(q.pick(c0), b) << "placed by the same min_vruntime";
}

TEST(Eevdf, WhoPreemptsThoughNothingIsKnownOfItWasOwedSomething) {
    FairQueues q = eevdf();
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    run(q, c0, a, 0, kMs);
    q.enqueue(c0, b, 1024, How::wakeup, kMs);
    EXPECT_FALSE(q.preempts(c0, b, kNormal, kNormal));
    q.learn_preempted(a, b, q.behind(a, b));
    FairQueues again = eevdf();
    again.begin_with(q.leads());
    again.enqueue(c0, a, 1024, How::wakeup, 0);
    run(again, c0, a, 0, kMs);
    again.enqueue(c0, b, 1024, How::wakeup, kMs);
    EXPECT_TRUE(again.preempts(c0, b, kNormal, kNormal));
}

TEST(Eevdf, WhomTheKernelDidNotLetPreemptWasNotOwedMore) {
    for (const bool told : {false, true}) {
        FairQueues q = eevdf();
        for (TaskId t : {a, b}) q.enqueue(c0, t, 1024, How::wakeup, 0);
        run(q, c0, a, 0, kMs);
        q.dequeue(b, true);  // it is owed half of what a ran
        q.start(c0, a, kMs);
        q.enqueue(c0, b, 1024, How::wakeup, kMs);
        const int64_t behind = q.behind(a, b);
        EXPECT_GT(behind, 0);
        if (told) q.learn_kept(a, b, behind);
        EXPECT_EQ(q.preempts(c0, b, kNormal, kNormal), !told);
    }
}

TEST(Eevdf, WhoYieldsGivesUpItsSliceOrGetsAnotherOne) {
    for (const int minor : {6, 12}) {
        FairQueues q(2, 20, FairSettings::of(6, minor, 8, 4 * kMs));
        for (TaskId t : {a, b}) q.enqueue(c0, t, 1024, How::wakeup, 0);
        q.start(c0, a, 0);
        EXPECT_EQ(q.pick(c0), a) << "its slice is protected";
        q.yield(a);
        EXPECT_EQ(q.pick(c0), b);
        EXPECT_EQ(q.behind(a, b) > 0, minor == 12);
    }
}

TEST(Cfs, WhoYieldsIsPassedOverUnlessItIsFarBehind) {
    for (const Ns behind : {kMs / 2, 20 * kMs}) {
        FairQueues q = cfs();
        for (TaskId t : {a, b}) q.enqueue(c0, t, 1024, How::wakeup, 0);
        run(q, c0, b, 0, behind);
        q.start(c0, a, behind);
        EXPECT_EQ(q.pick(c0), a);
        q.yield(a);
        const TaskId next = behind < kMs ? b : a;
        EXPECT_EQ(q.pick(c0), next);
        q.start(c0, next, behind);
        EXPECT_EQ(q.pick(c0), next) << "who yielded is passed over until it runs again";
    }
    FairQueues q = cfs();
    for (TaskId t : {a, b}) q.enqueue(c0, t, 1024, How::wakeup, 0);
    q.start(c0, a, 0);
    q.yield(a);
    run(q, c0, b, 0, 5 * kMs);
    EXPECT_EQ(q.pick(c0), a) << "or the other is further ahead than a wakeup could bear";
    q.start(c0, a, 5 * kMs);
    q.start(c0, b, 5 * kMs);
    q.charge(c0, 6 * kMs);
    EXPECT_EQ(q.pick(c0), a) << "it has run";
}

TEST(Eevdf, OfSeveralThatWaitAnotherMayHaveHadTheBetterClaim) {
    FairQueues q = eevdf();
    for (TaskId t : {a, b, c}) q.enqueue(c0, t, 1024, How::wakeup, 0);
    run(q, c0, a, 0, kMs);
    const int64_t behind = q.behind(a, b);
    q.learn_kept(a, b, behind);
    EXPECT_EQ(q.behind(a, b), behind);
}

TEST(Eevdf, ASliceThatIsOverMakesWay) {
    FairQueues q = eevdf();
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    q.enqueue(c0, b, 1024, How::wakeup, 0);
    run(q, c0, a, 0, 3 * kMs);
    EXPECT_TRUE(q.tick(c0));
    EXPECT_EQ(q.pick(c0), b);
}

TEST(Eevdf, WhatWentOnAloneBeyondItsSliceGoesOnceItHasHadMoreThanItsPart) {
    for (const auto& [minor, goes] : {std::pair{6, false}, {12, true}}) {
        FairQueues q(2, 20, FairSettings::of(6, minor, 16, kMs));
        q.enqueue(c0, a, 1024, How::wakeup, 0);
        run(q, c0, a, 0, 3'200'000);  // its slice was over after 2.8 ms (3 ms in 6.6), and nobody was there
        q.enqueue(c0, b, 1024, How::wakeup, 3'200'000);
        EXPECT_FALSE(q.tick(c0)) << "neither is owed anything";
        q.charge(c0, 4 * kMs);
        EXPECT_EQ(q.tick(c0), goes) << "long before its next deadline";
    }
}

TEST(Eevdf, WhatItsSliceProtectsIsNotToldToGo) {
    FairQueues q = eevdf();
    for (TaskId t : {a, b}) q.enqueue(c0, t, 1024, How::wakeup, 0);
    run(q, c0, a, 0, kMs);
    EXPECT_FALSE(q.tick(c0)) << "not eligible, but within its slice";
}

/// a ran for the first ms beside b, and sleeps before its turn.
FairQueues with_a_sleeper_that_competes() {
    FairQueues q = eevdf();
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    q.enqueue(c0, b, 1024, How::wakeup, 0);
    run(q, c0, a, 0, kMs);
    q.stop(c0, kMs);
    q.dequeue(a, true);
    return q;
}

TEST(Eevdf, WhoSleepsBeforeItsTurnStaysACompetitorUntilItIsPicked) {
    FairQueues q = with_a_sleeper_that_competes();
    EXPECT_TRUE(q.delayed(a));
    EXPECT_FALSE(q.queued(a));
    EXPECT_EQ(q.size(c0), 1u);
    EXPECT_EQ(q.pick(c0), b);
    q.start(c0, b, kMs);
    q.enqueue(c0, a, 1024, How::wakeup, kMs);
    EXPECT_EQ(q.behind(a, b), kMs) << "it never left";
    q.drain(c0);
    q.dequeue(a, true);
    ASSERT_TRUE(q.delayed(a));
    q.drain(c0);
    EXPECT_FALSE(q.delayed(a)) << "nobody is left: it goes";
}

TEST(Eevdf, AWakeupLetsGoOfWhoSleepsAndWouldBeNext) {
    for (int major : {6, 7}) {
        FairQueues q(2, 20, FairSettings::of(major, major == 6 ? 12 : 2, 16, 4 * kMs));
        for (TaskId t : {a, c}) q.enqueue(c0, t, 1024, How::wakeup, 0);
        run(q, c0, c, 0, 2 * kMs);
        q.stop(c0, 2 * kMs);
        q.dequeue(c, true);
        run(q, c0, a, 2 * kMs, 4 * kMs + kMs / 2);  // ahead of both by now, so it is c's turn
        ASSERT_TRUE(q.delayed(c));
        q.enqueue(c0, b, 1024, How::wakeup, 4 * kMs + kMs / 2);
        EXPECT_EQ(q.preempts(c0, b, kNormal, kNormal), major == 7);
        EXPECT_EQ(q.delayed(c), major == 6);
    }
}

TEST(Eevdf, WhoIsDelayedOwesNoMoreWhenItIsWoken) {
    for (int major : {6, 7}) {
        FairQueues q(2, 20, FairSettings::of(major, major == 6 ? 12 : 2, 16, 4 * kMs));
        for (TaskId t : {a, b}) q.enqueue(c0, t, 1024, How::wakeup, 0);
        run(q, c0, a, 0, 2 * kMs);
        q.dequeue(b, false);  // it is owed 1 ms
        q.dequeue(a, true);
        EXPECT_FALSE(q.delayed(a)) << "it is alone";
        q.enqueue(c0, c, 1024, How::wakeup, 2 * kMs);
        q.enqueue(c0, a, 1024, How::wakeup, 2 * kMs);
        run(q, c0, a, 2 * kMs, 3 * kMs);
        q.stop(c0, 3 * kMs);
        q.dequeue(a, true);  // half a ms ahead of the average
        ASSERT_TRUE(q.delayed(a));
        q.enqueue(c0, b, 1024, How::wakeup, 3 * kMs);  // which goes back
        const int64_t ahead = q.behind(a, c);
        q.enqueue(c0, a, 1024, How::wakeup, 3 * kMs);
        EXPECT_EQ(ahead, kMs);
        if (major == 6)
            EXPECT_EQ(q.behind(a, c), ahead) << "it never left";
        else
            EXPECT_LT(q.behind(a, c), ahead) << "b took the average back";
    }
}

TEST(Eevdf, NewbornsTakeNoCpu) {
    for (int major : {6, 7}) {
        FairQueues q(2, 20, FairSettings::of(major, major == 6 ? 12 : 2, 16, 4 * kMs));
        for (TaskId t : {a, c}) q.enqueue(c0, t, 1024, How::wakeup, 0);
        run(q, c0, a, 0, kMs);  // ahead of the average: nothing protects it
        q.enqueue(c0, b, 1024, How::fork, kMs);
        EXPECT_EQ(q.preempts(c0, b, kNormal, kNormal), major == 6);
    }
}

TEST(Eevdf, OfEqualClaimsWhatRunsComesLast) {
    FairQueues q = eevdf();
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    run(q, c0, a, 0, 3 * kMs);  // its slice is over, and with it the protection of it
    q.enqueue(c0, b, 1024, How::wakeup, 3 * kMs);
    EXPECT_EQ(q.behind(a, b), 0);
    EXPECT_TRUE(q.preempts(c0, b, kNormal, kNormal)) << "it is in no queue, where the other stands";
}

/// b tells a at 3 ms to go, which it does at 4: what a is charged of the ms between, and b until 5.
std::pair<int64_t, int64_t> told_and_gone(FairSettings settings) {
    FairQueues q(2, 20, settings);
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    run(q, c0, a, 0, 3 * kMs);
    q.enqueue(c0, b, 1024, How::wakeup, 3 * kMs);
    EXPECT_TRUE(q.preempts(c0, b, kNormal, kNormal));
    q.stop(c0, 4 * kMs);
    const int64_t before = q.behind(a, b);
    q.start(c0, b, 4 * kMs);
    q.charge(c0, 5 * kMs);
    return {before, before - q.behind(a, b)};
}

TEST(Eevdf, WhatRunsUntilItGoesIsTheTimeOfWhoComesNext) {
    EXPECT_EQ(told_and_gone(FairSettings::of(6, 12, 16, 4 * kMs)), std::pair(0 * kMs, 2 * kMs));
    EXPECT_EQ(told_and_gone(FairSettings::of(7, 2, 16, 4 * kMs)), std::pair(1 * kMs, 1 * kMs))
        << "told lazily: schedule() reads the clock";
}

TEST(Eevdf, TheWayOutOfIdleIsTheTimeOfWhoWokeTheCpu) {
    for (const bool told : {true, false}) {
        FairQueues q = eevdf();
        q.enqueue(c0, a, 1024, How::wakeup, 0);
        if (told) q.told_idle(c0);
        q.start(c0, a, kMs);
        q.charge(c0, 2 * kMs);
        EXPECT_EQ(q.behind(a, b), told ? 2 * kMs : kMs);
    }
}

TEST(Eevdf, WhoIsToldAndNeverthelessStaysIsChargedAllOfItsTime) {
    FairQueues q = eevdf();
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    run(q, c0, a, 0, 3 * kMs);
    q.enqueue(c0, b, 1024, How::wakeup, 3 * kMs);
    ASSERT_TRUE(q.preempts(c0, b, kNormal, kNormal));
    q.scheduled(c0);
    q.stop(c0, 4 * kMs);
    EXPECT_EQ(q.behind(a, b), kMs);
}

TEST(Eevdf, BalancingTakesACompetitorThatSleepsWithItsLag) {
    FairQueues q = with_a_sleeper_that_competes();
    ASSERT_TRUE(q.delayed(a));
    q.enqueue(c1, c, 1024, How::wakeup, kMs);
    q.carry(c1, a, kMs);
    EXPECT_TRUE(q.delayed(a));
    EXPECT_EQ(q.cpu(a), c1);
    EXPECT_EQ(q.behind(a, c), kMs) << "half a ms ahead of the average, on both queues";
    EXPECT_EQ(q.pick(c0), b);
    EXPECT_EQ(q.pick(c1), c);
    q.start(c1, c, kMs);
    q.enqueue(c1, a, 1024, How::wakeup, kMs);
    EXPECT_EQ(q.size(c1), 2u) << "it wakes where it was taken";
    EXPECT_EQ(q.behind(a, c), kMs);
}

TEST(Eevdf, OfTasksThatMoveTogetherTheLastOneIsPlacedFirst) {
    FairQueues q = eevdf();
    for (TaskId t : {a, b}) q.enqueue(c0, t, 1024, How::wakeup, 0);
    run(q, c0, a, 0, 2 * kMs);
    q.stop(c0, 2 * kMs);
    q.enqueue(c1, c, 1024, How::wakeup, 2 * kMs);
    q.leave(a);  // it owes 1 ms
    q.enqueue(c1, a, 1024, How::moved, 2 * kMs);
    EXPECT_EQ(q.behind(a, c), 2 * kMs) << "so far it has made the average that it is ahead of";
    q.leave(b);  // alone, it owes nothing and is owed nothing
    q.enqueue(c1, b, 1024, How::moved, 2 * kMs + 1'000);
    EXPECT_EQ(q.behind(b, c), 0) << "it was placed beside c alone,";
    EXPECT_EQ(q.behind(a, c), kMs * 3 / 2) << "and a beside both";
}

TEST(Eevdf, WhoStartsIsNotPlacedAgain) {
    FairQueues q = eevdf();
    for (TaskId t : {a, b}) q.enqueue(c0, t, 1024, How::wakeup, 0);
    run(q, c0, a, 0, 2 * kMs);
    q.stop(c0, 2 * kMs);
    q.enqueue(c1, c, 1024, How::wakeup, 2 * kMs);
    q.leave(a);
    q.enqueue(c1, a, 1024, How::moved, 2 * kMs);
    q.start(c1, a, 2 * kMs);
    q.leave(b);
    q.enqueue(c1, b, 1024, How::moved, 2 * kMs + 1'000);
    EXPECT_EQ(q.behind(a, c), 2 * kMs + 1'000) << "it runs";
    EXPECT_EQ(q.behind(b, c), kMs + 500) << "at the average of both";
}

TEST(Eevdf, WhoWasTakenIsTakenThen) {
    for (const TaskId taken : {a, b, c}) {
        FairQueues q = eevdf();
        Ns now = 0;
        for (TaskId t : {a, b, c}) q.enqueue(c0, t, 1024, How::wakeup, 0);
        for (TaskId t : {a, b}) run(q, c0, t, now, now + kMs / 2), now += kMs / 2, q.stop(c0, now);
        EXPECT_EQ(q.pick(c0), c) << "it has not run";
        q.learn_pick(c0, taken);
        EXPECT_EQ(q.pick(c0), taken);
    }
}

/// They have slept once: with which lag they began is no guess any more.
void sleep_once(FairQueues& q, std::initializer_list<TaskId> all) {
    for (TaskId t : all) q.enqueue(c0, t, 1024, How::wakeup, 0), q.dequeue(t, true);
}

TEST(Eevdf, WhoseTurnItWasNotWasLaterOrNotEligibleWhicheverIsLess) {
    FairQueues q = eevdf();
    sleep_once(q, {a, b, c});
    for (TaskId t : {a, b, c}) q.enqueue(c0, t, 1024, How::wakeup, 0);
    run(q, c0, c, 0, kMs);
    q.stop(c0, kMs);
    EXPECT_EQ(q.pick(c0), a) << "of two alike the first";
    q.learn_pick(c0, b);
    EXPECT_EQ(q.behind(a, b), 1) << "its deadline was later";
    FairQueues r = eevdf();
    sleep_once(r, {a, b});
    r.enqueue(c0, a, 1024, How::wakeup, 0);
    run(r, c0, a, 0, kMs);
    r.stop(c0, kMs);
    r.enqueue(c0, b, 1024, How::wakeup, kMs);
    EXPECT_EQ(r.pick(c0), a) << "its deadline is a ms earlier";
    r.learn_pick(c0, b);
    EXPECT_EQ(r.pick(c0), b);
    EXPECT_EQ(r.behind(a, b), 5'000) << "it was a little ahead";
}

TEST(Eevdf, WhatAPickShowsLagsToBeWrongByIsThreeFifthsTheTakenOnes) {
    FairQueues q = eevdf();
    sleep_once(q, {a, b, c});
    for (TaskId t : {a, c}) q.enqueue(c0, t, 1024, How::wakeup, 0);
    run(q, c0, c, 0, kMs);
    q.stop(c0, kMs);
    q.enqueue(c0, b, 1024, How::wakeup, kMs);
    EXPECT_EQ(q.behind(c, a), kMs);
    EXPECT_EQ(q.behind(c, b), kMs / 2) << "half a ms later than a";
    q.learn_pick(c0, b);
    EXPECT_EQ(q.behind(c, b), kMs / 2 + 300'000);
    EXPECT_EQ(q.behind(c, a), kMs - 200'001);
    EXPECT_EQ(q.pick(c0), b);
}

TEST(Eevdf, WhoIsTakenOutOfTurnBeforeItEverSleptWasOwedMore) {
    const auto waits = [](FairQueues q, bool learns) {
        sleep_once(q, {a});
        q.enqueue(c0, a, 1024, How::wakeup, 0);
        run(q, c0, a, 0, kMs);
        q.stop(c0, kMs);
        q.enqueue(c0, b, 1024, How::wakeup, kMs);
        if (learns) q.learn_pick(c0, b);
        return q;
    };
    FairQueues q = waits(eevdf(), true);
    EXPECT_EQ(q.pick(c0), b);
    EXPECT_EQ(q.behind(a, b), kMs + 1) << "its deadline comes first";
    const std::vector<int64_t> leads = q.leads();
    EXPECT_GT(leads[b.v], 0);
    EXPECT_EQ(leads[a.v], 0);
    FairQueues again = eevdf();
    again.begin_with(leads);
    EXPECT_EQ(waits(again, false).pick(c0), b) << "known from the beginning";
    EXPECT_EQ(waits(eevdf(), false).pick(c0), a);
}

TEST(States, WhoIsStoppedOrDeadDoesNotStayACompetitor) {
    for (const PrevState s : {PrevState::T, PrevState::t, PrevState::X, PrevState::Z, PrevState::P})
        EXPECT_TRUE(blocks_for_good(static_cast<uint8_t>(s)));
    for (const PrevState s : {PrevState::R, PrevState::S, PrevState::D, PrevState::I})
        EXPECT_FALSE(blocks_for_good(static_cast<uint8_t>(s)));
}

TEST(Eevdf, ATimedSliceEndsWhenItIsOver) {
    FairSettings timed = FairSettings::of(7, 2, 16, 4 * kMs);
    timed.hrtick = true;
    FairQueues q(2, 20, timed);
    q.enqueue(c0, a, 1024, How::wakeup, 0);
    q.start(c0, a, 0);
    EXPECT_FALSE(q.slice_left(c0)) << "alone";
    q.enqueue(c0, b, 1024, How::wakeup, kMs);
    EXPECT_EQ(q.slice_left(c0), 1'800'000);
}

}  // namespace
}  // namespace rewake
