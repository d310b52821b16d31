// SPDX-License-Identifier: GPL-2.0-or-later
// Masks against a naive walk, and what Topology::finish derives and refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "replay/model/rows.hpp"
#include "tests/replay/policies_machine.hpp"

namespace rewake::test {
namespace {

TEST(Mask, WrapAgainstNaiveWalk) {
    std::mt19937 random(1);
    for (int round = 0; round < 3000; ++round) {
        const int words = 1 + static_cast<int>(random() % 4), n = words * 64;
        CpuMask m;
        for (int k = static_cast<int>(random() % 9); k > 0; --k) m.set(cpu(static_cast<int>(random() % n)));
        const auto start = static_cast<unsigned>(random() % static_cast<unsigned>(n + 1));
        const Cpu stop = cpu(static_cast<int>(random() % n));
        auto word = [&](unsigned i) { return m.w[i]; };
        std::vector<int> order, all;
        int until_stop = 0;
        bool passed = false;
        for (int k = 0; k < n; ++k) {
            const int c = (static_cast<int>(start) % n + k) % n;
            if (m.test(cpu(c))) order.push_back(c);
            if (!passed && m.test(cpu(c))) ++until_stop;
            passed |= c == stop.v;
        }
        const auto first = first_in_wrap(words, start, word);
        ASSERT_EQ(first ? first->v : -1, order.empty() ? -1 : order[0]);
        for_each_in_wrap(words, start, word, [&](Cpu c) { return all.push_back(c.v), false; });
        ASSERT_EQ(all, order);
        ASSERT_EQ(count_in_wrap(words, start, stop, word), until_stop) << start << " " << stop.v;
        ASSERT_EQ(any_in_wrap(words, start, stop, word), until_stop > 0);
        ASSERT_EQ(m.count(), static_cast<int>(order.size()));
    }
}

TEST(Mask, WordsOfASpanAreEnough) {
    std::mt19937 random(2);
    for (int round = 0; round < 3000; ++round) {
        CpuMask m;
        const int low = static_cast<int>(random() % 400), wide = 1 + static_cast<int>(random() % 200);
        for (int k = static_cast<int>(random() % 40); k > 0; --k) m.set(cpu(low + static_cast<int>(random() % wide)));
        const Words words = words_of(m);
        if (!m.any()) {
            ASSERT_EQ(words.from, words.to);
            continue;
        }
        const auto start = static_cast<unsigned>(random() % 640);
        const Cpu stop = cpu(words.from * 64 + static_cast<int>(random() % ((words.to - words.from) * 64)));
        auto word = [&](unsigned i) { return words.has(i) ? m.w[i] : ~uint64_t{0}; };  // no other word is read
        auto all = [&](unsigned i) { return m.w[i]; };
        std::vector<int> here, there, runs;
        for_each_in_wrap(words, start, word, [&](Cpu c) { return here.push_back(c.v), false; });
        for_each_in_wrap(kMaskWords, start, all, [&](Cpu c) { return there.push_back(c.v), false; });
        ASSERT_EQ(here, there);
        ASSERT_EQ(first_in_wrap(words, start, word), first_in_wrap(kMaskWords, start, all));
        ASSERT_EQ(count_in_wrap(words, start, stop, word), count_in_wrap(kMaskWords, start, stop, all));
        ASSERT_EQ(count_all(words, word), m.count());
        for_each_run(words, word, [&](size_t first, size_t n) {
            ASSERT_FALSE(first > 0 && first % 64 && m.test(cpu(static_cast<int>(first) - 1)));
            for (size_t c = first; c < first + n; ++c) runs.push_back(static_cast<int>(c));
        });
        std::sort(there.begin(), there.end());
        ASSERT_EQ(runs, there);
        LocalMask local(words, word);
        ASSERT_FALSE(local.test(cpu(639)));
        local.clear(cpu(639));  // outside: nothing
        local.clear(cpu(there[0]));
        for (int c = 0; c < 640; ++c) ASSERT_EQ(local.test(cpu(c)), c != there[0] && m.test(cpu(c)));
    }
}

TEST(Topology, DerivesStacksGroupsAndCaches) {
    Topology t = machine(16, true, 0);
    t.finish();
    EXPECT_TRUE(t.smt_active);
    EXPECT_FALSE(t.asym);
    EXPECT_EQ(t.domains.front().name, "SMT");  // children first
    ASSERT_EQ(t.stack[11].size(), 2u);
    const Domain& mc = t.domains[static_cast<size_t>(t.stack[11][1])];
    EXPECT_EQ(mc.weight, 16);
    ASSERT_EQ(mc.groups.size(), 8u);
    EXPECT_EQ(mc.groups[3], cpus({3, 11}));
    EXPECT_EQ(mc.leaders, first_cpus(8));
    EXPECT_EQ(t.llc_level[11], 1);
    EXPECT_EQ(t.core[11], 3);
    EXPECT_EQ(t.siblings(cpu(11)).size(), 2u);
    EXPECT_EQ(t.llc_size(cpu(5)), 16);
    EXPECT_EQ(t.asym_domain[0], Topology::kNone);
}

TEST(Topology, FindsTheAsymmetricDomain) {
    Topology t = machine(8, false, 4);
    t.cap_orig = {446, 446, 446, 446, 1024, 1024, 1024, 1024};
    t.finish();
    EXPECT_TRUE(t.asym);
    EXPECT_EQ(t.domains[static_cast<size_t>(t.asym_domain[0])].name, "PKG");
}

TEST(Topology, CapacitiesDifferWithinARootDomain) {
    Topology t;  // exclusive cpusets: nothing spans both MC levels
    t.n_cpus = 8;
    t.online = first_cpus(8);
    t.has_llc_domain.assign(8, true);
    t.llc_id = {0, 0, 0, 0, 0, 0, 6, 6};
    for (const CpuMask& span : {first_cpus(6), cpus({6, 7})}) {
        Domain& d = t.domains.emplace_back();
        d.name = "MC", d.span = span, d.share_llc = true;
    }
    t.cap_orig = {446, 446, 446, 446, 760, 760, 1024, 1024};
    t.finish();
    EXPECT_TRUE(t.asym);
    ASSERT_NE(t.asym_domain[0], Topology::kNone);
    EXPECT_EQ(t.domains[static_cast<size_t>(t.asym_domain[0])].span, first_cpus(6));
    EXPECT_EQ(t.asym_domain[6], Topology::kNone);
    EXPECT_EQ(t.most_cap, (std::vector<uint16_t>{760, 760, 760, 760, 760, 760, 1024, 1024}));
    const Topology little = t.without(cpus({4, 5}));
    EXPECT_FALSE(little.asym);
    EXPECT_EQ(little.asym_domain[0], Topology::kNone);
    EXPECT_FALSE(t.without_domains().asym);
    Topology even = t;
    even.cap_orig = {446, 446, 446, 446, 446, 446, 1024, 1024};
    even.finish();
    EXPECT_FALSE(even.asym);
}

/// Cores {0, 1} and {2, 3}, and a cluster of four other CPUs.
Topology hybrid() {
    Topology t = machine(8);
    t.smt = {cpus({0, 1}), cpus({0, 1}), cpus({2, 3}), cpus({2, 3}), cpus({4}), cpus({5}), cpus({6}), cpus({7})};
    t.cluster.resize(8);
    for (int c = 4; c < 8; ++c) t.cluster[static_cast<size_t>(c)] = cpus({4, 5, 6, 7});
    t.finish();
    return t;
}

TEST(Topology, ClustersOfSomeCpus) {
    Topology t = hybrid();
    EXPECT_TRUE(t.clusters_active);
    EXPECT_FALSE(t.share_resources(cpu(0), cpu(4)));
    EXPECT_FALSE(t.share_resources(cpu(4), cpu(0)));
    EXPECT_TRUE(t.share_resources(cpu(0), cpu(3)));
    EXPECT_TRUE(t.share_resources(cpu(4), cpu(7)));
    for (int c = 0; c < 8; ++c) t.cluster[static_cast<size_t>(c)] = c < 4 ? cpus({0, 1, 2, 3}) : CpuMask{};
    t.finish();
    EXPECT_TRUE(t.share_resources(cpu(0), cpu(4)))
        << "the cluster with the lowest CPU of the LLC has the id of the LLC";
}

TEST(Topology, WhatGoesOfflineTakesSmtAndClustersAlong) {
    const Topology t = hybrid(), half = t.without(cpus({0, 6, 7})), less = t.without(cpus({0, 2, 5, 6, 7}));
    EXPECT_TRUE(half.smt_active && half.clusters_active);
    EXPECT_FALSE(less.smt_active || less.clusters_active);
    EXPECT_FALSE(less.has_cluster[4]);
    EXPECT_TRUE(less.share_resources(cpu(1), cpu(4)));
    EXPECT_FALSE(less.share_resources(cpu(0), cpu(4)));
}

/// LLC of CPUs 0 to 5, of which 4 and 5 are threads of a core whose other two, 6 and 7, are isolated. 2 to 5 are a cluster.
TEST(Topology, AClusterOfWhatIsolationLeftOfACoreIsNone) {
    Topology t;
    t.n_cpus = 8;
    t.online = first_cpus(8);
    for (int c = 0; c < 8; ++c) {
        t.smt.push_back(c < 4 ? cpus({c}) : cpus({4, 5, 6, 7}));
        t.llc_id.push_back(static_cast<uint16_t>(c < 6 ? 0 : c));
        t.has_llc_domain.push_back(c < 6);
        t.cluster.push_back(c < 2 || c > 5 ? CpuMask{} : cpus({2, 3, 4, 5}));
    }
    for (const CpuMask& span : {cpus({4, 5}), cpus({2, 3, 4, 5}), first_cpus(6)}) {
        Domain& d = t.domains.emplace_back();
        d.span = span, d.share_llc = true;
    }
    t.finish();
    EXPECT_FALSE(t.share_resources(cpu(0), cpu(4)));
    EXPECT_TRUE(t.without(cpus({2})).has_cluster[4]);
    for (const CpuMask& gone : {cpus({2, 3}), cpus({2, 3, 5})}) {
        const Topology less = t.without(gone);
        EXPECT_FALSE(less.has_cluster[4] || less.clusters_active);
        EXPECT_TRUE(less.share_resources(cpu(0), cpu(4)));
    }
}

TEST(Topology, UnknownMachineIsSingleCpus) {
    Topology t;
    t.n_cpus = 3;
    t.online = first_cpus(3);
    t.finish();
    EXPECT_FALSE(t.smt_active);
    EXPECT_EQ(t.llc_span.size(), 3u);
    EXPECT_FALSE(t.share_cache(cpu(0), cpu(1)));
    EXPECT_EQ(t.cap_orig[2], 1024);
}

TEST(Topology, OverlappingNumaLevelsBelongToTheirOwnCpus) {  // a ring of four nodes: each sees its two neighbours first
    Topology t;
    t.n_cpus = 4;
    t.online = first_cpus(4);
    for (int c = 0; c < 4; ++c) {
        Domain& d = t.domains.emplace_back();
        d.name = "NUMA";
        d.span = cpus({(c + 3) % 4, c, (c + 1) % 4});
        d.cpus = cpus({c});
    }
    Domain& top = t.domains.emplace_back();
    top.name = "NUMA";
    top.span = t.online;
    t.finish();
    ASSERT_EQ(t.stack[2].size(), 2u);
    EXPECT_EQ(t.domains[static_cast<size_t>(t.stack[2][0])].span, cpus({1, 2, 3}));
}

TEST(Topology, GroupsThatOverlapAreThoseThatACpuMeets) {  // as the comments in build_sched_groups() of 6.1 draw them
    Topology t;
    t.n_cpus = 4;
    t.online = first_cpus(4);
    for (int c = 0; c < 4; ++c) {
        Domain& d = t.domains.emplace_back();
        d.span = cpus({(c + 3) % 4, c, (c + 1) % 4});
        d.cpus = cpus({c});
    }
    t.domains.emplace_back().span = t.online;
    t.finish();
    auto level = [&t](int c, size_t l) -> const Domain& { return t.domains[static_cast<size_t>(t.stack[c][l])]; };
    using Groups = std::vector<CpuMask>;
    EXPECT_EQ(level(0, 1).groups, (Groups{cpus({3, 0, 1}), cpus({1, 2, 3})}));
    EXPECT_EQ(level(1, 1).groups, (Groups{cpus({0, 1, 2}), cpus({2, 3, 0})}));
    EXPECT_EQ(level(2, 1).groups, (Groups{cpus({1, 2, 3}), cpus({3, 0, 1})}));
    EXPECT_EQ(level(2, 1).cpus, cpus({2}));
    EXPECT_EQ(level(2, 1).span, t.online);
    EXPECT_EQ(level(2, 1).balancing(level(2, 1).groups[0]), cpus({2})) << "1 and 3 come there in other groups";
    EXPECT_EQ(level(2, 0).groups, (Groups{cpus({1}), cpus({2}), cpus({3})})) << "these do not overlap";
    const Topology three = t.without(cpus({0}));
    const Domain& top = three.domains[static_cast<size_t>(three.stack[1].back())];
    EXPECT_EQ(top.groups.front(), cpus({1, 2})) << "its own stays first";
}

TEST(Topology, IntervalsCountTheCpusOfALevelThatAreIsolatedToo) {
    std::vector<CpuRow> rows;
    std::vector<DomainRow> domains;
    for (uint16_t c = 0; c < 16; ++c)
        rows.push_back({.cpu = c, .llc = static_cast<uint16_t>(c / 4 * 4), .node = static_cast<uint16_t>(c / 8)});
    rows[3].online = false;
    for (uint16_t c : {0, 1, 8, 9}) {
        domains.push_back({c, 0, "MC", c < 8 ? "0-1" : "8-9", "SD_SHARE_LLC", 117});
        domains.push_back({c, 1, "NUMA", "0-1,8-9", "SD_NUMA", 117});
    }
    const Topology t = topology_from_rows(rows, domains);
    ASSERT_EQ(t.domains.size(), 3u);
    EXPECT_EQ(t.domains[0].least_ms, 3);
    EXPECT_EQ(t.domains[1].least_ms, 4);
    EXPECT_EQ(t.domains[2].least_ms, 15);
    EXPECT_EQ(t.domains[2].weight, 4);
    EXPECT_EQ(t.without(cpus({5})).domains[2].least_ms, 14);
    Topology whole = machine(16, true);
    whole.finish();
    EXPECT_EQ(whole.domains.back().least_ms, 16);
}

TEST(Topology, LowestDomainOfTwoCpus) {
    Topology ring;  // overlapping levels: see above
    ring.n_cpus = 4;
    ring.online = first_cpus(4);
    for (int c = 0; c < 4; ++c) {
        Domain& d = ring.domains.emplace_back();
        d.span = cpus({(c + 3) % 4, c, (c + 1) % 4});
        d.cpus = cpus({c});
    }
    ring.domains.emplace_back().span = ring.online;
    Topology whole = machine(16, true), cores = machine(12, false, 4), none;
    none.n_cpus = 3;
    none.online = first_cpus(3);
    for (Topology* t : {&ring, &whole, &cores, &none}) t->finish();
    for (const Topology& t : {ring, whole, cores, none, whole.without(cpus({1, 9, 4})), cores.without(cpus({1, 2, 3})),
                              whole.without_domains()})
        for (int a = 0; a < t.n_cpus; ++a)
            for (int b = 0; b < t.n_cpus; ++b) {
                int lowest = Topology::kNone;
                for (int i : t.stack[static_cast<size_t>(a)])
                    if (lowest == Topology::kNone && t.domains[static_cast<size_t>(i)].span.test(cpu(b))) lowest = i;
                ASSERT_EQ(t.common(cpu(a), cpu(b)), lowest) << a << " " << b;
            }
}

TEST(Topology, CountsTheTasksThatMayStayOnTheirNode) {  // imb_numa_nr, policies.md E7
    auto allowance = [](int node, int llc) {
        Topology t;
        t.n_cpus = 2 * node;
        t.online = first_cpus(2 * node);
        t.has_llc_domain.assign(static_cast<size_t>(2 * node), true);
        auto add = [&](const char* name, int from, int n) {
            Domain& d = t.domains.emplace_back();
            d.name = name;
            d.share_llc = n == llc;
            d.numa = n == 2 * node;
            for (int c = from; c < from + n; ++c) d.span.set(cpu(c));
        };
        for (int c = 0; c < 2 * node; ++c) t.llc_id.push_back(static_cast<uint16_t>(c / llc * llc));
        for (int c = 0; c < 2 * node; c += llc) add("MC", c, llc);
        for (int c = 0; node > llc && c < 2 * node; c += node) add("PKG", c, node);
        add("NUMA", 0, 2 * node);
        t.finish();
        return t.domains.back().imb_numa_nr;
    };
    EXPECT_EQ(allowance(16, 16), 2);
    EXPECT_EQ(allowance(128, 16), 8);
    EXPECT_EQ(allowance(4, 4), 1);
}

/// From the rows of a recording: two nodes of two LLCs of two CPUs.
Topology of_rows(const std::string& flags, const std::string& numa_flags) {
    std::vector<CpuRow> rows;
    std::vector<DomainRow> domains;
    for (uint16_t c = 0; c < 8; ++c) {
        rows.push_back({.cpu = c, .node = static_cast<uint16_t>(c / 4)});
        const std::string llc = std::to_string(c / 2 * 2) + "-" + std::to_string(c / 2 * 2 + 1);
        domains.push_back({c, 0, "MC", llc, flags.empty() ? "" : flags + " SD_SHARE_LLC", 117});
        domains.push_back({c, 1, "NODE", c < 4 ? "0-3" : "4-7", flags, 117});
        domains.push_back({c, 2, "NUMA", "0-7", numa_flags, 117});
    }
    return topology_from_rows(rows, domains);
}

TEST(Topology, ANodeOfSeveralLlcsIsNoNumaLevel) {
    for (const Topology& t : {of_rows("SD_BALANCE_FORK", "SD_BALANCE_FORK SD_NUMA"), of_rows("", "")}) {
        ASSERT_EQ(t.stack[0].size(), 3u);
        const Domain &node = t.domains[static_cast<size_t>(t.stack[0][1])], &numa = t.domains.back();
        EXPECT_FALSE(node.numa);
        EXPECT_TRUE(numa.numa);
        EXPECT_FALSE(node.imb_numa_nr);
        EXPECT_EQ(numa.imb_numa_nr, 2) << "one for each LLC of a node";
    }
}

TEST(Topology, RefusesContradictions) {
    auto error = [](auto change) -> std::string {
        Topology t = machine(8, true);
        change(t);
        try {
            t.finish();
        } catch (const std::invalid_argument& e) {
            return e.what();
        }
        return "no error";
    };
    EXPECT_EQ(error([](Topology&) {}), "no error");
    EXPECT_EQ(error([](Topology& t) { t.n_cpus = 2000; }), "topology: 2000 CPUs; 1 to 1024 are supported");
    EXPECT_EQ(error([](Topology& t) { t.online = {}; }), "topology: no CPU is online");
    EXPECT_EQ(error([](Topology& t) { t.online.set(cpu(9)); }), "topology: CPU 9 is online, but there are only 8");
    EXPECT_EQ(error([](Topology& t) { t.node = {0}; }), "topology: node has 1 entries for 8 CPUs");
    EXPECT_EQ(error([](Topology& t) { t.smt[1] = cpus({0, 4}); }), "topology: CPU 1 is not among its own siblings");
    EXPECT_EQ(error([](Topology& t) { t.smt[1] = cpus({1}); }), "topology: siblings of CPU 5 and CPU 1 differ");
    EXPECT_EQ(error([](Topology& t) { t.cap_orig.assign(8, 0); }), "topology: CPU 0 has capacity 0");
    EXPECT_EQ(error([](Topology& t) { t.domains[0].span.clear(cpu(7)); }),
              "topology: domain MC of CPU 3 does not extend domain SMT");
    EXPECT_EQ(error([](Topology& t) { t.llc_id[7] = 7; }), "topology: domain MC of CPU 0 is not its LLC");
    EXPECT_EQ(error([](Topology& t) { t.domains[1].span = {}; }), "topology: domain SMT is empty");
    EXPECT_EQ(error([](Topology& t) { t.online.clear(cpu(7)); }), "topology: domain MC spans an offline CPU");
    EXPECT_EQ(error([](Topology& t) { t.domains.push_back(t.domains[0]); }),
              "topology: domain MC of CPU 0 does not extend domain MC");
    EXPECT_EQ(error([](Topology& t) { t.domains[1].cpus = cpus({7}); }),
              "topology: domain SMT belongs to a CPU outside its span");
    EXPECT_EQ(error([](Topology& t) { t.has_llc_domain[3] = false; }),
              "topology: CPU 3 has a domain that shares its cache, but no LLC domain");
    EXPECT_EQ(error([](Topology& t) { t.llc_id[2] = 3; }),
              "topology: llc_id of CPU 2 is not the lowest CPU of its LLC");
}

}  // namespace
}  // namespace rewake::test
