// SPDX-License-Identifier: GPL-2.0-or-later
// CPUs that turn idle or busy while a placement looks at one after the other.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/replay/policies_machine.hpp"

namespace rewake::test {
namespace {

TEST(Looks, TellWhetherACpuWasIdleThen) {
    Turns turns;
    EXPECT_FALSE(turns.any());
    turns.since = {{cpu(3), 100, true}, {cpu(4), 110, false}, {cpu(3), 120, false}};
    EXPECT_TRUE(turns.any());
    EXPECT_FALSE(turns.idle(cpu(3), 99)) << "what it was before the first turn";
    EXPECT_TRUE(turns.idle(cpu(3), 100));
    EXPECT_TRUE(turns.idle(cpu(3), 119));
    EXPECT_FALSE(turns.idle(cpu(3), 500));
    EXPECT_TRUE(turns.idle(cpu(4), 0));
    turns.forget(cpu(3));
    ASSERT_EQ(turns.since.size(), 1u);
    EXPECT_EQ(turns.since[0].cpu, cpu(4));
}

/// What a wakeup on CPU 0, which is busy, comes to that looks from `from` on, 10 ns later at each CPU.
int chosen(const char* policy, std::initializer_list<int> idle, std::vector<Turns::Turn> turns, Ns from) {
    static const Topology t = [] {
        Topology made = machine(8);
        made.finish();
        return made;
    }();
    Scene x(t, idle, 0, 0);
    x.v.turns = {.since = std::move(turns), .from = from, .step = 10};
    return make_policy(policy, {}, t, 0)->decide(x.v, x.w, nullptr, x.w.prev).cpu.v;
}

TEST(Looks, ASearchTakesACpuThatIsIdleWhenItComesToIt) {
    for (const char* policy : {"linux-6.1", "linux-6.12", "linux-7.2"}) {
        const std::vector<Turns::Turn> wakes{{cpu(3), 100, true}}, sleeps{{cpu(3), 100, false}};
        EXPECT_EQ(chosen(policy, {3, 5}, {}, 0), 3) << policy;
        EXPECT_EQ(chosen(policy, {3, 5}, wakes, 69), 5) << policy << ": the third CPU, 30 ns later";
        EXPECT_EQ(chosen(policy, {3, 5}, wakes, 70), 3) << policy;
        EXPECT_EQ(chosen(policy, {5}, sleeps, 69), 3) << policy << ": it was idle then";
        EXPECT_EQ(chosen(policy, {5}, sleeps, 70), 5) << policy;
    }
}

TEST(Looks, TheFirstLookIsAtPrev) {
    EXPECT_EQ(chosen("linux-6.1", {0, 3}, {{cpu(0), 100, true}}, 99), 3);
    EXPECT_EQ(chosen("linux-6.1", {0, 3}, {{cpu(0), 100, true}}, 100), 0);
}

TEST(Looks, WakeAffineComesBeforeTheSearch) {
    Topology t = machine(8, false, 4);
    t.finish();
    for (const auto& [from, chosen] :
         {std::pair{99, 4}, std::pair{100, 2}}) {  // prev 4 of the other LLC is busy from 100 on
        Scene x(t, {2}, 0, 4);
        x.v.load[4] = 4096;  // more than at the waker's
        x.v.turns = {.since = {{cpu(4), 100, false}}, .from = from, .step = 10};
        EXPECT_EQ(make_policy("linux-6.1", {}, t, 0)->decide(x.v, x.w, nullptr, x.w.prev).cpu.v, chosen) << from;
    }
}

TEST(Looks, ACapacityScanTakesACpuThatIsIdleWhenItComesToIt) {
    Topology t = machine(8);
    t.cap_orig = {446, 446, 446, 446, 1024, 1024, 1024, 1024};
    t.finish();
    for (const char* policy : {"linux-6.1", "linux-7.2"})
        for (const auto& [from, chosen] : {std::pair{59, 5}, std::pair{60, 3}}) {  // from CPU 0: CPU 3 is the fourth
            Scene x(t, {3, 5}, 0, 0);
            x.v.turns = {.since = {{cpu(3), 100, true}}, .from = from, .step = 10};
            EXPECT_EQ(make_policy(policy, {}, t, 0)->decide(x.v, x.w, nullptr, x.w.prev).cpu.v, chosen)
                << policy << from;
        }
}

}  // namespace
}  // namespace rewake::test
