// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/costs.hpp"

#include <algorithm>

namespace rewake::closed {

Costs::Costs(const std::vector<CostSample>& samples, size_t fewest) {
    // How many groups are one group of each level, ever wider; whether placement was asked makes more than what the target is.
    constexpr std::array<size_t, 5> kJoined = {1, kTargets / 2, kTargets, kTargets * kContexts,
                                               kTargets * kContexts * kRelations};
    std::array<std::vector<size_t>, kJoined.size()> counts, place;
    for (size_t level = 0; level < kJoined.size(); ++level)
        counts[level].resize(of_.size() / kJoined[level]), place[level].resize(counts[level].size(), kNowhere);
    for (const CostSample& s : samples)
        for (size_t level = 0; level < kJoined.size(); ++level)
            ++counts[level][index(s.path, s.relation, s.in_task, s.target) / kJoined[level]];
    for (size_t i = 0; i < of_.size(); ++i) {
        size_t level = 0;
        while (level + 1 < kJoined.size() && counts[level][i / kJoined[level]] < fewest) ++level;
        const size_t group = i / kJoined[level];
        if (place[level][group] == kNowhere) {
            place[level][group] = groups_.size();
            groups_.emplace_back().reserve(counts[level][group]);
        }
        of_[i] = static_cast<uint16_t>(place[level][group]);
    }
    for (const CostSample& s : samples)
        for (size_t level = 0; level < kJoined.size(); ++level) {
            const size_t at = place[level][index(s.path, s.relation, s.in_task, s.target) / kJoined[level]];
            if (at != kNowhere) groups_[at].push_back(s.cost);
        }
    for (Samples& group : groups_)
        std::sort(group.begin(), group.end(), [](const Cost& a, const Cost& b) {
            return a.queue + a.run != b.queue + b.run ? a.queue + a.run < b.queue + b.run : a.queue < b.queue;
        });
}

Cost Costs::draw(Path path, Relation relation, bool in_task, uint8_t target, double draw) const {
    const Samples& s = groups_[of_[index(path, relation, in_task, std::min<uint8_t>(target, kTargets - 1))]];
    if (s.empty()) return {};
    return s[std::min(s.size() - 1, static_cast<size_t>(draw * static_cast<double>(s.size())))];
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

Ns move_cost(const Topology& topo, Cpu from, Cpu to, double factor) {
    if (topo.core[from.v] == topo.core[to.v]) return 0;
    const Ns base = topo.share_cache(from, to) ? 2'000 : topo.node[from.v] == topo.node[to.v] ? 20'000 : 50'000;
    return static_cast<Ns>(static_cast<double>(base) * factor);
}

}  // namespace rewake::closed
