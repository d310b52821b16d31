// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/idle_scan.hpp"

#include <algorithm>

namespace rewake {

int32_t nr_idle_scan_of(int64_t sum_util, int llc_size) {
    constexpr int64_t kPct = 117, kFull = 1024;
    const int64_t x = sum_util / llc_size;
    const int64_t t = std::min(kFull, x * x * kPct * kPct / (10000 * kFull));
    return static_cast<int32_t>((kFull - t) * llc_size / kFull);
}

IdleScanModel::IdleScanModel(const Topology& topo) {
    groups_.resize(topo.llc_span.size());
    for (size_t l = 0; l < groups_.size(); ++l) {
        for_each_cpu(
            topo.words, [&](int i) { return topo.llc_span[l].w[i]; },
            [&](Cpu c) {
                groups_[l].cpus.push_back(c);
                return false;
            });
        groups_[l].interval = static_cast<Ns>(std::max<size_t>(groups_[l].cpus.size(), 1)) * 1'000'000;
    }
}

}  // namespace rewake
