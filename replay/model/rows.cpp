// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/rows.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

namespace rewake {

namespace {

int cpu_number(std::string_view text, std::string_view whole) {
    int n = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc{} || end != text.data() + text.size() || n < 0)
        throw std::invalid_argument("not a CPU list: '" + std::string(whole) + "'");
    if (n >= kMaxCpus)
        throw std::invalid_argument("CPU " + std::to_string(n) + " in '" + std::string(whole) + "': at most " +
                                    std::to_string(kMaxCpus) + " CPUs are supported");
    return n;
}

bool has_flag(const std::string& flags, std::string_view flag) {
    for (size_t at = flags.find(flag); at != std::string::npos; at = flags.find(flag, at + 1)) {
        const size_t end = at + flag.size();
        if ((at == 0 || flags[at - 1] == ' ') && (end == flags.size() || flags[end] == ' ')) return true;
    }
    return false;
}

}  // namespace

CpuMask parse_cpulist(std::string_view text) {
    CpuMask mask;
    for (std::string_view rest = text; !rest.empty();) {
        const size_t comma = std::min(rest.find(','), rest.size());
        const std::string_view item = rest.substr(0, comma);
        rest.remove_prefix(std::min(comma + 1, rest.size()));
        const size_t dash = item.find('-');
        const int first = cpu_number(item.substr(0, dash), text);
        const int last = dash == std::string_view::npos ? first : cpu_number(item.substr(dash + 1), text);
        for (int c = first; c <= last; ++c) mask.set(Cpu(static_cast<uint16_t>(c)));
    }
    return mask;
}

Topology topology_from_rows(const std::vector<CpuRow>& cpus, const std::vector<DomainRow>& domains) {
    Topology t;
    for (const CpuRow& r : cpus) {
        if (r.cpu >= kMaxCpus)
            throw std::invalid_argument("CPU " + std::to_string(r.cpu) + ": at most " + std::to_string(kMaxCpus) +
                                        " CPUs are supported");
        t.n_cpus = std::max(t.n_cpus, r.cpu + 1);
    }
    const auto n = static_cast<size_t>(t.n_cpus);
    std::vector<CpuMask> cores(n), clusters(n), llcs(n);
    t.smt.resize(n), t.node.assign(n, 0), t.cap_orig.assign(n, 1024), t.cluster.resize(n);
    t.has_llc_domain.assign(n, false), t.llc_id.resize(n);
    for (size_t c = 0; c < n; ++c) t.llc_id[c] = static_cast<uint16_t>(c);
    auto checked = [&](uint16_t c, const char* what) {
        if (c >= n)
            throw std::invalid_argument("topology: " + std::string(what) + " names CPU " + std::to_string(c) +
                                        ", which has no row");
        return c;
    };
    for (const CpuRow& r : cpus) {
        const Cpu c(r.cpu);
        t.online.assign(c, r.online);
        cores[checked(r.core.value_or(r.cpu), "core")].set(c);
        if (r.cluster) clusters[checked(*r.cluster, "cluster")].set(c);
        if (r.llc) llcs[checked(*r.llc, "LLC")].set(c);
        t.node[r.cpu] = r.node.value_or(0);
        if (r.capacity) t.cap_orig[r.cpu] = *r.capacity;
    }
    for (const CpuRow& r : cpus) {
        t.smt[r.cpu] = cores[r.core.value_or(r.cpu)];
        if (r.cluster) t.cluster[r.cpu] = clusters[*r.cluster];
    }
    std::map<uint16_t, CpuMask> nodes;
    for (const CpuRow& r : cpus) nodes[t.node[r.cpu]].set(Cpu(r.cpu));
    // What a domain of `c` would span if no CPU were isolated.
    auto level_of = [&](const Domain& d, const CpuRow& c) {
        if ((d.span & t.smt[c.cpu]) == d.span) return t.smt[c.cpu];
        if (d.name == "CLS") return t.cluster[c.cpu];
        if (d.share_llc) return c.llc ? llcs[*c.llc] : CpuMask{};
        if (!d.numa) return nodes[t.node[c.cpu]];
        CpuMask all;
        for (const auto& [number, node] : nodes)
            if ((node & d.span).any())
                for (int w = 0; w < kMaskWords; ++w) all.w[w] |= node.w[w];
        return all;
    };
    std::vector<const CpuRow*> row(n);
    for (const CpuRow& r : cpus) row[r.cpu] = &r;
    // Equal spans at equal names and flags are one domain; overlapping NUMA levels keep the CPUs whose domain they are.
    // A span may be the near level of one node and the far one of another.
    std::vector<const DomainRow*> sorted;
    for (const DomainRow& d : domains) {
        checked(d.cpu, "domain");
        sorted.push_back(&d);
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](auto* a, auto* b) { return std::tie(a->level, a->cpu) < std::tie(b->level, b->cpu); });
    std::map<std::tuple<std::string, std::string, std::string>, size_t> known;
    for (const DomainRow* d : sorted) {
        auto [it, fresh] = known.try_emplace({d->name, d->span, d->flags}, t.domains.size());
        if (fresh) {
            Domain& dom = t.domains.emplace_back();
            dom.span = parse_cpulist(d->span) & t.online;
            dom.name = d->name;
            if (d->imbalance_pct) dom.imbalance_pct = *d->imbalance_pct;
            if (!d->flags.empty()) {
                dom.numa = has_flag(d->flags, "SD_NUMA");
                dom.share_llc = has_flag(d->flags, "SD_SHARE_PKG_RESOURCES") || has_flag(d->flags, "SD_SHARE_LLC");
                dom.wake_affine = has_flag(d->flags, "SD_WAKE_AFFINE");
                dom.balance_wake = has_flag(d->flags, "SD_BALANCE_WAKE");
                dom.balance_fork = has_flag(d->flags, "SD_BALANCE_FORK");
                dom.balance_exec = has_flag(d->flags, "SD_BALANCE_EXEC");
                dom.prefer_sibling = has_flag(d->flags, "SD_PREFER_SIBLING");
            } else {
                dom.numa = d->name.starts_with("NUMA");  // NODE, a whole node, is none
                dom.prefer_sibling = !dom.numa;
                dom.share_llc = d->name == "SMT" || d->name == "CLS" || d->name == "MC";
            }
            dom.level = level_of(dom, *row[d->cpu]);
        }
        t.domains[it->second].cpus.set(Cpu(d->cpu));
        if (t.domains[it->second].share_llc) {
            const CpuMask& span = t.domains[it->second].span;
            t.has_llc_domain[d->cpu] = true;
            t.llc_id[d->cpu] =
                first_in_wrap(kMaskWords, 0, [&](unsigned i) { return span.w[i]; }).value_or(Cpu(d->cpu)).v;
        }
    }
    t.known = !t.domains.empty();
    t.finish();
    return t;
}

}  // namespace rewake
