// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/costs.hpp"

#include <algorithm>
#include <tuple>

namespace rewake::closed {

Costs::Costs(const std::vector<CostSample>& samples, size_t fewest) {
    // How many groups are one group of each level, ever wider; whether placement was asked makes more than what the target is.
    constexpr std::array<size_t, 5> kJoined = {1, kTargets / 2, kTargets, kTargets * kContexts,
                                               kTargets * kContexts * kRelations};
    std::array<std::vector<size_t>, kJoined.size()> counts, place;
    std::vector<Group> groups;
    std::vector<uint32_t> filled;
    std::array<size_t, std::tuple_size_v<decltype(of_)>> of;
    for (size_t level = 0; level < kJoined.size(); ++level)
        counts[level].resize(of_.size() / kJoined[level]), place[level].resize(counts[level].size(), kNowhere);
    for (const CostSample& s : samples)
        for (size_t level = 0; level < kJoined.size(); ++level)
            ++counts[level][index(s.path, s.relation, s.in_task, s.target) / kJoined[level]];
    size_t all = 0;
    for (size_t i = 0; i < of_.size(); ++i) {
        size_t level = 0;
        while (level + 1 < kJoined.size() && counts[level][i / kJoined[level]] < fewest) ++level;
        const size_t group = i / kJoined[level];
        if (place[level][group] == kNowhere) {
            place[level][group] = groups.size();
            groups.push_back({static_cast<uint32_t>(all), static_cast<uint32_t>(counts[level][group])});
            all += counts[level][group];
        }
        of[i] = place[level][group];
    }
    // Each goes to its place at once: beside what stays nothing is held.
    samples_.resize(all), filled.resize(groups.size());
    for (const CostSample& s : samples)
        for (size_t level = 0; level < kJoined.size(); ++level) {
            const size_t at = place[level][index(s.path, s.relation, s.in_task, s.target) / kJoined[level]];
            if (at != kNowhere) samples_[groups[at].first + filled[at]++] = keep(s.cost);
        }
    for (const Group& g : groups)
        std::sort(samples_.begin() + g.first, samples_.begin() + g.first + g.n, [&](const Kept& x, const Kept& y) {
            const Cost a = cost(x), b = cost(y);
            return a.queue + a.run != b.queue + b.run ? a.queue + a.run < b.queue + b.run : a.queue < b.queue;
        });
    for (size_t i = 0; i < of_.size(); ++i) of_[i] = groups[of[i]];
}

Cost Costs::stand_in(Path path, Relation relation, bool in_task, double draw) const {
    const auto of = [&](Path p) {
        const Group g = group(p, relation, in_task, 0);
        return g.n == 0 ? Cost{} : cost(samples_[at(g, draw)]);
    };
    const Cost idle = of(Path::idle);
    switch (path) {
        case Path::busy: return {idle.queue, 0};
        case Path::preempt:
        case Path::in_call: return {0, idle.run};
        default: break;
    }
    if (group(Path::idle, relation, in_task, 0).n > 0) return {idle.queue, idle.run};
    return {of(Path::busy).queue, of(Path::preempt).run};
}

Costs::Kept Costs::keep(const Cost& c) {
    if (c.queue < kLong && c.run < kLong)  // `leave` is a part of `queue`
        return {static_cast<uint32_t>(c.queue), static_cast<uint32_t>(c.run), static_cast<uint32_t>(c.leave)};
    long_.push_back(c);
    return {kLong, static_cast<uint32_t>(long_.size() - 1), 0};
}

double uniform(uint64_t seed, uint64_t a, uint64_t b) {
    uint64_t x = seed;
    for (uint64_t v : {a, b}) {  // splitmix64
        x += 0x9e3779b97f4a7c15 + v * 0xd1342543de82ef95;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
        x ^= x >> 31;
    }
    return static_cast<double>(x >> 11) * 0x1.0p-53;
}

}  // namespace rewake::closed
