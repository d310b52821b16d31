// SPDX-License-Identifier: GPL-2.0-or-later
// What conformance vectors do not say about policies: parameters, reference policies, and what a decision reports about
// itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

#include "replay/policies/composed.hpp"
#include "replay/policies/steps/capacity.hpp"
#include "replay/policies/steps/wakee.hpp"
#include "tests/replay/policies_machine.hpp"

namespace rewake::test {
namespace {

Topology finished(Topology t) {
    t.finish();
    return t;
}

std::string message(auto f) {
    try {
        f();
    } catch (const std::invalid_argument& e) {
        return e.what();
    }
    return "no error";
}

TEST(WakeWide, Golden) {
    std::ifstream file("tests/replay/golden_policies.txt");
    ASSERT_TRUE(file) << "run from the top of the source tree";
    int rows = 0;
    for (std::string line, section; std::getline(file, line);) {
        if (line.starts_with("[")) section = line;
        if (!section.starts_with("[wake_wide]") || !line.starts_with("F")) continue;
        std::replace(line.begin(), line.end(), '|', ' ');
        std::istringstream cells(line);
        std::string id;
        uint32_t a = 0, b = 0;
        int llc_size = 0;
        bool wide = false;
        cells >> id >> a >> b >> llc_size >> wide;
        EXPECT_EQ(wake_wide(a, b, llc_size), wide) << id;
        EXPECT_EQ(wake_wide(b, a, llc_size), wide) << id;
        ++rows;
    }
    EXPECT_EQ(rows, 4);
}

TEST(Capacity, FitBoundary) {  // policies.md A10: on capacity 446, 356 fits and 357 does not
    Topology t = machine(2);
    t.cap_orig = {446, 1024};
    t.finish();
    Scene s(t, {0}, 1, 0);
    PolicyState state;
    Decision d;
    Ctx x{.v = s.v, .w = s.w, .t = t, .s = state, .dirty = nullptr, .idle = s.v.avail, .soft = s.v.sidle, .d = d};
    s.w.p_util_est = 356;
    EXPECT_EQ(util_fits_cpu(x, cpu(0)), 1);
    s.w.p_util = 357;
    EXPECT_EQ(util_fits_cpu(x, cpu(0)), 0);
    EXPECT_EQ(x.d.looked, kUtil | kCapacity);
}

TEST(Linux72, AMissedIdleCoreIsForgottenOnAsymmetricMachinesToo) {  // X5, cores {0, 4} to {3, 7}
    Topology t = machine(8, true);
    t.cap_orig = {512, 1024, 1024, 1024, 512, 1024, 1024, 1024};
    t.finish();
    auto policy = make_policy("linux-7.2", {}, t, 0);
    auto& composed = dynamic_cast<Composed&>(*policy);
    auto left = [&](std::initializer_list<int> idle, const CpuMask& allowed) {
        Scene s(t, idle, 1, 1);
        s.allow(allowed);
        s.w.p_util = 300;
        composed.state.hic[0] = 1;
        const int cpu = composed.select_idle_sibling(s.v, s.w, test::cpu(1)).cpu.v;
        return std::pair{cpu, static_cast<int>(composed.state.hic[0])};
    };
    EXPECT_EQ(left({2, 6}, t.online), (std::pair{2, 1})) << "a whole core";
    EXPECT_EQ(left({2}, t.online), (std::pair{2, 0})) << "a thread";
    EXPECT_EQ(left({}, t.online), (std::pair{1, 0})) << "nothing";
    EXPECT_EQ(left({5}, cpus({0, 1, 2, 3})), (std::pair{1, 0})) << "nothing, beside a target whose sibling is idle";
}

TEST(Linux72, TheSearchOfAnAsymmetricDomainOfSeveralLlcsIsBoundedByAllOfThem) {
    Topology t = machine(8, false, 4);
    t.cap_orig = {462, 462, 462, 462, 1024, 1024, 1024, 1024};
    t.finish();
    auto policy = make_policy("linux-7.2", {}, t, 0);
    auto& composed = dynamic_cast<Composed&>(*policy);
    Scene s(t, {1, 6}, 0, 0);
    s.w.p_util = 700;
    auto found = [&](int of_little, int of_big) {
        s.v.nr_idle_scan = {of_little, of_big};
        return composed.select_idle_sibling(s.v, s.w, cpu(0)).cpu.v;
    };
    EXPECT_EQ(found(4, 4), 6) << "the first that it fits";
    EXPECT_EQ(found(4, 3), 6) << "it is the seventh";
    EXPECT_EQ(found(4, 2), 1) << "until then it is the best";
    EXPECT_EQ(found(0, 0), 0);
}

TEST(Linux72, AnIdleCoreOfAnyLlcIsOneOfItsAsymmetricDomain) {  // cores {0, 4} to {3, 7}
    Topology t = machine(8);
    t.domains.clear();
    for (int c = 0; c < 8; ++c) t.smt.push_back(cpus({c % 4, c % 4 + 4}));
    t.llc_id = {0, 0, 2, 2, 0, 0, 2, 2};
    for (const CpuMask& span : {t.online, cpus({0, 1, 4, 5}), cpus({2, 3, 6, 7})})
        t.domains.emplace_back().span = span, t.domains.back().share_llc = !(span == t.online);
    for (int c = 0; c < 4; ++c) t.domains.emplace_back().span = t.smt[c], t.domains.back().share_llc = true;
    t.cap_orig = {512, 512, 1024, 1024, 512, 512, 1024, 1024};
    t.finish();
    auto policy = make_policy("linux-7.2", {}, t, 0);
    auto& composed = dynamic_cast<Composed&>(*policy);
    Scene s(t, {2, 3, 7}, 0, 0);
    s.w.p_util = 100;
    for (const auto& [hic, found] : {std::pair{1, 3}, {0, 2}}) {
        composed.state.hic = {0, static_cast<uint8_t>(hic)};
        EXPECT_EQ(composed.select_idle_sibling(s.v, s.w, cpu(0)).cpu, cpu(found));
    }
    Scene none(t, {2}, 0, 0);
    composed.state.hic = {0, 1};
    composed.select_idle_sibling(none.v, none.w, cpu(0));
    EXPECT_EQ(composed.state.hic, (std::vector<uint8_t>{0, 0}));
}

TEST(Linux61, ReportsWhatItLookedAt) {
    const Topology t = finished(machine(8));
    const auto p = make_policy("linux-6.1", {}, t, 0);
    Scene s(t, {3, 6}, 0, 0);
    Decision d = s.decide(*p);
    EXPECT_EQ(d.cpu, cpu(3));
    EXPECT_EQ(d.branch, Branch::scan);
    EXPECT_EQ(d.scanned, 3);  // 1, 2, 3
    EXPECT_TRUE(d.looked & kNrIdleScan);
    EXPECT_TRUE(d.looked & kRecent);
    EXPECT_FALSE(d.looked & (kLoad | kSync | kHasIdleCores | kUtil | kHotClock));
    for (int c = 0; c < 8; ++c) EXPECT_EQ(s.decide(*p, cpus({c})).exposed, c <= 3) << c;  // target, then 1..3

    s.v.nr_idle_scan[0] = 2;
    d = s.decide(*p);
    EXPECT_EQ(d.branch, Branch::target);
    EXPECT_EQ(d.scanned, 2);
    for (int c = 0; c < 8; ++c) EXPECT_EQ(s.decide(*p, cpus({c})).exposed, c <= 2) << c;

    Scene idle(t, {0}, 1, 0);
    EXPECT_EQ(idle.decide(*p).scanned, 0);  // WA_IDLE keeps prev, X1 takes it
    EXPECT_TRUE(idle.decide(*p, cpus({1})).exposed);  // the affine step looked at the waker's CPU
    EXPECT_FALSE(idle.decide(*p, cpus({2})).exposed);
}

TEST(Linux61, Features) {
    const Topology t = finished(machine(8));
    Scene s(t, {6}, 0, 0);
    s.v.nr_idle_scan[0] = 2;
    EXPECT_EQ(s.decide(*make_policy("linux-6.1", {}, t, 0)).cpu, cpu(0));
    EXPECT_EQ(s.decide(*make_policy("linux-6.1", {{"SIS_UTIL", "0"}}, t, 0)).cpu, cpu(6));

    Scene two(t, {}, 1, 2);  // nothing idle, prev twice as loaded
    two.v.load[2] = 4096;
    EXPECT_EQ(two.decide(*make_policy("linux-6.1", {}, t, 0)).cpu, cpu(1));
    EXPECT_EQ(two.decide(*make_policy("linux-6.1", {{"WA_WEIGHT", "0"}}, t, 0)).cpu, cpu(2));
    two.v.load = {0, 1000, 2050, 0, 0, 0, 0, 0};  // 2024 * 100 against (2050 - 1024) * 108
    EXPECT_EQ(two.decide(*make_policy("linux-6.1", {}, t, 0)).cpu, cpu(2));
    two.v.load[2] = 3074;  // p's blocked load is part of it: 202400 < 2050 * 108
    EXPECT_EQ(two.decide(*make_policy("linux-6.1", {}, t, 0)).cpu, cpu(1));
    EXPECT_EQ(two.decide(*make_policy("linux-6.1", {{"WA_BIAS", "0"}}, t, 0)).cpu, cpu(1));  // 2024 < 2050
    two.v.load[2] = 3024;
    EXPECT_EQ(two.decide(*make_policy("linux-6.1", {}, t, 0)).cpu, cpu(1));
    EXPECT_EQ(two.decide(*make_policy("linux-6.1", {{"WA_BIAS", "0"}}, t, 0)).cpu, cpu(2));

    Scene sync(t, {}, 1, 2);
    sync.w.sync = true;
    sync.w.curr_load = 0;
    EXPECT_EQ(sync.decide(*make_policy("linux-6.1", {}, t, 0)).cpu, cpu(1));  // waker alone on its CPU
    EXPECT_EQ(sync.decide(*make_policy("linux-6.1", {{"WA_IDLE", "0"}}, t, 0)).cpu, cpu(2));
    sync.w.curr_exiting = true;
    EXPECT_EQ(sync.decide(*make_policy("linux-6.1", {}, t, 0)).cpu, cpu(2));
}

TEST(Linux61, PrivateStateIsKeptPerTask) {
    const Topology t = finished(machine(8, true));
    const auto p = make_policy("linux-6.1", {}, t, 0);
    Scene s(t, {2, 6}, 0, 0);
    p->cpu_idle(s.v, cpu(6), false);
    EXPECT_EQ(p->state.hic[0], 0);
    p->cpu_idle(s.v, cpu(6), true);
    EXPECT_EQ(p->state.hic[0], 1);
    EXPECT_EQ(s.decide(*p).cpu, cpu(2));
    s.v.avail = s.v.idle = cpus({6});
    EXPECT_EQ(s.decide(*p).cpu, cpu(6));  // no whole core: the remembered thread, and the flag goes
    EXPECT_EQ(p->state.hic[0], 0);

    const TaskId child(100);
    p->fork(s.w.curr, child, cpu(5));
    EXPECT_EQ(p->state.task(child).flips, p->state.task(s.w.curr).flips);
    EXPECT_EQ(p->state.task(child).last_wakee, s.w.p);
    EXPECT_TRUE(p->state.task(child).has_recent);
    EXPECT_EQ(p->state.task(child).recent, cpu(5));
    const auto old = make_policy("linux-4.5", {}, t, 0);  // no recent_used_cpu and no has_idle_cores there
    old->fork(s.w.curr, child, cpu(5));
    old->cpu_idle(s.v, cpu(6), true);
    EXPECT_FALSE(old->state.task(child).has_recent);
    EXPECT_EQ(old->state.hic[0], 0);
}

TEST(Linux45, ReportsWhatItLookedAt) {
    const Topology t = finished(machine(8, true));
    const auto p = make_policy("linux-4.5", {}, t, 0);
    Scene s(t, {3, 6, 7}, 0, 0);
    const Decision d = s.decide(*p);
    EXPECT_EQ(d.cpu, cpu(3));
    EXPECT_EQ(d.branch, Branch::ring);
    EXPECT_EQ(d.scanned, 5);  // leaders 0, 1, 2, 3 and then 7
    EXPECT_TRUE(s.decide(*p, cpus({7})).exposed);
    EXPECT_FALSE(s.decide(*p, cpus({5})).exposed);  // the sibling of a busy leader is not looked at
    EXPECT_FALSE(d.looked & (kLoad | kNrIdleScan | kRecent));
}

TEST(Linux59, ReportsWhatItLookedAt) {
    const Topology t = finished(machine(8));
    const auto p = make_policy("linux-5.9", {}, t, 0);
    Scene s(t, {6}, 2, 2);
    s.v.avg_idle[2] = 25'600'000;  // far more than a scan costs
    Decision d = s.decide(*p);
    EXPECT_EQ(d.cpu, cpu(6));
    EXPECT_EQ(d.branch, Branch::cpu);
    EXPECT_EQ(d.scanned, 5);  // 2..6
    EXPECT_EQ(p->state.scan_cost[2], (200 + 5 * 50) / 8);
    EXPECT_EQ(p->state.scan_cost[6], 0) << "other CPUs of the LLC have their own";
    EXPECT_TRUE(d.looked & kNrIdleScan);
    for (int c = 0; c < 8; ++c) EXPECT_EQ(s.decide(*p, cpus({c})).exposed, c >= 2 && c <= 6) << c;
    s.v.avg_idle[2] = 0;  // three CPUs
    d = s.decide(*p);
    EXPECT_EQ(d.branch, Branch::target);
    EXPECT_EQ(d.scanned, 3);
    EXPECT_TRUE(s.decide(*p, cpus({4})).exposed);
    EXPECT_FALSE(s.decide(*p, cpus({5})).exposed);
    EXPECT_EQ(s.decide(*make_policy("linux-5.9", {{"SIS_PROP", "0"}}, t, 0)).cpu, cpu(6));
}

TEST(Linux38, ForksGoToTheLightestGroup) {
    const Topology t = finished(machine(8, false, 4));
    const auto p = make_policy("linux-3.8", {}, t, 0);
    Scene s(t, {}, 1, 1);
    s.w.kind = Kind::fork;
    s.v.load = {2048, 2048, 2048, 2048, 1024, 1024, 512, 1024};
    const Decision d = s.decide(*p);
    EXPECT_EQ(d.cpu, cpu(6));
    EXPECT_EQ(d.branch, Branch::slow);
    EXPECT_TRUE(d.looked & kLoad);
    EXPECT_FALSE(d.looked & kFlips);
    EXPECT_TRUE(s.decide(*p, cpus({7})).exposed);
    s.allow(cpus({0, 1, 2, 3}));
    EXPECT_EQ(s.decide(*p).cpu, cpu(1)) << "of equal loads the searching CPU's";
    s.allow(cpus({5}));
    s.w.kind = Kind::exec;  // the class keeps prev, and nobody checks it
    EXPECT_EQ(s.decide(*p).cpu, cpu(1));
}

TEST(WakeupBuddy, ForkCopiesTheParentsBuddies) {
    const Topology t = finished(machine(8));
    const auto p = make_policy("wakeup-buddy", {}, t, 0);
    Scene s(t, {3}, 0, 0);
    for (int i = 0; i < 3; ++i) s.decide(*p);
    const TaskId child(100);
    p->fork(s.w.curr, child, cpu(5));
    EXPECT_EQ(p->state.buddy(child).wakee, s.w.p);
    EXPECT_EQ(p->state.buddy(child).wakee_ref, 2u);
    EXPECT_EQ(p->state.buddy(child).waker, PolicyState::Buddy::kNobody);
    EXPECT_NE(message([&] { make_policy("wakeup-buddy", {{"ref", "0"}}, t, 0); }), "no error");
    EXPECT_NE(message([&] { make_policy("userspace-hints", {{"hint", "12"}}, t, 0); }), "no error");
}

TEST(IdleThreadScan, HotClock) {  // H3: p's CPU, in another LLC, had its last event when p blocked
    const Topology t = finished(machine(8, false, 4));
    Scene s(t, {}, 1, 5);
    s.w.sync = true;  // its load is 0 without curr: pulled to the waker's CPU, away from p's LLC
    s.w.p_exec_start = 10'000'000;
    s.v.clock_task[5] = 10'000'000;
    s.v.now = 50'000'000;
    const auto stale = make_policy("idle-thread-scan", {}, t, 0),
               now = make_policy("idle-thread-scan", {{"hot_clock", "now"}}, t, 0);
    // Without SMT the ring finds every idle CPU first: what differs is whether the linear scan is made at all.
    EXPECT_EQ(s.decide(*stale).scanned, 4);
    EXPECT_EQ(s.decide(*now).scanned, 8);
    EXPECT_EQ(s.decide(*make_policy("idle-thread-scan", {{"migration_cost", "0"}}, t, 0)).scanned, 8);
    EXPECT_EQ(
        s.decide(*make_policy("idle-thread-scan", {{"hot_clock", "now"}, {"migration_cost", "-1"}}, t, 0)).scanned, 4);
    EXPECT_TRUE(s.decide(*stale).looked & kHotClock);
    s.v.cfs_nr[1] = 2;
    EXPECT_EQ(s.decide(*now).scanned, 4);
    EXPECT_FALSE(s.decide(*now).looked & kHotClock);
}

TEST(Reference, OracleIdleTakesTheNearest) {
    Topology t = machine(16, true, 8);
    t.smt.clear();
    t.domains.erase(t.domains.begin() + 3, t.domains.end());  // LLCs 0-7 and 8-15 only; cores of neighbours
    for (int c = 0; c < 16; ++c) t.smt.push_back(cpus({c & ~1, c | 1}));
    t.node.assign(16, 0);
    for (size_t c = 12; c < 16; ++c) t.node[c] = 1;
    t.finish();
    const auto p = make_policy("oracle-idle", {}, t, 0);
    auto pick = [&](std::initializer_list<int> idle, CpuMask allowed) {
        Scene s(t, idle, 0, 8);
        s.allow(allowed);
        return s.decide(*p);
    };
    const CpuMask all = t.online;
    EXPECT_EQ(pick({1, 5, 8, 9, 12}, all).cpu, cpu(8));
    EXPECT_EQ(pick({1, 5, 9, 12}, all).cpu, cpu(9));
    EXPECT_EQ(pick({1, 5, 12, 14}, all).cpu, cpu(12));  // same LLC before same node
    EXPECT_EQ(pick({5, 1}, all).cpu, cpu(1));
    EXPECT_EQ(pick({1, 5}, cpus({5, 8})).cpu, cpu(5));
    EXPECT_EQ(pick({1, 5}, cpus({4, 8})).cpu, cpu(8));
    EXPECT_EQ(pick({1, 5}, cpus({4, 8})).branch, Branch::prev);
    EXPECT_EQ(pick({1, 5}, all).branch, Branch::oracle_idle);
}

TEST(Reference, RandomIdleIsUniformAndRepeatable) {
    const Topology t = finished(machine(130));
    Scene s(t, {0, 3, 63, 64, 127, 129}, 1, 2);
    s.allow(cpus({2, 3, 63, 64, 129}));
    const auto a = make_policy("random-idle", {}, t, 7), b = make_policy("random-idle", {}, t, 7),
               c = make_policy("random-idle", {}, t, 8);
    std::map<int, int> seen;
    int differs = 0;
    for (int i = 0; i < 4000; ++i) {
        const Decision d = s.decide(*a);
        EXPECT_EQ(d.cpu, s.decide(*b).cpu);
        differs += s.decide(*c).cpu != d.cpu;
        ++seen[d.cpu.v];
    }
    ASSERT_EQ(seen.size(), 4u);
    for (int expected : {3, 63, 64, 129}) EXPECT_NEAR(seen[expected], 1000, 120) << expected;
    EXPECT_GT(differs, 2500);
    Scene busy(t, {0}, 1, 2);
    busy.allow(cpus({2, 3}));
    EXPECT_EQ(busy.decide(*a).cpu, cpu(2));
    EXPECT_EQ(busy.decide(*a).branch, Branch::prev);
    EXPECT_TRUE(busy.decide(*a, cpus({3})).exposed);
    EXPECT_FALSE(busy.decide(*a, cpus({4})).exposed);
}

TEST(Reference, TrivialRules) {
    const Topology t = finished(machine(8));
    Scene s(t, {5}, 1, 2);
    EXPECT_EQ(s.decide(*make_policy("recorded", {}, t, 0), {}, 6).cpu, cpu(6));
    EXPECT_EQ(s.decide(*make_policy("prev", {}, t, 0)).cpu, cpu(2));
    EXPECT_EQ(s.decide(*make_policy("waker", {}, t, 0)).cpu, cpu(1));
    s.allow(cpus({2, 3}));
    EXPECT_EQ(s.decide(*make_policy("waker", {}, t, 0)).cpu, cpu(2));
}

TEST(Registry, RefusesWhatItDoesNotKnow) {
    const Topology t = finished(machine(4));
    auto error = [&](const char* name, PolicyParams params) {
        return message([&] { make_policy(name, params, t, 0); });
    };
    EXPECT_EQ(
        error("linux-9", {}),
        "no policy 'linux-9'; there are recorded, prev, waker, random-idle, oracle-idle, linux-3.8, linux-3.10, "
        "linux-4.5, linux-4.12, linux-4.12.3, linux-4.19, linux-5.4, linux-5.9, linux-5.10, linux-5.15, linux-6.0, "
        "linux-6.1, linux-6.8, linux-6.12, linux-7.2, idle-thread-scan, "
        "wakeup-buddy, irq-aware, asym-prefer-prev, userspace-hints");
    EXPECT_EQ(error("prev", {{"x", "1"}}), "prev has no parameter 'x'; it has none");
    EXPECT_EQ(error("idle-thread-scan", {{"hot", "1"}}),
              "idle-thread-scan has no parameter 'hot'; it has wake_wide_factor, imbalance_pct_smt, imbalance_pct_llc, "
              "imbalance_pct_pkg, migration_cost, hot_clock, cfs_nr");
    EXPECT_EQ(error("idle-thread-scan", {{"hot_clock", "soon"}}), "hot_clock=soon: stale or now expected");
    EXPECT_NE(error("idle-thread-scan", {{"migration_cost", "1ms"}}), "no error");
    EXPECT_EQ(error("linux-6.1", {{"SIS_UTIL", "yes"}}), "SIS_UTIL=yes: 0 or 1 expected");
}

}  // namespace
}  // namespace rewake::test
