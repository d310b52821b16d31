// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/scan_u.hpp"

#include <algorithm>

namespace rewake {
namespace {

/// The CPUs of an LLC, and where they lie.
struct Span {
    const CpuMask& cpus;
    Words words;
    LocalMask allowed(const Ctx& x) const {
        return {words, [&](unsigned i) { return cpus.w[i] & x.w.allowed->w[i]; }};
    }
};

/// select_idle_core: whether the whole core of `core` is idle. Otherwise removes it from `cpus` and may remember a
/// thread of it: a candidate, or with `any_allowed` any sibling that is allowed.
bool idle_core(Ctx& x, Cpu core, LocalMask& cpus, std::optional<Cpu>& remembered, bool any_allowed) {
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

/// has_idle_cores was wrong: clears it, and takes the remembered thread if there is one.
bool no_core(Ctx& x, std::optional<Cpu> remembered) {
    const Llc llc = x.t.llc[x.target.v];
    x.s.hic[llc.v] = 0;
    WHY(x, "core search: no core is idle -> ", llc, " has_idle_cores cleared",
        remembered ? "; an idle thread was met" : "; no idle thread was met");
    return remembered && x.decide(*remembered, Branch::scan);
}

/// First core in wrap order from `start` that is wholly idle; else the remembered thread, and the flag was wrong.
bool search_cores(Ctx& x, const Span& span, unsigned start, const ScanURules& rules) {
    LocalMask cpus = span.allowed(x);
    std::optional<Cpu> remembered;
    // A core that failed is no longer a candidate, so the next one is again the first.
    while (const auto c = first_in_wrap(span.words, start, [&](unsigned i) { return cpus.word(i); }))
        if (idle_core(x, *c, cpus, remembered, !rules.remember_in_scan)) {
            WHY(x, "core search: CPU ", *c, " is the first of a whole idle core from ", start);
            return x.decide(*c, Branch::scan);
        }
    return no_core(x, remembered);
}

/// First usable CPU in wrap order from `start`, among the first `nr` candidates; `exact`: that is nr_idle_scan itself.
bool search_cpus(Ctx& x, const Span& span, unsigned start, int nr, bool exact) {
    const Words words = span.words;
    auto cpus = [&](unsigned i) { return span.cpus.w[i] & x.w.allowed->w[i]; };
    const auto found = first_in_wrap(words, start, [&](unsigned i) { return cpus(i) & x.usable_word(i); });
    const int examined = found ? count_in_wrap(words, start, *found, cpus) : count_all(words, cpus);
    x.d.scanned = static_cast<uint16_t>(x.d.scanned + std::min(examined, nr));
    if (x.dirty) {
        int left = nr;
        for_each_in_wrap(words, start, cpus, [&](Cpu c) { return x.touch(c), (found && c == *found) || --left == 0; });
    }
    const bool in_time = found && examined <= nr;
    if (exact) {
        x.d.same_from = in_time ? examined : 0;
        x.d.same_to = found && !in_time ? examined - 1 : kMaxCpus;
    }
    if (in_time)
        WHY(x, "idle scan from ", start, ": CPU ", *found, " is the first idle one, number ", examined);
    else if (examined > nr)
        WHY(x, "idle scan from ", start, ": no idle CPU among the first ", nr, ", which is nr_idle_scan");
    else
        WHY(x, "idle scan from ", start, ": none of ", examined, " CPUs is idle");
    return in_time && x.decide(*found, Branch::scan);
}

/// Cluster machines: target's cluster first, then the rest of the LLC, under one bound.
bool search_clusters(Ctx& x, const Span& span, unsigned start, int nr, bool idle_cores, const ScanURules& rules) {
    const CpuMask& cluster = x.t.cluster[x.target.v];
    LocalMask cpus = span.allowed(x);
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
        x.t.words, start, [&](unsigned i) { return cluster.w[i]; }, [&](Cpu c) { return cpus.test(c) && visit(c); });
    if (!found && !stopped) {
        cpus.clear(cluster);
        for_each_in_wrap(
            span.words, start, [&](unsigned i) { return span.cpus.w[i]; },
            [&](Cpu c) { return cpus.test(c) && visit(c); });
    }
    if (found)
        WHY(x, "scan from ", start, ", cluster ", &cluster, " first: CPU ", x.d.cpu, idle_cores ? " has" : " is",
            idle_cores ? " a whole idle core" : " the first idle one");
    else if (!idle_cores)
        WHY(x, "scan from ", start, ", cluster ", &cluster, " first: no idle CPU",
            stopped ? " before nr_idle_scan ran out" : "");
    return found || !idle_cores ? found : no_core(x, remembered);
}

std::string scan_text(const ScanURules& r) {
    std::string s = std::string("siblings of prev") + (r.prev_itself ? " and prev" : "") +
                    " without has_idle_cores; LLC from target + 1: idle cores with it, else usable CPUs";
    if (r.clusters) s += ", target's cluster first";
    return s + (r.sis_util ? ", at most nr_idle_scan (SIS_UTIL)" : "");
}

}  // namespace

ScanU::ScanU(ScanURules rules)
    : Step(Stage::scan, scan_text(rules), kDomains | kIdlePolicy | kHasIdleCores | (rules.sis_util ? kNrIdleScan : 0u)),
      rules_(rules) {}

bool ScanU::run(Ctx& x) const {
    const uint16_t llc = x.t.llc[x.target.v].v;
    const Span span{x.t.llc_span[llc], x.t.llc_words[llc]};
    x.look(kDomains | kIdlePolicy);
    bool idle_cores = false;
    if (x.t.smt_active) {
        x.look(kHasIdleCores);
        idle_cores = x.s.hic[llc];
        if (!idle_cores && x.t.share_cache(x.w.prev, x.target))
            for (uint16_t sibling : x.t.siblings(x.w.prev)) {
                const Cpu c{sibling};
                if ((c == x.w.prev && !rules_.prev_itself) || !x.w.allowed->test(c)) continue;
                if (rules_.siblings_in_llc && !span.cpus.test(c)) continue;
                ++x.d.scanned;
                if (x.usable(c)) {
                    WHY(x, "siblings: ", Llc(llc), " has_idle_cores=0, CPU ", c, " of prev's core is idle");
                    return x.decide(c, Branch::smt);
                }
            }
        WHY(x, "scan: ", Llc(llc),
            idle_cores ? " has_idle_cores=1 -> core search" : " has_idle_cores=0, no idle sibling of prev");
    }
    if (rules_.waker_llc && !x.t.has_llc_domain[x.w.waker.v]) {
        WHY(x, "scan: none, waker CPU ", x.w.waker, " has no LLC domain");
        return false;
    }
    int nr = kMaxCpus;
    const bool exact = rules_.sis_util && rules_.util_pct == ScanURules::kUtilPct;
    if (rules_.sis_util) {
        nr = sis_util_bound(x, rules_, x.t.llc_weight[llc]);
        if (nr == 0) {  // also with has_idle_cores, which then stays set
            if (exact) x.d.same_from = x.d.same_to = 0;
            WHY(x, "scan: ", Llc(llc), " nr_idle_scan=0 -> none");
            return false;
        }
    }
    if (rules_.empty_keeps_flag && idle_cores &&
        !first_in_wrap(span.words, 0, [&](unsigned i) { return span.cpus.w[i] & x.w.allowed->w[i]; })) {
        WHY(x, "scan: no CPU of ", Llc(llc), " is allowed");
        return false;
    }
    if (exact && idle_cores) x.d.same_from = 1, x.d.same_to = kMaxCpus;  // a core search knows no bound
    const unsigned start = x.target.v + 1u;
    x.look_in_turn(span.words, start, [&](unsigned i) { return span.cpus.w[i] & x.w.allowed->w[i]; });
    if (rules_.clusters && x.t.has_cluster[x.target.v]) return search_clusters(x, span, start, nr, idle_cores, rules_);
    return idle_cores ? search_cores(x, span, start, rules_) : search_cpus(x, span, start, nr, exact);
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
