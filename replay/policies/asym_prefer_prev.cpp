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
        .author = "Vincent Guittot",
        .date = "2020-10-28",
        .posting = "[PATCH v2] sched/fair: prefer prev cpu in asymmetric wakeup path",
        .kernel = row.kernel,
        .oracle_column = "v5.9+seed4",
        .reference = false,
        .params = column_params(row),
        .steps = {},
        .quirks = column_quirks(row),
        .deviations = column_deviations(row),
        .reads_irq = false,
        .inputs = 0,
        .base = "linux-5.9"};
    info.quirks.insert(
        info.quirks.begin(),
        {"X3 does not ask whether p fits, on purpose",
         "an idle prev or recent CPU outside target's LLC is found by the scan only, which starts at target",
         "a symmetric island of an asymmetric machine: X1, X2 and X4 ask whether p fits, the scans do not",
         "symmetric machines: the same as linux-5.9"});
    return composed_entry(std::move(info), [](const PolicyParams& p, const Topology& t) { return compose(row, p, t); });
}

}  // namespace rewake
