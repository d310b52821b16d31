// SPDX-License-Identifier: GPL-2.0-or-later
// Seed 2: "sched: wakeup buddy", Michael Wang, RFC, 2013-02-28, on Linux 3.8 (policies.md B2).
#pragma once

#include "replay/policies/composed.hpp"

namespace rewake {

/// curr woke p: counts it on both sides. A change of partner starts again at 0.
void wakeup_ref(PolicyState& s, TaskId curr, TaskId p);
/// Each of the two is the other's last waker and last wakee, at least `ref` times in a row after the first.
bool wakeup_related(PolicyState& s, TaskId curr, TaskId p, uint32_t ref);

PolicyEntry wakeup_buddy_entry();

}  // namespace rewake
