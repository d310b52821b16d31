// SPDX-License-Identifier: GPL-2.0-or-later
// Seed 2: "sched: wakeup buddy", Michael Wang, RFC, 2013-02-28, on Linux 3.8 (policies.md B2).
#pragma once

#include "replay/policies/columns.hpp"

namespace rewake {

/// curr woke p: counts it on both sides. A change of partner starts again at 0.
void wakeup_ref(PolicyState& s, TaskId curr, TaskId p);
/// Each of the two is the other's last waker and last wakee, at least `ref` times in a row after the first.
bool wakeup_related(PolicyState& s, TaskId curr, TaskId p, uint32_t ref);

/// On `on`: its own column gives the posting, another one a hybrid. Throws std::invalid_argument where it has no meaning.
PolicyEntry wakeup_buddy_entry(const Column& on);

}  // namespace rewake
