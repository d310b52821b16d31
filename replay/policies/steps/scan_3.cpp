// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/scan_3.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace rewake {
namespace {

constexpr int kUnbounded = std::numeric_limits<int>::max();

std::string cpu_text(const Scan3Rules& r) {
    std::string s = "CPU pass: usable CPUs of target's LLC from target";
    if (r.sis_prop) s += ", bounded by avg_idle and scan cost (SIS_PROP)";
    if (r.sis_prop && r.counts_disallowed) s += ", which CPUs that are not allowed use up too";
    if (r.soft_last) s += "; idle-policy CPUs only when the bound runs out";
    return s;
}

int64_t& cost_of(Ctx& x, size_t clock) {
    const size_t clocks = x.v.scan_clocks.size();
    if (std::exchange(x.s.clocks, clocks) != clocks) x.s.scan_cost.assign(static_cast<size_t>(x.t.n_cpus) * clocks, 0);
    return x.s.scan_cost[x.w.waker.v * clocks + clock];
}

int bound_by(Ctx& x, const Scan3Rules& rules, int weight, size_t clock) {
    const int64_t idle = x.v.avg_idle[x.w.waker.v] / rules.idle_divisor;
    const int64_t cost = cost_of(x, clock) + 1, span_idle = weight * idle;
    return span_idle > rules.least * cost ? static_cast<int>(std::min<int64_t>(span_idle / cost, kUnbounded))
                                          : rules.least;
}

}  // namespace

CorePass::CorePass(const std::string& more, uint32_t inputs)
    : Step(Stage::scan, "core pass while has_idle_cores: first wholly idle core from target" + more,
           kHasIdleCores | kDomains | inputs) {}

bool CorePass::run(Ctx& x) const {
    x.look(kDomains);
    if (!x.t.smt_active) {
        WHY(x, "core pass: no SMT");
        return false;
    }
    const uint16_t llc = x.t.llc[x.target.v].v;
    x.look(kHasIdleCores);
    if (!x.s.hic[llc]) {
        WHY(x, "core pass: ", Llc(llc), " has_idle_cores=0");
        return false;
    }
    const CpuMask& span = x.t.llc_span[llc];
    const Words words = x.t.llc_words[llc];
    x.look_in_turn(words, x.target.v, [&](unsigned i) { return span.w[i] & x.w.allowed->w[i]; });
    LocalMask cpus(words, [&](unsigned i) { return span.w[i] & x.w.allowed->w[i]; });
    // A core that failed is no longer a candidate, so the next one is again the first.
    while (const auto core = first_in_wrap(words, x.target.v, [&](unsigned i) { return cpus.word(i); })) {
        bool idle = true;
        for (uint16_t s : x.t.siblings(*core)) {
            const Cpu c(s);
            x.touch(c);
            ++x.d.scanned;
            if (!(idle = x.idle.test(c))) break;
        }
        if (idle) {
            WHY(x, "core pass: ", Llc(llc), " has_idle_cores=1, core of CPU ", *core, " is the first idle one from ",
                x.target);
            return x.decide(pick(x, *core), Branch::core);
        }
        for (uint16_t s : x.t.siblings(*core)) cpus.clear(Cpu(s));
    }
    x.s.hic[llc] = 0;
    WHY(x, "core pass: ", Llc(llc), " has_idle_cores=1, but no core is idle -> cleared");
    return false;
}

CpuPass::CpuPass(Scan3Rules rules)
    : Step(Stage::scan, cpu_text(rules), kDomains | kAllowed | kIdlePolicy | (rules.sis_prop ? kNrIdleScan : 0u)),
      rules_(rules) {}

bool CpuPass::run(Ctx& x) const {
    x.look(kDomains);
    if (!x.t.has_llc_domain[x.w.waker.v]) {
        WHY(x, "CPU pass: none, waker CPU ", x.w.waker, " has no LLC domain");
        return false;
    }
    const uint16_t llc = x.t.llc[x.target.v].v;
    const CpuMask &span = x.t.llc_span[llc], &allowed = *x.w.allowed;
    const Words words = x.t.llc_words[llc];
    const unsigned start = x.target.v;
    x.look(kAllowed);
    const int weight = x.t.llc_weight[llc];
    const int most = rules_.sis_prop ? sis_prop_bound(x, rules_, weight) - 1 : kUnbounded;  // CPUs that are examined
    auto cpus = [&](unsigned i) { return rules_.counts_disallowed ? span.w[i] : span.w[i] & allowed.w[i]; };
    if (!x.soft_empty()) x.look(kIdlePolicy);
    x.look_in_turn(words, start, cpus);
    auto takes = [&](unsigned i) {
        return span.w[i] & allowed.w[i] & (rules_.soft_last ? x.idle.w[i] : x.usable_word(i));
    };
    const auto found = first_in_wrap(words, start, takes);
    const int examined = found ? count_in_wrap(words, start, *found, cpus) : count_all(words, cpus);
    x.d.scanned = static_cast<uint16_t>(x.d.scanned + std::min(examined, most));
    if (x.dirty) {
        int left = most;
        for_each_in_wrap(words, start, cpus, [&](Cpu c) { return x.touch(c), (found && c == *found) || --left == 0; });
    }
    count_scan(x, rules_, weight, examined);
    if (examined <= most) {
        if (found)
            WHY(x, "CPU pass: ", Llc(llc), " from ", start, ": CPU ", *found, " is the first idle one, number ",
                examined);
        else
            WHY(x, "CPU pass: ", Llc(llc), " from ", start, ": none of ", examined, " CPUs is idle");
        return found && x.decide(*found, Branch::cpu);
    }
    WHY(x, "CPU pass: ", Llc(llc), " from ", start, ": no idle CPU among the ", most, " that SIS_PROP lets it examine");
    if (!rules_.soft_last) return false;
    const auto soft = first_in_wrap(words, start, [&](unsigned i) { return span.w[i] & allowed.w[i] & x.soft.w[i]; });
    return soft && count_in_wrap(words, start, *soft, cpus) <= most && x.decide(*soft, Branch::cpu);
}

SiblingPass::SiblingPass(Scan3Rules rules)
    : Step(Stage::scan, rules.soft_last ? "sibling pass: idle siblings of target, else one with only idle-policy tasks"
                                        : "sibling pass: usable siblings of target"),
      rules_(rules) {}

bool SiblingPass::run(Ctx& x) const {
    if (!x.t.smt_active) {
        WHY(x, "sibling pass: no SMT");
        return false;
    }
    const CpuMask& span = x.t.llc_span[x.t.llc[x.target.v].v];
    std::optional<Cpu> soft;
    for (uint16_t s : x.t.siblings(x.target)) {
        const Cpu c(s);
        if (!x.w.allowed->test(c) || (rules_.siblings_in_llc && !span.test(c))) continue;
        ++x.d.scanned;
        if (!x.usable(c)) continue;
        if (!rules_.soft_last || x.idle.test(c)) {
            WHY(x, "sibling pass: sibling ", c, " of target ", x.target, " is idle");
            return x.decide(c, Branch::smt);
        }
        if (!soft) soft = c;
    }
    WHY(x, "sibling pass: no sibling of target ", x.target,
        soft ? " is idle; one has only idle-policy tasks" : " is idle");
    return soft && x.decide(*soft, Branch::smt);
}

int sis_prop_bound(Ctx& x, const Scan3Rules& rules, int weight) {
    x.look(kNrIdleScan);
    return bound_by(x, rules, weight, x.v.scan_clock);
}

void count_scan(Ctx& x, const Scan3Rules& rules, int weight, int examined) {
    const auto fits = [&](size_t clock) { return examined < bound_by(x, rules, weight, clock); };
    const bool here = !rules.sis_prop || fits(x.v.scan_clock), soft = rules.soft_last && !x.soft_empty();
    for (size_t k = 0; k < x.v.scan_clocks.size(); ++k) {
        const bool ends = !rules.sis_prop || fits(k);
        // Where it does not, what is met until the bound runs out may be taken.
        if (ends != here || (!ends && soft && k != x.v.scan_clock)) x.d.same_clocks &= ~(1u << k);
        if (!ends) continue;
        const ScanClock& clock = x.v.scan_clocks[k];
        int64_t& cost = cost_of(x, k);
        cost += (clock.base + clock.per_cpu * examined - cost) / 8;
    }
}

}  // namespace rewake
