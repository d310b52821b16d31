// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/scan_ring.hpp"

namespace rewake {
namespace {

bool intersects(const CpuMask& a, const CpuMask& b, Words words) {
    for (unsigned i = words.begin(); i < words.end(); ++i)
        if (a.w[i] & b.w[i]) return true;
    return false;
}

bool within(const CpuMask& inner, const CpuMask& outer, Words words) {
    for (unsigned i = words.begin(); i < words.end(); ++i)
        if (inner.w[i] & ~outer.w[i]) return false;
    return true;
}

Cpu lowest(const CpuMask& m, Words words) {
    return *first_in_wrap(words, 0, [&](unsigned i) { return m.w[i]; });
}

/// The group of `d` whose lowest CPU is `leader`.
const CpuMask& group_of(const Domain& d, Cpu leader) {
    return d.groups[sum_in_range(
                        d.words().begin() * 64, leader.v, [&](unsigned i) { return d.leaders.w[i]; }, bit_count) -
                    1u];
}

/// Leaders of the groups that have an allowed CPU.
CpuMask allowed_leaders(const Domain& d, const CpuMask& allowed) {
    CpuMask m;
    for (const CpuMask& g : d.groups)
        if (intersects(g, allowed, d.words())) m.set(lowest(g, d.words()));
    return m;
}

/// Whether a group whose leader is idle is idle as a whole and may be taken.
bool acceptable(Ctx& x, Words words, const CpuMask& group, Cpu leader, bool target_counts) {
    return !for_each_cpu(
        words, [&](int i) { return group.w[i]; },
        [&](Cpu c) {
            if (c != leader) {
                ++x.d.scanned;
                x.touch(c);
            }
            return !x.idle.test(c) || (c == x.target && !target_counts);
        });
}

/// One level: groups in ring order from the one whose lowest CPU is `start`. Groups without an allowed CPU are passed
/// over unseen; the others are known by their leader, which is examined first.
bool level(Ctx& x, const Domain& d, unsigned start, const CpuMask& leaders, bool target_counts) {
    const Words words = d.words();
    auto all = [&](unsigned i) { return leaders.w[i]; };
    const CpuMask* taken = nullptr;
    Cpu last{};
    for_each_in_wrap(
        words, start, [&](unsigned i) { return leaders.w[i] & x.idle.w[i]; },
        [&](Cpu leader) {
            const CpuMask& g = group_of(d, leader);
            if (!acceptable(x, words, g, leader, target_counts)) return false;
            taken = &g;
            last = leader;
            return true;
        });
    if (!taken) {
        WHY(x, "ring: no group of ", std::string_view(d.name), " (", &d.span, ") is idle");
        return x.scanned_all(words, all), false;
    }
    x.scanned(words, start, last, all);
    WHY(x, "ring: group ", taken, " of ", std::string_view(d.name), " (", &d.span, ") is the first idle one from ",
        start);
    return x.decide(*first_in_wrap(words, 0, [&](unsigned i) { return taken->w[i] & x.w.allowed->w[i]; }),
                    Branch::ring);
}

}  // namespace

ScanRing::ScanRing(bool target_counts)
    : Step(Stage::scan,
           std::string("ring: first wholly idle group from target's, LLC level down to target's siblings") +
               (target_counts ? "" : ", never target's own"),
           kDomains),
      target_counts_(target_counts) {}

bool ScanRing::run(Ctx& x) const {
    x.look(kDomains);
    const int top = x.t.llc_level[x.target.v];
    if (top == Topology::kNone) {
        WHY(x, "ring: target ", x.target, " has no LLC domain");
        return false;
    }
    const std::vector<int>& stack = x.t.stack[x.target.v];
    const CpuMask& allowed = *x.w.allowed;
    for (int i = top; i >= 0; --i) {
        const Domain& d = x.t.domains[stack[i]];
        const unsigned start =
            i > 0 ? x.t.domains[stack[i - 1]].first.v : x.target.v;  // lowest CPU of target's own group
        if (within(d.span, allowed, d.words()) ? level(x, d, start, d.leaders, target_counts_)
                                               : level(x, d, start, allowed_leaders(d, allowed), target_counts_))
            return true;
    }
    return false;
}

}  // namespace rewake
