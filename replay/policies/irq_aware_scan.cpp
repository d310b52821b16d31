// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/irq_aware_scan.hpp"

#include <limits>

namespace rewake {
namespace {

/// Of an idle core, the last sibling that is not heavy, else the one met first. The patch does not ask whether it is
/// allowed.
Cpu last_clean_sibling(const Ctx& x, Cpu core) {
    Cpu last = core;
    for (uint16_t s : x.t.siblings(core))
        if (!x.v.heavy(Cpu(s))) last = Cpu(s);
    return last;
}

/// What a pass came to so far: a clean CPU ends it, a heavy one is kept.
struct Found {
    std::optional<Cpu> clean, backup;
    bool take(const Ctx& x, Cpu c) {
        (x.v.heavy(c) ? backup : clean) = c;
        return clean.has_value();
    }
    bool decide(Ctx& x, Branch b, std::string_view pass) const {
        const auto cpu = clean ? clean : backup;
        if (cpu)
            WHY(x, pass, ": CPU ", *cpu, clean ? " is idle and not heavy" : " is idle, though heavy: none that is not");
        else
            WHY(x, pass, ": no CPU is idle");
        return cpu && x.decide(*cpu, b);
    }
};

unsigned start_of(const Ctx& x) { return x.target.v + 1u; }

}  // namespace

CleanCorePass::CleanCorePass() : CorePass(", its last sibling that is not interrupt-heavy", kIrqLoad) {}

Cpu CleanCorePass::pick(Ctx& x, Cpu core) const {
    x.look(kIrqLoad);
    return last_clean_sibling(x, core);
}

CleanCpuPass::CleanCpuPass(Scan3Rules rules)
    : Step(Stage::scan,
           std::string("CPU pass: idle CPUs of target's LLC from target that are not interrupt-heavy, else the last "
                       "heavy one") +
               (rules.sis_prop ? ", which is lost when the bound runs out (SIS_PROP)" : ""),
           kDomains | kAllowed | kIrqLoad | kIdlePolicy),
      rules_(rules) {}

bool CleanCpuPass::run(Ctx& x) const {
    x.look(kDomains);
    if (!x.t.has_llc_domain[x.w.waker.v]) {
        WHY(x, "CPU pass: none, waker CPU ", x.w.waker, " has no LLC domain");
        return false;
    }
    const uint16_t llc = x.t.llc[x.target.v].v;
    const CpuMask &span = x.t.llc_span[llc], &allowed = *x.w.allowed;
    x.look(kAllowed | kIrqLoad);
    const int weight = x.t.llc_weight[llc];
    int left = rules_.sis_prop ? sis_prop_bound(x, rules_, weight) : std::numeric_limits<int>::max();
    Found found;
    std::optional<Cpu> soft;
    int examined = 0;
    bool stopped = false;
    for_each_in_wrap(
        x.t.llc_words[llc], x.target.v,
        [&](unsigned i) { return rules_.counts_disallowed && rules_.sis_prop ? span.w[i] : span.w[i] & allowed.w[i]; },
        [&](Cpu c) {
            if (--left == 0) return stopped = true;
            ++examined;
            if (!allowed.test(c)) return false;
            const bool usable = x.usable(c);
            if (!rules_.soft_last || x.idle.test(c)) return usable && found.take(x, c);
            if (usable && !soft) soft = c;
            return false;
        });
    x.d.scanned = static_cast<uint16_t>(x.d.scanned + examined);
    WHY(x, "CPU pass from ", x.target, ": ", examined, " CPUs examined", stopped ? ", the bound ran out" : "");
    if (stopped) return soft && x.decide(*soft, Branch::cpu);
    count_scan(x, rules_, weight, examined);
    return found.decide(x, Branch::cpu, "CPU pass");
}

CleanSiblingPass::CleanSiblingPass(Scan3Rules rules)
    : Step(Stage::scan, "sibling pass: idle siblings of target that are not interrupt-heavy, else the last heavy one",
           kIrqLoad | kIdlePolicy),
      rules_(rules) {}

bool CleanSiblingPass::run(Ctx& x) const {
    if (!x.t.smt_active) {
        WHY(x, "sibling pass: no SMT");
        return false;
    }
    const CpuMask& span = x.t.llc_span[x.t.llc[x.target.v].v];
    x.look(kIrqLoad);
    Found found;
    std::optional<Cpu> soft;
    for (uint16_t s : x.t.siblings(x.target)) {
        const Cpu c(s);
        if (!x.w.allowed->test(c) || (rules_.siblings_in_llc && !span.test(c))) continue;
        ++x.d.scanned;
        if (!x.usable(c)) continue;
        if (rules_.soft_last && !x.idle.test(c)) {
            if (!soft) soft = c;
        } else if (found.take(x, c)) {
            break;
        }
    }
    return found.decide(x, Branch::smt, "sibling pass") || (soft && x.decide(*soft, Branch::smt));
}

CleanScanU::CleanScanU(ScanURules rules)
    : Step(Stage::scan,
           std::string("siblings of prev without has_idle_cores; ") +
               (rules.clusters ? "target's cluster, then the LLC" : "LLC") +
               " from target + 1: of an idle core with it the last sibling that is not interrupt-heavy, else usable "
               "CPUs that are not, else the last heavy one" +
               (rules.sis_util ? ", which is lost when nr_idle_scan runs out (SIS_UTIL)" : ""),
           kDomains | kAllowed | kIdlePolicy | kIrqLoad | kHasIdleCores | (rules.sis_util ? kNrIdleScan : 0u)),
      rules_(rules) {}

bool CleanScanU::siblings_of_prev(Ctx& x) const {
    const CpuMask& span = x.t.llc_span[x.t.llc[x.target.v].v];
    Found found;
    for (uint16_t s : x.t.siblings(x.w.prev)) {
        const Cpu c(s);
        if ((c == x.w.prev && !rules_.prev_itself) || !x.w.allowed->test(c)) continue;
        if (rules_.siblings_in_llc && !span.test(c)) continue;
        ++x.d.scanned;
        if (x.usable(c) && found.take(x, c)) break;
    }
    return found.decide(x, Branch::smt, "siblings of prev");
}

bool CleanScanU::run(Ctx& x) const {
    const int words = x.t.words;
    const uint16_t llc = x.t.llc[x.target.v].v;
    const CpuMask& span = x.t.llc_span[llc];
    x.look(kDomains | kIdlePolicy | kIrqLoad);
    if (x.t.smt_active) x.look(kHasIdleCores);
    const bool cores = x.t.smt_active && x.s.hic[llc];
    if (x.t.smt_active && !cores && x.t.share_cache(x.w.prev, x.target) && siblings_of_prev(x)) return true;
    if (rules_.waker_llc && !x.t.has_llc_domain[x.w.waker.v]) {
        WHY(x, "scan: none, waker CPU ", x.w.waker, " has no LLC domain");
        return false;
    }
    int left = kMaxCpus + 1;
    if (rules_.sis_util) left = sis_util_bound(x, rules_, x.t.llc_weight[llc]) + 1;
    WHY(x, "scan of ", Llc(llc), " from ", start_of(x), cores ? ", has_idle_cores set" : "", ", bound ", left - 1);
    if (left == 1) return false;
    CpuMask cpus;
    bool empty = true;
    for (int i = 0; i < words; ++i) empty = !(cpus.w[i] = span.w[i] & x.w.allowed->w[i]) && empty;
    if (rules_.empty_keeps_flag && cores && empty) return false;

    Found found;  // of CPUs; while idle cores are promised, of remembered threads
    std::optional<Cpu> core;
    bool stopped = false;
    auto idle_core = [&](Cpu first) {
        auto may = [&](Cpu c) { return rules_.remember_in_scan ? cpus.test(c) : x.w.allowed->test(c); };
        bool idle = true;
        for (uint16_t s : x.t.siblings(first)) {
            const Cpu c(s);
            x.touch(c);
            ++x.d.scanned;
            if (x.idle.test(c)) {
                if (!found.clean && may(c)) found.take(x, c);
                continue;
            }
            idle = false;
            if (found.clean) break;
            if (x.soft.test(c) && may(c)) {
                found.take(x, c);
                break;
            }
        }
        if (idle) core = last_clean_sibling(x, first);
        for (uint16_t s : x.t.siblings(first)) cpus.clear(Cpu(s));
        return idle;
    };
    auto visit = [&](Cpu c) {
        if (!cpus.test(c)) return false;
        if (cores) return idle_core(c);
        if (--left <= 0) return stopped = true;
        ++x.d.scanned;
        return x.usable(c) && found.take(x, c);
    };
    const unsigned start = start_of(x);
    bool ended = false;
    if (rules_.clusters && x.t.has_cluster[x.target.v]) {
        const CpuMask& cluster = x.t.cluster[x.target.v];
        ended = for_each_in_wrap(words, start, [&](unsigned i) { return cluster.w[i]; }, visit);
        for (int i = 0; i < words; ++i) cpus.w[i] &= ~cluster.w[i];
    }
    if (!ended) for_each_in_wrap(x.t.llc_words[llc], start, [&](unsigned i) { return span.w[i]; }, visit);
    if (core) {
        WHY(x, "core of CPU ", *core, " is wholly idle");
        return x.decide(*core, Branch::scan);
    }
    if (cores) x.s.hic[llc] = 0;
    return !stopped && found.decide(x, Branch::scan, "scan");
}

}  // namespace rewake
