// SPDX-License-Identifier: GPL-2.0-or-later
// Seed 5: "sched: Userspace Hinting for Task Placement", K Prateek Nayak, RFC, 2022-09-10, on Linux 6.0 (policies.md
// B5).
#pragma once

#include "replay/policies/columns.hpp"

namespace rewake {

/// On `on`: its own column gives the posting, another one a hybrid. Throws std::invalid_argument where it has no meaning.
PolicyEntry userspace_hints_entry(const Column& on);

}  // namespace rewake
