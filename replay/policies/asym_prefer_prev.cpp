// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/asym_prefer_prev.hpp"

namespace rewake {

PolicyEntry asym_prefer_prev_entry(const Column& on) {
    Column row = on;
    std::vector<std::string> port;
    if (on.asym == Asym::none) {
        row.fit = FitRule::clamp_odd;
        port.push_back(std::string(on.name) +
                       " does not look at capacities here: whether p fits, and the capacity scan, are the posting's");
    } else if (on.asym == Asym::last) {
        port.push_back(std::string(on.name) + " has the posting merged: it decides the same without it");
    } else if (on.asym == Asym::last_x3) {
        port.push_back(std::string(on.name) +
                       " has the posting merged, and asks in X3 whether prev fits: only that question goes");
    }
    // X0 goes, X1, X2 and X4 (deliberately not X3) ask whether p fits, and X5 ends the search.
    row.asym = Asym::last;
    PolicyInfo info{
        .name = "asym-prefer-prev",
        .summary = "that tries target, prev and the recent CPU before it scans an asymmetric machine",
        .source = "Vincent Guittot, [PATCH v2] sched/fair: prefer prev cpu in asymmetric wakeup path, 2020-10-28",
        .oracle_column = "v5.9+seed4",
        .reference = false,
        .params = {},
        .steps = {},
        .deviations = {"machines without different capacities: as the column"},
        .reads_irq = false,
        .base = "linux-5.9"};
    return composed_entry(seed_info(std::move(info), row, std::move(port)),
                          [row](const PolicyParams& p, const Topology& t) { return compose(configured(row, p), t); });
}

}  // namespace rewake
