// SPDX-License-Identifier: GPL-2.0-or-later
// Seed 5: "sched: Userspace Hinting for Task Placement", K Prateek Nayak, RFC, 2022-09-10, on Linux 6.0 (policies.md
// B5).
#pragma once

#include "replay/policies/composed.hpp"

namespace rewake {

PolicyEntry userspace_hints_entry();

}  // namespace rewake
