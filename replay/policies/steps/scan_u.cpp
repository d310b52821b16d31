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
/// thread of it.
bool idle_core(Ctx& x, Cpu core, Candidates& cpus, std::optional<Cpu>& remembered) {
    bool idle = true;
    for (uint16_t sibling : x.t.siblings(core)) {
        const Cpu c{sibling};
        x.touch(c);
        ++x.d.scanned;
        if (x.idle.test(c)) {
            if (!remembered && cpus.test(c)) remembered = c;
            continue;
        }
        idle = false;
        if (remembered) break;
        x.look(kIdlePolicy);
        if (x.soft.test(c) && cpus.test(c)) {
            remembered = c;
            break;
        }
    }
    if (!idle)
        for (uint16_t c : x.t.siblings(core)) cpus.clear(Cpu(c));
    return idle;
}

/// First core in wrap order from `start` that is wholly idle; else the remembered thread, and the flag was wrong.
bool search_cores(Ctx& x, const CpuMask& span, unsigned start) {
    Candidates cpus;
    for (int i = 0; i < x.t.words; ++i) cpus.w[i] = span.w[i] & x.w.allowed->w[i];
    std::optional<Cpu> remembered;
    // A core that failed is no longer a candidate, so the next one is again the first.
    while (const auto c = first_in_wrap(x.t.words, start, [&](unsigned i) { return cpus.w[i]; }))
        if (idle_core(x, *c, cpus, remembered)) return x.decide(*c, Branch::scan);
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

}  // namespace

ScanU::ScanU(bool sis_util)
    : Step(Stage::scan,
           std::string(
               "siblings of prev without has_idle_cores; LLC from target + 1: idle cores with it, else usable CPUs") +
               (sis_util ? ", at most nr_idle_scan (SIS_UTIL)" : "")),
      sis_util_(sis_util) {}

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
                if (c == x.w.prev || !x.w.allowed->test(c) || !span.test(c)) continue;
                ++x.d.scanned;
                if (x.usable(c)) return x.decide(c, Branch::smt);
            }
    }
    int nr = kMaxCpus;
    if (sis_util_) {
        x.look(kNrIdleScan);
        nr = x.v.nr_idle_scan[llc];
        if (nr == 0) return false;  // also with has_idle_cores, which then stays set
    }
    const unsigned start = x.target.v + 1u;
    return idle_cores ? search_cores(x, span, start) : search_cpus(x, span, start, nr);
}

void update_idle_core(PolicyState& s, const Topology& t, Cpu c, bool core_idle) {
    if (core_idle && t.smt_active && t.has_llc_domain[c.v]) s.hic[t.llc[c.v].v] = 1;
}

}  // namespace rewake
