// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/idle_scan.hpp"

#include <algorithm>

namespace rewake {

int32_t nr_idle_scan_of(int64_t sum_util, int llc_size, int pct) {
    constexpr int64_t kFull = 1024;
    const int64_t x = sum_util / llc_size;
    const int64_t t = std::min(kFull, x * x * pct * pct / (10000 * kFull));
    return static_cast<int32_t>((kFull - t) * llc_size / kFull);
}

Balancer::Balancer(const Topology& topo)
    : topo_(topo), levels_(topo.stack.size()), cpus_(topo.llc_span.size()), pct_(topo.llc_span.size(), 117) {
    for (uint16_t c = 0; c < levels_.size(); ++c) {
        cpus_[topo.llc[c].v].push_back(Cpu(c));
        for (int d : topo.stack[c]) {
            const auto& groups = topo.domains[static_cast<size_t>(d)].groups;
            const auto own =
                std::find_if(groups.begin(), groups.end(), [&](const CpuMask& g) { return g.test(Cpu(c)); });
            if (own != groups.end()) levels_[c].push_back({d, static_cast<int>(own - groups.begin())});
        }
        if (const int l = topo.llc_level[c]; l != Topology::kNone)
            pct_[topo.llc[c].v] =
                topo.domains[static_cast<size_t>(topo.stack[c][static_cast<size_t>(l)])].imbalance_pct;
    }
}

bool Balancer::look(Cpu c, bool is_idle, int64_t jiffy, Ns tick, const CpuMask& idle) {
    bool writes = false;
    const int64_t longest = std::max<int64_t>(1, 100'000'000 * int64_t{topo_.online.count(topo_.words)} / tick);
    auto& levels = levels_[c.v];
    for (size_t l = 0; l < levels.size(); ++l) {
        Level& level = levels[l];
        const Domain& d = topo_.domains[static_cast<size_t>(level.domain)];
        if (!d.load_balance) continue;
        const int64_t ms = int64_t{d.weight} * (level.early ? 1 : 2) * (is_idle ? 1 : kBusyFactor);
        const int64_t interval = std::clamp<int64_t>((ms * 1'000'000 + tick - 1) / tick - !is_idle, 1, longest);
        if (jiffy < level.last + interval) continue;
        level.last = jiffy;
        level.early = false;  // unless it finds something to pull
        // should_we_balance(): the first idle CPU of its group does, or else the first one.
        const CpuMask& group = d.groups[static_cast<size_t>(level.group)];
        const auto first = first_in_wrap(topo_.words, 0, [&](unsigned i) { return group.w[i] & idle.w[i]; });
        const auto leads = first ? first : first_in_wrap(topo_.words, 0, [&](unsigned i) { return group.w[i]; });
        if (leads != c) break;
        writes |= static_cast<int>(l) == topo_.llc_level[c.v];
    }
    return writes;
}

void Balancer::pulled(Cpu from, Cpu to) {
    for (Level& level : levels_[to.v])
        if (topo_.domains[static_cast<size_t>(level.domain)].span.test(from)) {
            level.early = true;
            return;
        }
}

}  // namespace rewake
