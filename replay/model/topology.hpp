// SPDX-License-Identifier: GPL-2.0-or-later
// The machine as the scheduler sees it: siblings, LLCs, nodes, domain stacks. Built from the recording's machine
// tables (or from a conformance topology).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/mask.hpp"

namespace rewake {

/// One domain span; `groups` are the child spans (single CPUs at the lowest level), sorted by lowest CPU number
/// (policies.md section 0, group ring). Where child spans overlap (NUMA levels of nodes that are not all as far apart) they are
/// those that its own CPUs meet: their own first, then upwards from there the child of each CPU that none before has
/// (build_overlap_sched_groups()).
struct Domain {
    CpuMask span;
    CpuMask cpus;  ///< CPUs whose domain it is; left empty: the whole span (only overlapping NUMA levels differ)
    CpuMask level;  ///< CPUs of its level, isolated ones and those of other cpusets among them; left empty: the span
    std::vector<CpuMask> groups;
    bool overlaps = false;  ///< some CPU is in two child spans (SD_OVERLAP; derived)
    CpuMask arriving;  ///< where it overlaps: CPUs of the first group that come here by it (group_balance_mask())
    CpuMask leaders;  ///< lowest CPU of each group
    Cpu first{};      ///< lowest CPU of the span
    int first_word = 0, end_word = kMaskWords;  ///< words of the masks that hold the span
    Words words() const { return {first_word, end_word}; }
    /// That of `c`; nullptr: none has it.
    const CpuMask* group(Cpu c) const {
        const auto at = std::ranges::find_if(groups, [c](const CpuMask& g) { return g.test(c); });
        return at == groups.end() ? nullptr : &*at;
    }
    /// CPUs of that group of its own CPUs of which one balances for it.
    const CpuMask& balancing(const CpuMask& own) const { return overlaps ? arriving : own; }
    /// `span` is set: sets what is known of it.
    void spans() {
        const Words w = words_of(span);
        first_word = w.from, end_word = w.to;
        if (w.from < w.to) first = cpu_at(w.begin(), span.w[w.from]);
    }
    std::string name;
    int imbalance_pct = 117;  ///< as recorded; a column may override it per level kind (A12 imb_pkg / imb_llc)
    bool numa = false;
    bool share_llc = false;     ///< all its CPUs share the last-level cache (SD_SHARE_LLC)
    bool wake_affine = true;    ///< SD_WAKE_AFFINE
    bool balance_wake = false;  ///< SD_BALANCE_WAKE
    bool balance_fork = true;
    bool balance_exec = true;
    bool load_balance = true;
    bool prefer_sibling = true;  ///< SD_PREFER_SIBLING: the level above spreads tasks over such groups
    bool evens_out = false;  ///< its groups are such (derived)
    bool share_core = false;  ///< all its CPUs are of one core (SD_SHARE_CPUCAPACITY; derived)
    bool asym = false;  ///< spans different capacities (SD_ASYM_CPUCAPACITY; derived)
    bool asym_full = false;  ///< and every one of its root domain (SD_ASYM_CPUCAPACITY_FULL; derived)
    int weight = 0;          ///< CPUs in the span
    int least_ms = 0;        ///< shortest interval of its balancing: CPUs of the level (sd_init(), 2.6.35+; derived)
    std::optional<int> imb_numa_nr;
};

struct Topology {
    int n_cpus = 0;  ///< highest possible CPU number + 1
    int words = 1;   ///< mask words in use
    CpuMask online;

    bool known = false;  ///< false: no topology came with the recording; every CPU is its own core, llc and node
    bool smt_active = false;
    bool clusters_active = false;  ///< any CPU has a cluster domain
    bool asym = false;  ///< a domain spans different capacities; where none is known: different capacities exist

    std::vector<CpuMask> smt;  ///< per CPU: hardware siblings, itself included (not restricted to any domain)
    std::vector<uint16_t> core;  ///< per CPU: lowest sibling number
    std::vector<uint16_t> node;  ///< per CPU: NUMA node number
    std::vector<CpuMask> node_span;  ///< per NUMA node number
    std::vector<uint16_t> cap_orig;  ///< per CPU, 1024 = biggest
    std::vector<bool> has_llc_domain;  ///< per CPU: sd_llc(c) exists
    std::vector<uint16_t> llc_id;  ///< per CPU: lowest CPU number sharing the LLC (itself without a domain)
    std::vector<Llc> llc;  ///< per CPU: dense index into llc_span (a CPU without a domain has its own)
    std::vector<CpuMask> llc_span;  ///< per dense LLC
    std::vector<Words> llc_words;  ///< per dense LLC: where its span lies
    std::vector<CpuMask> cluster;  ///< per CPU: cluster span (empty without a cluster level there)
    std::vector<bool> has_cluster;

    std::vector<Domain> domains;  ///< all distinct domains, children before parents
    std::vector<std::vector<int>> stack;  ///< per CPU: indices into `domains`, bottom-up
    std::vector<uint16_t> share_id;  ///< per CPU: lowest CPU of its cluster, or of its LLC where it has none
    std::vector<int> asym_domain;  ///< per CPU: index of its lowest asym_full domain, or `kNone`
    std::vector<uint16_t> most_cap;  ///< per CPU: largest capacity of its root domain; 0: none, or no two differ
    std::vector<int> llc_level;  ///< per CPU: index into its stack of sd_llc(c), or `kNone`
    bool balance_wake = false;  ///< any domain has SD_BALANCE_WAKE
    bool all_affine = true;  ///< every domain has SD_WAKE_AFFINE and SD_LOAD_BALANCE
    static constexpr int kNone = 0x7fffffff;

    std::vector<uint16_t> sibling;  ///< siblings of all CPUs, ascending within a CPU; see siblings()
    std::vector<uint32_t> sibling_start;  ///< per CPU and one more: first index into `sibling`
    /// smt[c] as a list, for loops over a core.
    std::span<const uint16_t> siblings(Cpu c) const {
        return {sibling.data() + sibling_start[c.v], sibling_start[c.v + 1u] - sibling_start[c.v]};
    }

    bool share_cache(Cpu a, Cpu b) const { return a == b || llc_id[a.v] == llc_id[b.v]; }
    /// llc_id of an LLC, which stays its name when that CPU goes offline.
    Cpu id_of(Llc l) const { return Cpu(static_cast<uint16_t>(std::ranges::find(llc, l) - llc.begin())); }
    int llc_size(Cpu c) const { return llc_weight[llc[c.v].v]; }
    /// 6.8+: same cluster where there is one, else same LLC. A CPU without a cluster shares with the cluster that holds
    /// the lowest CPU of its LLC.
    bool share_resources(Cpu a, Cpu b) const { return a == b || share_id[a.v] == share_id[b.v]; }
    /// Lowest domain of `a` that holds `b`: index into `domains`, or kNone. Where no two domains overlap, it is in the stacks of
    /// both, which lie closer together than the domains.
    int common(Cpu a, Cpu b) const {
        const int *const here = &levels[a.v * depth], *const there = &levels[b.v * depth];
        for (size_t i = 0; i < depth && here[i] != kNone; ++i) {
            if (overlapping && domains[here[i]].span.test(b)) return here[i];
            for (size_t k = 0; k < depth && !overlapping; ++k)
                if (there[k] == here[i]) return here[i];
        }
        return kNone;
    }
    size_t depth = 1;  ///< of the highest stack
    std::vector<int> levels;  ///< per CPU `depth` entries: its stack, filled up with kNone
    bool overlapping = false;  ///< some domain is not that of all CPUs in its span
    std::vector<int> llc_weight;  ///< per dense LLC: number of CPUs

    /// Fills everything that follows from n_cpus, online, smt, node, cap_orig, llc_id, has_llc_domain, cluster and
    /// domains (span, name, flags). A per-CPU vector left empty takes its neutral value: own core, node 0, capacity
    /// 1024, no LLC domain, no cluster. Sorts `domains` children first and restricts `smt` to online CPUs, as
    /// cpu_smt_mask is. Throws std::invalid_argument (one line for the user) when the inputs contradict each other.
    void finish();
    /// The same while some CPUs are offline: they leave cores, LLCs and domains, of which one that is as small as the one
    /// below it goes. LLCs and domains keep their numbers.
    Topology without(const CpuMask& gone) const;
    /// The same while the kernel rebuilds its domains: there are none.
    Topology without_domains() const;
};

}  // namespace rewake
