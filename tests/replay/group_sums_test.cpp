// SPDX-License-Identifier: GPL-2.0-or-later
// Sums that policies share come to what each would have added up.
#include "replay/policies/group_sums.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/replay/policies_machine.hpp"

namespace rewake::test {
namespace {

TEST(GroupSums, AreWorkedOutOnceAGroupAndRule) {
    GroupSumCache cache;
    std::vector<CpuMask> groups(300);  // more than there is room for
    int made = 0;
    auto get = [&](size_t g, uint8_t rule) {
        return cache
            .get(groups[g], rule, [&] { return ++made, GroupSums{.load = static_cast<int64_t>(g * 100 + rule)}; })
            .load;
    };
    EXPECT_EQ(get(3, 1), 301);
    EXPECT_EQ(get(3, 1), 301);
    EXPECT_EQ(made, 1);
    EXPECT_EQ(get(3, 2), 302);
    EXPECT_EQ(made, 2);
    cache.forget();
    EXPECT_EQ(get(3, 1), 301);
    EXPECT_EQ(made, 3);
    for (size_t g = 0; g < groups.size(); ++g) EXPECT_EQ(get(g, 7), static_cast<int64_t>(g * 100 + 7));
    for (size_t g = 0; g < groups.size(); ++g) EXPECT_EQ(get(g, 7), static_cast<int64_t>(g * 100 + 7));
}

TEST(GroupSums, ForksGoWhereTheyWentAlone) {
    Topology t = machine(32, false, 8);
    t.finish();
    std::mt19937 random(3);
    const auto n = static_cast<size_t>(t.n_cpus);
    for (int round = 0; round < 200; ++round) {
        Scene scene(t, {}, static_cast<int>(random() % 32), static_cast<int>(random() % 32));
        SlowInputs slow;
        auto draw = [&](auto& column, unsigned most) {
            column.assign(n, 0);
            for (auto& x : column) x = static_cast<std::decay_t<decltype(x)>>(random() % most);
        };
        draw(slow.blocked_load, 3000), draw(slow.util, 1024), draw(slow.util_est, 1024), draw(slow.runnable, 3000);
        draw(slow.exit_latency, 3), draw(slow.idle_stamp, 100);
        draw(scene.v.load, 3000), draw(scene.v.nr, 3);
        for (int c = 0; c < t.n_cpus; ++c) {
            scene.v.idle.assign(cpu(c), scene.v.nr[static_cast<size_t>(c)] == 0);
            if (random() % 8 == 0) scene.allowed.clear(cpu(c));
        }
        if (!scene.allowed.any()) continue;
        scene.v.avail = scene.v.idle;
        scene.v.slow = &slow;
        scene.w.allowed = &scene.allowed;
        scene.w.n_allowed = scene.allowed.count();
        scene.w.kind = round % 4 ? Kind::fork : Kind::exec;
        GroupSumCache cache;
        for (const PolicyInfo& info : all_policies()) {
            if (info.reads_irq) continue;
            auto decide = [&](GroupSumCache* sums) {
                scene.w.sums = sums;
                return make_policy(info.name, {}, t, 0)->decide(scene.v, scene.w, nullptr, scene.w.prev).cpu;
            };
            ASSERT_EQ(decide(&cache), decide(nullptr)) << info.name << " " << round;
        }
    }
}

}  // namespace
}  // namespace rewake::test
