// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/scan_u.hpp"

#include <algorithm>

namespace rewake {
namespace {

/// Remaining candidates of a core search; only the words in use are touched.
struct Candidates {
    uint64_t w[kMaskWords];
    bool test(Cpu c) const { return (w[c.v >> 6] >> (c.v & 63)) & 1; }
    void clear(Cpu c) { w[c.v >> 6] &= ~(uint64_t{1} << (c.v & 63)); }
};

/// select_idle_core: whether the whole core of `core` is idle. Otherwise removes it from `cpus` and may remember a
/// thread of it: a candidate, or with `any_allowed` any sibling that is allowed.
bool idle_core(Ctx& x, Cpu core, Candidates& cpus, std::optional<Cpu>& remembered, bool any_allowed) {
    auto may = [&](Cpu c) { return any_allowed ? x.w.allowed->test(c) : cpus.test(c); };
    bool idle = true;
    for (uint16_t sibling : x.t.siblings(core)) {
        const Cpu c{sibling};
        x.touch(c);
        ++x.d.scanned;
        if (x.idle.test(c)) {
            if (!remembered && may(c)) remembered = c;
            continue;
        }
        idle = false;
        if (remembered) break;
        x.look(kIdlePolicy);
        if (x.soft.test(c) && may(c)) {
            remembered = c;
            break;
        }
    }
    if (!idle)
        for (uint16_t c : x.t.siblings(core)) cpus.clear(Cpu(c));
    return idle;
}

/// First core in wrap order from `start` that is wholly idle; else the remembered thread, and the flag was wrong.
bool search_cores(Ctx& x, const CpuMask& span, unsigned start, const ScanURules& rules) {
    Candidates cpus;
    for (int i = 0; i < x.t.words; ++i) cpus.w[i] = span.w[i] & x.w.allowed->w[i];
    std::optional<Cpu> remembered;
    // A core that failed is no longer a candidate, so the next one is again the first.
    while (const auto c = first_in_wrap(x.t.words, start, [&](unsigned i) { return cpus.w[i]; }))
        if (idle_core(x, *c, cpus, remembered, !rules.remember_in_scan)) return x.decide(*c, Branch::scan);
    x.s.hic[x.t.llc[x.target.v].v] = 0;
    return remembered && x.decide(*remembered, Branch::scan);
}

/// First usable CPU in wrap order from `start`, among the first `nr` candidates.
bool search_cpus(Ctx& x, const CpuMask& span, unsigned start, int nr) {
    const int words = x.t.words;
    auto cpus = [&](unsigned i) { return span.w[i] & x.w.allowed->w[i]; };
    const auto found = first_in_wrap(words, start, [&](unsigned i) { return cpus(i) & x.usable_word(i); });
    const int examined = found ? count_in_wrap(words, start, *found, cpus)
                               : sum_in_range(0, words * 64u - 1, cpus, [](uint64_t b) { return bit_count(b); });
    x.d.scanned = static_cast<uint16_t>(x.d.scanned + std::min(examined, nr));
    if (x.dirty) {
        int left = nr;
        for_each_in_wrap(words, start, cpus, [&](Cpu c) { return x.touch(c), (found && c == *found) || --left == 0; });
    }
    return found && examined <= nr && x.decide(*found, Branch::scan);
}

/// Cluster machines: target's cluster first, then the rest of the LLC, under one bound.
bool search_clusters(Ctx& x, const CpuMask& span, unsigned start, int nr, bool idle_cores, const ScanURules& rules) {
    const int words = x.t.words;
    const CpuMask& cluster = x.t.cluster[x.target.v];
    Candidates cpus;
    for (int i = 0; i < words; ++i) cpus.w[i] = span.w[i] & x.w.allowed->w[i];
    std::optional<Cpu> remembered;
    int left = nr + 1;
    bool found = false, stopped = false;
    auto visit = [&](Cpu c) {
        if (idle_cores)
            return found = idle_core(x, c, cpus, remembered, !rules.remember_in_scan) && x.decide(c, Branch::scan);
        if (--left <= 0) return stopped = true;
        ++x.d.scanned;
        return found = x.usable(c) && x.decide(c, Branch::scan);
    };
    for_each_in_wrap(
        words, start, [&](unsigned i) { return cluster.w[i]; }, [&](Cpu c) { return cpus.test(c) && visit(c); });
    if (!found && !stopped) {
        for (int i = 0; i < words; ++i) cpus.w[i] &= ~cluster.w[i];
        for_each_in_wrap(
            words, start, [&](unsigned i) { return span.w[i]; }, [&](Cpu c) { return cpus.test(c) && visit(c); });
    }
    if (found || !idle_cores) return found;
    x.s.hic[x.t.llc[x.target.v].v] = 0;
    return remembered && x.decide(*remembered, Branch::scan);
}

std::string scan_text(const ScanURules& r) {
    std::string s = std::string("siblings of prev") + (r.prev_itself ? " and prev" : "") +
                    " without has_idle_cores; LLC from target + 1: idle cores with it, else usable CPUs";
    if (r.clusters) s += ", target's cluster first";
    return s + (r.sis_util ? ", at most nr_idle_scan (SIS_UTIL)" : "");
}

}  // namespace

ScanU::ScanU(ScanURules rules) : Step(Stage::scan, scan_text(rules)), rules_(rules) {}

bool ScanU::run(Ctx& x) const {
    const uint16_t llc = x.t.llc[x.target.v].v;
    const CpuMask& span = x.t.llc_span[llc];
    x.look(kDomains | kIdlePolicy);
    bool idle_cores = false;
    if (x.t.smt_active) {
        x.look(kHasIdleCores);
        idle_cores = x.s.hic[llc];
        if (!idle_cores && x.t.share_cache(x.w.prev, x.target))
            for (uint16_t sibling : x.t.siblings(x.w.prev)) {
                const Cpu c{sibling};
                if ((c == x.w.prev && !rules_.prev_itself) || !x.w.allowed->test(c)) continue;
                if (rules_.siblings_in_llc && !span.test(c)) continue;
                ++x.d.scanned;
                if (x.usable(c)) return x.decide(c, Branch::smt);
            }
    }
    if (rules_.waker_llc && !x.t.has_llc_domain[x.w.waker.v]) return false;
    int nr = kMaxCpus;
    if (rules_.sis_util) {
        nr = sis_util_bound(x, rules_, x.t.llc_weight[llc]);
        if (nr == 0) return false;  // also with has_idle_cores, which then stays set
    }
    if (rules_.empty_keeps_flag && idle_cores &&
        !first_in_wrap(x.t.words, 0, [&](unsigned i) { return span.w[i] & x.w.allowed->w[i]; }))
        return false;
    const unsigned start = x.target.v + 1u;
    if (rules_.clusters && x.t.has_cluster[x.target.v]) return search_clusters(x, span, start, nr, idle_cores, rules_);
    return idle_cores ? search_cores(x, span, start, rules_) : search_cpus(x, span, start, nr);
}

int sis_util_bound(Ctx& x, const ScanURules& rules, int weight) {
    x.look(kNrIdleScan);
    const uint16_t llc = x.t.llc[x.target.v].v;
    const int64_t nr = x.v.nr_idle_scan[llc], size = x.t.llc_weight[llc];
    if (rules.util_pct == ScanURules::kUtilPct && weight == size) return static_cast<int>(nr);
    constexpr int64_t kFull = 1024, kPct2 = ScanURules::kUtilPct * ScanURules::kUtilPct;
    const int64_t taken = kFull - std::min(kFull, nr * kFull / size);  // x^2 pct^2 / (10000 * 1024) of A7
    return static_cast<int>((kFull - std::min(kFull, taken * rules.util_pct * rules.util_pct / kPct2)) * weight /
                            kFull);
}

void update_idle_core(PolicyState& s, const Topology& t, Cpu c, bool core_idle) {
    if (core_idle && t.smt_active && t.has_llc_domain[c.v]) s.hic[t.llc[c.v].v] = 1;
}

}  // namespace rewake
