// SPDX-License-Identifier: GPL-2.0-or-later
// From whom a CPU takes, and how much, by the tasks, idle CPUs and loads of both groups.
#include "replay/engine/closed/imbalance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/replay/policies_machine.hpp"

namespace rewake::closed {
namespace {

using test::cpu;
using Of = Surplus::Of;

/// Two LLCs of four CPUs.
class BusyGroups : public testing::Test {
  protected:
    BusyGroups() : topo_(test::machine(8, false, 4)) {
        topo_.finish();
        view_.topo = &topo_;
        view_.delayed.assign(8, 0);
        view_.fair.assign(8, 0);
        view_.cap.assign(8, 1024);
    }
    const Domain& level(const char* name) const {
        return *std::ranges::find_if(topo_.domains, [&](const Domain& d) { return d.name == name; });
    }
    /// Each task loads its CPU with 1024, or with `loads`. CPU `by_` looks.
    std::optional<Surplus> find(const char* name, std::vector<int32_t> nr, Has has = Has::none,
                                std::vector<int64_t> loads = {}) {
        view_.load = loads;
        if (loads.empty())
            for (int32_t n : nr) view_.load.push_back(1024 * n);
        view_.idle = {};
        for (int c = 0; c < 8; ++c) view_.idle.assign(cpu(c), nr[c] == 0);
        view_.nr = std::move(nr);
        for (size_t c = 0; c < 8; ++c) view_.fair[c] = view_.nr[c] - view_.delayed[c] - others_[c];
        const auto used = [this](Cpu c) {
            const int64_t n = view_.nr[c.v];
            return used_ ? *used_ : Machine::Used{n > 0 ? 1000 : 0, 1024 * n};
        };
        return Imbalance(view_, level(name), by_, has, rules_, used).find();
    }
    static void expect(const std::optional<Surplus>& found, Of of, int64_t amount, int of_cpu) {
        ASSERT_TRUE(found);
        EXPECT_EQ(found->of, of);
        EXPECT_EQ(found->amount, amount);
        EXPECT_TRUE(found->group->test(cpu(of_cpu)));
    }
    Topology topo_;
    View view_;
    std::vector<int32_t> others_ = std::vector<int32_t>(8);  ///< tasks of other classes
    Cpu by_ = cpu(0);
    FairSettings rules_ = FairSettings::of(6, 1, 8, 4'000'000);
    std::optional<Machine::Used> used_;  ///< of each CPU; none: as much as its tasks can
};

TEST_F(BusyGroups, HalfOfTheTasksThatAGroupHasMore) {
    expect(find("PKG", {0, 0, 1, 1, 1, 1, 1, 1}), Of::tasks, 1, 4);
    EXPECT_FALSE(find("PKG", {0, 1, 1, 1, 2, 1, 1, 0})) << "half of one task is none";
    expect(find("PKG", {1, 0, 0, 0, 2, 1, 0, 1}, Has::none_now), Of::tasks, 2,
           4);  // the one that looks is none any more
    expect(find("PKG", {1, 0, 0, 0, 1, 1, 1, 1}, Has::tasks), Of::tasks, 1, 4);
    expect(find("MC", {0, 7, 1, 1, 0, 0, 0, 0}), Of::tasks, 3, 1);
    EXPECT_FALSE(find("MC", {0, 1, 1, 1, 0, 0, 0, 0}));
}

TEST_F(BusyGroups, OfAnotherLlcWithMoreTasksThanCpusWhatThereIsRoomFor) {
    expect(find("PKG", {0, 1, 1, 1, 2, 1, 1, 1}), Of::util, 4 * 1024 - 3 * 1000, 4);
    expect(find("PKG", {0, 3, 0, 0, 2, 1, 1, 1}, Has::none_now), Of::util, 4 * 1024 - 1000, 4);
    view_.cap.assign(8, 700);
    expect(find("PKG", {0, 1, 1, 1, 2, 1, 1, 1}), Of::tasks, 1, 4);  // none, but somebody waits there and nobody here
    EXPECT_FALSE(find("PKG", {1, 1, 1, 0, 3, 1, 1, 1}, Has::tasks));
}

TEST_F(BusyGroups, WhereBothAreFullLoadUpToTheMean) {
    used_ = Machine::Used{900, 900};
    expect(find("PKG", {0, 3, 1, 0, 5, 1, 1, 1}), Of::load, 2 * 1024, 4);
    used_.reset();
    expect(find("PKG", {2, 1, 1, 1, 5, 1, 1, 1}, Has::tasks), Of::load, 1536, 4);
    EXPECT_FALSE(find("PKG", {3, 1, 1, 1, 4, 1, 1, 1}, Has::tasks)) << "a sixth more of 117 % that are none";
    EXPECT_FALSE(find("PKG", {0, 3, 2, 1, 3, 1, 1, 1})) << "its own has as many";
    EXPECT_FALSE(find("PKG", {2, 2, 1, 1, 1, 1, 1, 1}, Has::tasks)) << "it has more";
    EXPECT_FALSE(find("PKG", {0, 4, 0, 0, 1, 1, 1, 1})) << "full, and not more";
    EXPECT_FALSE(find("PKG", {2, 1, 1, 1, 5, 1, 1, 1}, Has::tasks, {4096, 0, 0, 0, 1024, 0, 0, 0}))
        << "it has less load";
    expect(find("MC", {1, 9, 1, 1, 0, 0, 0, 0}, Has::tasks), Of::load, 2 * 1024, 1);
}

TEST_F(BusyGroups, UpToTheMeanFromOneBelowItToo) {
    expect(find("MC", {1, 2, 1, 1, 0, 0, 0, 0}, Has::tasks, {1000, 2000, 9000, 4000, 0, 0, 0, 0}), Of::load, 3000, 1);
    EXPECT_FALSE(find("MC", {1, 2, 1, 1, 0, 0, 0, 0}, Has::tasks, {2000, 2000, 9000, 4000, 0, 0, 0, 0}));
    EXPECT_FALSE(find("MC", {1, 2, 1, 1, 0, 0, 0, 0}, Has::tasks, {1000, 2000, 500, 500, 0, 0, 0, 0})) << "is the mean";
}

TEST_F(BusyGroups, WhereNumbersAreNotEvenedOutFromOneWithTwoIdleCpusLess) {
    for (Domain& d : topo_.domains) d.prefer_sibling = false;
    topo_.finish();
    expect(find("PKG", {0, 0, 0, 1, 2, 1, 0, 1}), Of::tasks, 1, 4);
    EXPECT_FALSE(find("PKG", {0, 0, 0, 1, 2, 1, 0, 1}, Has::none_now)) << "it is not idle yet";
    expect(find("PKG", {1, 0, 0, 0, 2, 1, 0, 1}, Has::none_now), Of::tasks, 1, 4);
    EXPECT_FALSE(find("PKG", {1, 0, 0, 0, 2, 1, 0, 1}, Has::tasks)) << "an idle one may";
    EXPECT_FALSE(find("PKG", {0, 0, 1, 1, 2, 1, 0, 1}));
    EXPECT_FALSE(find("PKG", {0, 0, 0, 0, 1, 0, 0, 0})) << "nobody waits there";
}

TEST_F(BusyGroups, WhereCpusWereHardlyUsedThereIsRoomWhoeverWaits) {
    const std::vector<int32_t> more{0, 1, 1, 1, 3, 1, 1, 1}, full{1, 1, 1, 1, 4, 1, 1, 1};
    used_ = Machine::Used{100, 100};
    expect(find("PKG", more), Of::tasks, 1, 4);
    expect(find("PKG", full, Has::tasks), Of::tasks, 1, 4);
    expect(find("PKG", {1, 1, 1, 1, 6, 1, 1, 1}, Has::tasks), Of::tasks, 2, 4);
    for (const Machine::Used& much :
         {Machine::Used{900, 900}, Machine::Used{100, 1300}}) {  // of 1024 / 1.17 and 1024 * 1.17
        used_ = much;
        expect(find("PKG", more), Of::util, 4 * 1024 - 4 * much.util, 4);
        expect(find("PKG", full, Has::tasks, {0, 0, 0, 0, 8192, 0, 0, 0}), Of::load, 4096, 4);
    }
    used_ = Machine::Used{900, 900};
    EXPECT_FALSE(find("PKG", {0, 1, 1, 1, 1, 1, 1, 1}, Has::tasks)) << "full is not overloaded";
}

TEST_F(BusyGroups, WhoSleepsOnARunQueueCountsAndIsMovedOrNot) {
    view_.delayed[4] = 1;
    for (int minor : {12, 14}) {
        rules_ = FairSettings::of(6, minor, 8, 4'000'000);
        expect(find("PKG", {0, 1, 1, 1, 2, 1, 1, 1}), Of::util, 4 * 1024 - 3 * 1000, 4);
    }
}

TEST_F(BusyGroups, WhereAllSleepThereIsNobodyToTake) {
    view_.delayed[4] = view_.delayed[5] = 1;
    for (int minor : {12, 14}) {
        rules_ = FairSettings::of(6, minor, 8, 4'000'000);
        EXPECT_EQ(find("PKG", {0, 0, 0, 0, 1, 1, 0, 0}).has_value(), minor == 12);
    }
}

TEST_F(BusyGroups, TasksOfOtherClassesCountAndAreNotMoved) {
    others_ = {0, 0, 0, 0, 1, 1, 0, 0};
    EXPECT_FALSE(find("PKG", {0, 0, 0, 0, 1, 1, 0, 0})) << "nobody to take";
    expect(find("PKG", {0, 0, 0, 0, 2, 1, 0, 0}), Of::tasks, 1, 4);
    for (Domain& d : topo_.domains) d.prefer_sibling = false;
    topo_.finish();
    EXPECT_FALSE(find("PKG", {0, 0, 0, 0, 2, 1, 0, 0})) << "the only fair one runs or will";
    others_ = {};
    others_.resize(8);
    expect(find("PKG", {0, 0, 0, 0, 2, 1, 0, 0}), Of::tasks, 1, 4);
}

TEST_F(BusyGroups, FromSixSixOnOnlyIdleCpusEvenOutAndByCores) {
    rules_ = FairSettings::of(6, 6, 8, 4'000'000);
    EXPECT_FALSE(find("PKG", {1, 0, 0, 0, 1, 1, 1, 1}, Has::tasks));
    expect(find("PKG", {1, 0, 0, 0, 1, 1, 1, 1}), Of::tasks, 1, 4);
    topo_.smt.clear();
    for (int c = 0; c < 8; ++c) topo_.smt.push_back(c < 4 ? test::cpus({c & ~1, c | 1}) : test::cpus({c}));
    topo_.finish();
    EXPECT_FALSE(find("PKG", {0, 0, 0, 0, 1, 0, 0, 0}));
    expect(find("PKG", {0, 0, 0, 0, 1, 1, 0, 0}), Of::tasks, 1, 4);
    expect(find("PKG", {1, 0, 0, 0, 1, 1, 1, 1}), Of::tasks, 1, 4);
    EXPECT_FALSE(find("PKG", {0, 1, 1, 0, 1, 1, 1, 1}));
}

TEST_F(BusyGroups, OfEqualOnesTheFirstAfterItsOwn) {
    for (const int nr : {2, 3}) {
        expect(find("MC", {0, nr, nr, nr, 0, 0, 0, 0}), Of::tasks, nr / 2, 1);
        by_ = cpu(1);
        expect(find("MC", {nr, 0, nr, nr, 0, 0, 0, 0}), Of::tasks, nr / 2, 2);
        by_ = cpu(2);
        expect(find("MC", {nr, 1, 0, 1, 0, 0, 0, 0}), Of::tasks, nr / 2, 0);
        expect(find("MC", {nr, nr, 0, 1, 0, 0, 0, 0}), Of::tasks, nr / 2, 0);
        by_ = cpu(0);
    }
}

TEST_F(BusyGroups, OfFullOnesTheFirstAndFromSixFiveOnTheLast) {
    topo_ = test::machine(8, false, 2);
    topo_.finish();
    used_ = Machine::Used{900, 900};
    for (const auto& [minor, from] : {std::pair{1, 2}, {4, 2}, {5, 6}, {6, 6}}) {
        rules_ = FairSettings::of(6, minor, 8, 4'000'000);
        expect(find("PKG", {0, 0, 1, 1, 1, 1, 1, 1}), Of::tasks, 1, from);
    }
    topo_ = test::machine(8, true);  // of cores still the first
    topo_.finish();
    expect(find("MC", {0, 1, 1, 1, 0, 1, 1, 1}), Of::tasks, 1, 1);
}

TEST_F(BusyGroups, FromSixSixOnAnIdleCpuTakesOneOfTwoThatShareACore) {
    topo_ = test::machine(8, true);
    topo_.finish();
    used_ = Machine::Used{100, 100};
    expect(find("MC", {0, 3, 0, 0, 0, 1, 0, 0}), Of::tasks, 2, 1);
    rules_ = FairSettings::of(6, 6, 8, 4'000'000);
    expect(find("MC", {0, 3, 0, 0, 0, 1, 0, 0}), Of::tasks, 1, 1);
    expect(find("MC", {0, 1, 2, 0, 0, 0, 0, 0}), Of::tasks, 1, 2);
    EXPECT_FALSE(find("MC", {1, 3, 0, 0, 0, 1, 0, 0}, Has::tasks));
    for (Domain& d : topo_.domains) d.prefer_sibling = false;
    for (const int16_t c : {0, 4}) topo_.smt[static_cast<size_t>(c)] = test::cpus({c});
    std::erase_if(topo_.domains, [](const Domain& d) { return d.name == "SMT" && d.span.test(cpu(0)); });
    topo_.finish();
    expect(find("MC", {0, 1, 0, 0, 1, 1, 0, 0}), Of::tasks, 1, 1);
    rules_ = FairSettings::of(6, 1, 8, 4'000'000);
    EXPECT_FALSE(find("MC", {0, 1, 0, 0, 1, 1, 0, 0})) << "one idle CPU more";
}

TEST_F(BusyGroups, OfSeveralTheOneThatHasMost) {
    expect(find("MC", {0, 2, 3, 2, 0, 0, 0, 0}, Has::none, {0, 9, 8, 7, 0, 0, 0, 0}), Of::tasks, 1,
           1);  // the most load
    expect(find("MC", {2, 2, 3, 2, 0, 0, 0, 0}, Has::tasks, {0, 9000, 8000, 7000, 0, 0, 0, 0}), Of::load, 3000, 1);
    expect(find("MC", {0, 1, 2, 0, 0, 0, 0, 0}), Of::tasks, 1, 2);
}

}  // namespace
}  // namespace rewake::closed
