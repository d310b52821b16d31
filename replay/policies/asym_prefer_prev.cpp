// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/asym_prefer_prev.hpp"

#include "replay/policies/columns.hpp"

namespace rewake {

PolicyEntry asym_prefer_prev_entry() {
    static const Column row = [] {
        Column c = column("linux-5.9");
        c.asym = Asym::last;  // X0 goes, X1, X2 and X4 (deliberately not X3) ask whether p fits, and X5 ends the search
        return c;
    }();
    PolicyInfo info{
        .name = "asym-prefer-prev",
        .summary = "Linux 5.9 that tries target, prev and the recent CPU before it scans an asymmetric machine",
        .source = "Vincent Guittot, [PATCH v2] sched/fair: prefer prev cpu in asymmetric wakeup path, 2020-10-28",
        .oracle_column = "v5.9+seed4",
        .reference = false,
        .params = column_params(row),
        .steps = {},
        .deviations = column_deviations(row),
        .reads_irq = false};
    return composed_entry(std::move(info), [](const PolicyParams& p, const Topology& t) { return compose(row, p, t); });
}

}  // namespace rewake
