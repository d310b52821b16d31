// SPDX-License-Identifier: GPL-2.0-or-later
// Seed 4: "sched/fair: prefer prev cpu in asymmetric wakeup path", Vincent Guittot, v2, 2020-10-28, on Linux 5.10-rc,
// which places as 5.9 does (policies.md B4).
#pragma once

#include "replay/policies/columns.hpp"

namespace rewake {

/// On `on`: its own column gives the posting, another one a hybrid.
PolicyEntry asym_prefer_prev_entry(const Column& on);

}  // namespace rewake
