// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/scan_ring.hpp"

namespace rewake {
namespace {

bool intersects(const CpuMask& a, const CpuMask& b, int words) {
    for (int i = 0; i < words; ++i)
        if (a.w[i] & b.w[i]) return true;
    return false;
}

bool within(const CpuMask& inner, const CpuMask& outer, int words) {
    for (int i = 0; i < words; ++i)
        if (inner.w[i] & ~outer.w[i]) return false;
    return true;
}

/// The group of `d` whose lowest CPU is `leader`.
const CpuMask& group_of(const Domain& d, Cpu leader) {
    return d.groups[sum_in_range(0, leader.v, [&](unsigned i) { return d.leaders.w[i]; }, [](uint64_t b) { return bit_count(b); }) - 1u];
}

}  // namespace

ScanRing::ScanRing(bool target_counts)
    : Step(Stage::scan, std::string("ring: first wholly idle group from target's, LLC level down to target's siblings") +
                            (target_counts ? "" : ", never target's own")),
      target_counts_(target_counts) {}

bool ScanRing::level(Ctx& x, const Domain& d, unsigned start) const {
    const int words = x.t.words;
    const CpuMask& allowed = *x.w.allowed;
    // Groups without an allowed CPU are passed over unseen; the others are known by their lowest CPU, the first one examined.
    CpuMask some;
    const CpuMask* reach = &d.leaders;
    if (!within(d.span, allowed, words)) {
        for (const CpuMask& g : d.groups)
            if (intersects(g, allowed, words)) some.set(*first_in_wrap(words, 0, [&](unsigned i) { return g.w[i]; }));
        reach = &some;
    }
    auto leaders = [&](unsigned i) { return reach->w[i]; };
    Cpu taken{};
    const bool found = for_each_in_wrap(words, start, [&](unsigned i) { return leaders(i) & x.idle.w[i]; }, [&](Cpu leader) {
        const CpuMask& g = group_of(d, leader);
        bool accept = true;
        for_each_cpu(words, [&](int i) { return g.w[i]; }, [&](Cpu c) {
            accept = x.idle.test(c) && (target_counts_ || c != x.target);
            if (c != leader) {
                ++x.d.scanned;
                x.touch(c);
            }
            return !accept;
        });
        taken = leader;
        return accept;
    });
    if (!found) {
        x.scanned_all(leaders);
        return false;
    }
    x.scanned(start, taken, leaders);
    const CpuMask& g = group_of(d, taken);
    return x.decide(*first_in_wrap(words, 0, [&](unsigned i) { return g.w[i] & allowed.w[i]; }), Branch::ring);
}

bool ScanRing::run(Ctx& x) const {
    const int top = x.t.llc_level[x.target.v];
    if (top == Topology::kNone) return false;
    x.look(kDomains);
    const std::vector<int>& stack = x.t.stack[x.target.v];
    for (int i = top; i >= 0; --i) {
        // Ring order starts at target's own group: its lowest CPU.
        unsigned start = x.target.v;
        if (i > 0) {
            const CpuMask& own = x.t.domains[stack[i - 1]].span;
            start = first_in_wrap(x.t.words, 0, [&](unsigned k) { return own.w[k]; })->v;
        }
        if (level(x, x.t.domains[stack[i]], start)) return true;
    }
    return false;
}

}  // namespace rewake
