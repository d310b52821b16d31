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

Balancer::Balancer(const Topology& topo, std::optional<int64_t> built)
    : words_(topo.words),
      online_(topo.online.count(topo.words)),
      levels_(topo.stack.size()),
      next_(2 * topo.stack.size(), kNever),
      cpus_(topo.llc_span.size()),
      pct_(topo.llc_span.size(), 117) {
    for (uint16_t c = 0; c < levels_.size(); ++c) {
        cpus_[topo.llc[c].v].push_back(Cpu(c));
        for (size_t l = 0; l < topo.stack[c].size(); ++l) {
            const Domain& domain = topo.domains[static_cast<size_t>(topo.stack[c][l])];
            const CpuMask* own = domain.group(Cpu(c));
            Level level;
            level.last = built.value_or(kNever);
            level.early = built.has_value();
            level.span = domain.span;
            level.least_ms = domain.least_ms;
            level.balances = domain.load_balance && own;
            if (level.balances) level.group = domain.balancing(*own);
            const bool in_llc = static_cast<int>(l) <= topo.llc_level[c];
            if (in_llc && domain.load_balance) pct_[topo.llc[c].v] = domain.imbalance_pct;
            if (in_llc && level.balances) {
                for (Level& below : levels_[c]) below.writes = false;
                level.writes = true;
            }
            levels_[c].push_back(level);
        }
    }
    set_tick(4'000'000);
}

void Balancer::set_tick(Ns tick) {
    for (auto& levels : levels_)
        for (Level& level : levels)
            for (const bool is_idle : {false, true})
                for (const bool early : {false, true}) {
                    const int64_t ms = int64_t{level.least_ms} * (early ? 1 : 2);
                    level.every[is_idle][early] = static_cast<int32_t>(jiffies(ms, !is_idle, tick, online_));
                }
}

bool Balancer::turn(Cpu c, bool is_idle, int64_t jiffy, const CpuMask& idle) {
    bool writes = false;
    auto& levels = levels_[c.v];
    for (Level& level : levels) {
        if (!level.balances || jiffy < level.last + level.every[is_idle][level.early]) continue;
        level.last = jiffy;
        level.early = false;  // unless it finds something to pull
        if (leader(level.group, {0, words_}, idle, [](Cpu) { return false; }) != c) break;
        writes |= level.writes;
    }
    for (const bool as_idle : {false, true}) {
        int64_t& next = next_[2u * c.v + as_idle];
        next = std::numeric_limits<int64_t>::max();
        for (const Level& level : levels)
            if (level.balances) next = std::min(next, level.last + level.every[as_idle][level.early]);
    }
    return writes;
}

void Balancer::pulled(Cpu from, Cpu to) {
    for (Level& level : levels_[to.v])
        if (level.balances && level.span.test(from)) {
            level.early = level.sure = true;
            next_[2u * to.v] = next_[2u * to.v + 1] = kNever;
            return;
        }
}

}  // namespace rewake
