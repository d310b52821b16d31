// SPDX-License-Identifier: GPL-2.0-or-later
// Seed 1: "sched: tweak select_idle_sibling to look for idle threads", Chris Mason, v2, 2016-04-08, on Linux 4.5
// (policies.md B1).
#pragma once

#include "replay/policies/columns.hpp"

namespace rewake {

/// Inputs of should_scan_idle. Times in ns; migration_cost -1 and 0 are the kernel's special values.
struct ShouldScan {
    int cfs_nr = 0;    ///< entities on the root cfs queue of the target CPU
    int most_cfs = 1;  ///< with which it scans
    bool fair = true, idle_policy = false;
    int64_t migration_cost = 500000;
    Ns clock = 0, exec_start = 0;
};
bool should_scan(const ShouldScan& in);

/// On `on`: its own column gives the posting, another one a hybrid. Throws std::invalid_argument where it has no meaning.
PolicyEntry idle_thread_scan_entry(const Column& on);

}  // namespace rewake
