// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/topology.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

namespace rewake {
namespace {

[[noreturn]] void contradiction(const std::string& text) { throw std::invalid_argument("topology: " + text); }

std::string cpu_name(int c) { return "CPU " + std::to_string(c); }

Cpu lowest(const CpuMask& m) {
    return *first_in_wrap(kMaskWords, 0, [&](unsigned i) { return m.w[i]; });
}

template <class F>
void for_each(const CpuMask& m, F f) {
    for_each_cpu(kMaskWords, [&](int i) { return m.w[i]; }, [&](Cpu c) { return f(c), false; });
}

bool contains(const CpuMask& outer, const CpuMask& inner) { return (outer & inner) == inner; }

CpuMask only(int c) {
    CpuMask m;
    m.set(Cpu(static_cast<uint16_t>(c)));
    return m;
}

template <class T, class Default>
void fill_or_check(std::vector<T>& v, int n, const char* name, Default value) {
    if (v.empty())
        for (int c = 0; c < n; ++c) v.push_back(value(c));
    if (static_cast<int>(v.size()) != n)
        contradiction(std::string(name) + " has " + std::to_string(v.size()) + " entries for " + std::to_string(n) +
                      " CPUs");
}

void check_inputs(Topology& t) {
    if (t.n_cpus < 1 || t.n_cpus > kMaxCpus)
        contradiction(std::to_string(t.n_cpus) + " CPUs; 1 to " + std::to_string(kMaxCpus) + " are supported");
    t.words = (t.n_cpus + 63) / 64;
    if (!t.online.any()) contradiction("no CPU is online");
    for_each(t.online, [&](Cpu c) {
        if (c.v >= t.n_cpus)
            contradiction(cpu_name(c.v) + " is online, but there are only " + std::to_string(t.n_cpus));
    });
    const int n = t.n_cpus;
    fill_or_check(t.smt, n, "smt", only);
    fill_or_check(t.node, n, "node", [](int) { return uint16_t{0}; });
    fill_or_check(t.cap_orig, n, "cap_orig", [](int) { return uint16_t{1024}; });
    fill_or_check(t.has_llc_domain, n, "has_llc_domain", [](int) { return false; });
    fill_or_check(t.llc_id, n, "llc_id", [](int c) { return static_cast<uint16_t>(c); });
    fill_or_check(t.cluster, n, "cluster", [](int) { return CpuMask{}; });
}

void finish_cores(Topology& t) {
    t.core.clear();
    t.sibling.clear();
    t.sibling_start.assign(1, 0);
    t.smt_active = false;
    for (int c = 0; c < t.n_cpus; ++c) {
        const bool up = t.online.test(Cpu(static_cast<uint16_t>(c)));
        CpuMask s = up ? t.smt[c] & t.online : only(c);
        if (!contains(s, only(c))) contradiction(cpu_name(c) + " is not among its own siblings");
        if (up)
            for_each(s, [&](Cpu o) {
                if (!((t.smt[o.v] & t.online) == s))
                    contradiction("siblings of " + cpu_name(c) + " and " + cpu_name(o.v) + " differ");
            });
        t.core.push_back(lowest(s).v);
        for_each(s, [&](Cpu o) { t.sibling.push_back(o.v); });
        t.sibling_start.push_back(static_cast<uint32_t>(t.sibling.size()));
        t.smt_active |= s.count() > 1;
    }
    for (int c = 0; c < t.n_cpus; ++c) {
        t.smt[c] = CpuMask{};
        for (uint16_t o : t.siblings(Cpu(static_cast<uint16_t>(c)))) t.smt[c].set(Cpu(o));
    }
}

void finish_nodes_and_capacity(Topology& t) {
    t.node_span.assign(*std::max_element(t.node.begin(), t.node.end()) + 1u, CpuMask{});
    for_each(t.online, [&](Cpu c) {
        t.node_span[t.node[c.v]].set(c);
        if (t.cap_orig[c.v] == 0) contradiction(cpu_name(c.v) + " has capacity 0");
    });
    for (const Domain& d : t.domains)
        if (!contains(t.online, d.span)) contradiction("domain " + d.name + " spans an offline CPU");
    t.has_cluster.assign(t.n_cpus, false);
    for (int c = 0; c < t.n_cpus; ++c) {
        t.has_cluster[c] = t.cluster[c].any();
        if (t.has_cluster[c] && !contains(t.cluster[c], only(c)))
            contradiction(cpu_name(c) + " is not in its own cluster");
    }
}

/// Of `d`, from the stacks below it. Where child spans overlap, CPUs of one span meet different groups: those that meet others
/// than the lowest CPU leave `d`, with domains of their own.
std::vector<Domain> find_groups(const Topology& t, Domain& d) {
    std::map<uint16_t, CpuMask> child;  // of each CPU; without: the CPU alone
    CpuMask covered;
    d.evens_out = false;
    d.groups.clear();
    for_each(d.span, [&](Cpu c) {
        const Domain* below = nullptr;
        for (int i : t.stack[c.v])
            if (const Domain& b = t.domains[i]; b.weight < d.weight && contains(d.span, b.span)) below = &b;
        const CpuMask span = child[c.v] = below ? below->span : only(c.v);
        d.evens_out |= below && below->prefer_sibling;
        if (std::ranges::find(d.groups, span) != d.groups.end()) return;
        d.overlaps |= (covered & span).any();
        for (int w = 0; w < kMaskWords; ++w) covered.w[w] |= span.w[w];
        d.groups.push_back(span);
    });
    std::ranges::stable_sort(d.groups, {}, [](const CpuMask& m) { return lowest(m).v; });
    if (!d.overlaps) return {};
    std::vector<Domain> found;
    for_each(d.cpus, [&](Cpu own) {
        std::vector<CpuMask> met;
        CpuMask seen;
        auto meet = [&](Cpu c) {
            if (seen.test(c)) return;
            met.push_back(child[c.v]);
            for (int w = 0; w < kMaskWords; ++w) seen.w[w] |= met.back().w[w];
        };
        for_each(d.span, [&](Cpu c) { c.v < own.v ? void() : meet(c); });
        for_each(d.span, meet);
        auto same = std::ranges::find(found, met, &Domain::groups);
        if (same == found.end()) {
            same = found.insert(same, d);
            same->groups = met;
            same->cpus = same->arriving = CpuMask{};
            for_each(met[0], [&](Cpu c) { same->arriving.assign(c, child[c.v] == met[0]); });
        }
        same->cpus.set(own);
    });
    d = found.front();
    found.erase(found.begin());
    return found;
}

void finish_stacks(Topology& t) {
    for (Domain& d : t.domains) {
        d.weight = d.span.count();
        if (d.weight == 0) contradiction("domain " + d.name + " is empty");
        d.spans();
        if (!d.cpus.any()) d.cpus = d.span;
        d.level = d.level & t.online;
        if (!contains(d.level, d.span)) d.level = d.span;
        d.least_ms = d.level.count();
        if (!contains(d.span, d.cpus)) contradiction("domain " + d.name + " belongs to a CPU outside its span");
    }
    std::stable_sort(t.domains.begin(), t.domains.end(),
                     [](const Domain& a, const Domain& b) { return a.weight < b.weight; });
    t.stack.assign(t.n_cpus, {});
    t.llc_level.assign(t.n_cpus, Topology::kNone);
    t.balance_wake = false;
    t.all_affine = true;
    for (int i = 0; i < static_cast<int>(t.domains.size()); ++i) {
        std::vector<Domain> others = find_groups(t, t.domains[i]);
        t.domains.insert(t.domains.begin() + i + 1, others.begin(), others.end());
        Domain& d = t.domains[i];
        t.balance_wake |= d.balance_wake;
        t.all_affine &= d.wake_affine && d.load_balance;
        d.share_core = contains(t.smt[d.first.v], d.span);
        d.leaders = CpuMask{};
        for (const CpuMask& m : d.groups) d.leaders.set(lowest(m));
        for_each(d.cpus, [&](Cpu c) {
            auto& stack = t.stack[c.v];
            if (!stack.empty()) {
                const Domain& child = t.domains[stack.back()];
                if (!contains(d.span, child.span) || child.weight == d.weight)
                    contradiction("domain " + d.name + " of " + cpu_name(c.v) + " does not extend domain " +
                                  child.name);
            }
            if (d.share_llc) t.llc_level[c.v] = static_cast<int>(stack.size());
            stack.push_back(i);
        });
    }
}

/// From the stacks.
void find_levels(Topology& t) {
    t.depth = 1;
    for (const auto& stack : t.stack) t.depth = std::max(t.depth, stack.size());
    t.levels.assign(t.stack.size() * t.depth, Topology::kNone);
    for (size_t c = 0; c < t.stack.size(); ++c) std::copy(t.stack[c].begin(), t.stack[c].end(), &t.levels[c * t.depth]);
    t.overlapping =
        std::any_of(t.domains.begin(), t.domains.end(), [](const Domain& d) { return !(d.cpus == d.span); });
}

/// From the stacks: which domains span different capacities, each against its root domain, the span of the highest one
/// above it. Domains that are gone leave none (sched_asym_cpucapacity is counted with them).
void find_asymmetry(Topology& t) {
    auto capacities = [&t](const CpuMask& m) {
        std::set<uint16_t> found;
        for_each(m, [&](Cpu c) { found.insert(t.cap_orig[c.v]); });
        return found;
    };
    const bool differ = capacities(t.online).size() > 1;
    t.asym = differ && t.domains.empty();
    t.asym_domain.assign(t.n_cpus, Topology::kNone);
    t.most_cap.assign(t.n_cpus, 0);
    for (Domain& d : t.domains) d.asym = d.asym_full = false;
    if (!differ) return;
    std::vector<std::set<uint16_t>> spanned;  // by domain
    for (const Domain& d : t.domains) spanned.push_back(capacities(d.span));
    for (int c = 0; c < t.n_cpus; ++c) {
        if (t.stack[c].empty()) continue;
        const std::set<uint16_t>& all = spanned[t.stack[c].back()];
        t.most_cap[c] = *all.rbegin();
        for (int i : t.stack[c]) {
            Domain& d = t.domains[i];
            t.asym |= d.asym = spanned[i].size() > 1;
            d.asym_full = d.asym && spanned[i] == all;
            if (d.asym_full && t.asym_domain[c] == Topology::kNone) t.asym_domain[c] = i;
        }
    }
}

/// From the clusters and LLCs of the CPUs that are online.
void find_share_ids(Topology& t) {
    t.clusters_active = false;
    t.share_id = t.llc_id;
    for (int c = 0; c < t.n_cpus; ++c)
        if (t.has_cluster[c])
            t.clusters_active = true, t.share_id[c] = lowest(t.cluster[c]).v;
        else if (t.has_llc_domain[c])
            t.share_id[c] = lowest(t.llc_span[t.llc[c].v]).v;
}

void find_llc_words(Topology& t) {
    t.llc_words.clear();
    for (const CpuMask& m : t.llc_span) t.llc_words.push_back(words_of(m));
}

void finish_llcs(Topology& t) {
    t.llc.assign(t.n_cpus, Llc{});
    t.llc_span.clear();
    t.llc_weight.clear();
    for (int c = 0; c < t.n_cpus; ++c) {
        const int id = t.llc_id[c];
        const bool domain = t.llc_level[c] != Topology::kNone;
        if (domain != t.has_llc_domain[c])
            contradiction(cpu_name(c) + (domain ? " has a domain that shares its cache, but no LLC domain"
                                                : " has an LLC domain that is not in its stack"));
        if (id > c || (!domain && id != c))
            contradiction("llc_id of " + cpu_name(c) + " is not the lowest CPU of its LLC");
        if (id == c) {
            t.llc[c] = Llc(static_cast<uint16_t>(t.llc_span.size()));
            t.llc_span.push_back(only(c));
        } else {
            t.llc[c] = t.llc[id];
            t.llc_span[t.llc[c].v].set(Cpu(static_cast<uint16_t>(c)));
        }
    }
    for (const CpuMask& m : t.llc_span) t.llc_weight.push_back(m.count());
    find_llc_words(t);
    for (int c = 0; c < t.n_cpus; ++c)
        if (t.has_llc_domain[c]) {
            const Domain& d = t.domains[t.stack[c][t.llc_level[c]]];
            if (!(d.span == t.llc_span[t.llc[c].v]))
                contradiction("domain " + d.name + " of " + cpu_name(c) + " is not its LLC");
        }
}

/// imb_numa_nr of the NUMA levels, from the LLCs of a node (build_sched_domains of 6.0+; policies.md A8).
void finish_numa(Topology& t) {
    for (Domain& d : t.domains) {
        if (!d.numa || d.imb_numa_nr || d.weight == 0) continue;
        const Cpu c = lowest(d.cpus);
        const int llc = t.llc_size(c);
        int node = llc, first = 0;  // a node level that equals the LLC is not in the stack
        for (int i : t.stack[c.v]) {
            const Domain& level = t.domains[i];
            if (level.numa && first == 0) first = level.weight;
            if (!level.numa && !level.share_llc && node == llc) node = level.weight;
        }
        if (first == 0) continue;  // it is no level: what it spanned besides is offline
        const int llcs = node / llc, base = std::max(1, llcs == 1 ? node / 8 : llcs);
        d.imb_numa_nr = base * std::max(1, d.weight / first);
    }
}

void leave_domains(Topology& t, int c) {
    t.stack[c].clear();
    t.has_llc_domain[c] = t.has_cluster[c] = false;
    t.llc_level[c] = Topology::kNone;
}

}  // namespace

Topology Topology::without(const CpuMask& gone) const {
    Topology t = *this;
    auto leave = [&](CpuMask& m) {
        for (int i = 0; i < words; ++i) m.w[i] &= ~gone.w[i];
    };
    leave(t.online);
    finish_cores(t);
    for (CpuMask& m : t.node_span) leave(m);
    for (CpuMask& m : t.llc_span) leave(m);
    for (CpuMask& m : t.cluster) leave(m);
    for (size_t l = 0; l < t.llc_span.size(); ++l) t.llc_weight[l] = t.llc_span[l].count();
    find_llc_words(t);
    for (Domain& d : t.domains) {
        leave(d.span), leave(d.cpus), leave(d.leaders), leave(d.arriving), leave(d.level);
        for (CpuMask& m : d.groups) leave(m);
        std::erase_if(d.groups, [](const CpuMask& m) { return !m.any(); });
        if (!d.overlaps)  // some lost their first
            std::ranges::stable_sort(d.groups, {}, [](const CpuMask& m) { return lowest(m).v; });
        for (const CpuMask& m : d.groups) d.leaders.set(lowest(m));
        d.weight = d.span.count();
        d.least_ms = d.level.count();
        d.imb_numa_nr.reset();
        if (d.weight) d.spans();
    }
    for (int c = 0; c < n_cpus; ++c) {
        if (gone.test(Cpu(static_cast<uint16_t>(c)))) {
            leave_domains(t, c);
            t.llc_id[c] = static_cast<uint16_t>(n_cpus + c);  // shares its cache with nobody
            continue;
        }
        std::vector<int> kept;
        // Else its level goes, too.
        t.has_cluster[c] = t.has_cluster[c] && t.cluster[c].count() > 1 && !(t.cluster[c] == t.smt[c]);
        t.llc_level[c] = kNone;
        for (int i : t.stack[c]) {
            const Domain& d = t.domains[i];
            if (d.weight <= (kept.empty() ? 1 : t.domains[kept.back()].weight)) continue;
            if (d.share_llc) t.llc_level[c] = static_cast<int>(kept.size());
            if (d.share_core && d.span == t.cluster[c])
                t.has_cluster[c] = false;  // other threads of its core are in no domain
            kept.push_back(i);
        }
        t.stack[c] = std::move(kept);
        t.has_llc_domain[c] = t.llc_level[c] != kNone;
    }
    find_levels(t);
    find_asymmetry(t);
    find_share_ids(t);
    finish_numa(t);
    return t;
}

Topology Topology::without_domains() const {
    Topology t = *this;
    for (int c = 0; c < n_cpus; ++c) {
        leave_domains(t, c);
        t.llc_id[c] = static_cast<uint16_t>(c);
    }
    find_levels(t);
    find_asymmetry(t);
    find_share_ids(t);
    return t;
}

void Topology::finish() {
    check_inputs(*this);
    finish_cores(*this);
    finish_nodes_and_capacity(*this);
    finish_stacks(*this);
    find_levels(*this);
    find_asymmetry(*this);
    finish_llcs(*this);
    find_share_ids(*this);
    finish_numa(*this);
}

}  // namespace rewake
