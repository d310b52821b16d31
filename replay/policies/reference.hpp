// SPDX-License-Identifier: GPL-2.0-or-later
// Reference policies: what was recorded, the trivial rules, a null model and an unreachable bound.
#pragma once

#include "replay/policies/composed.hpp"

namespace rewake {

std::vector<PolicyEntry> reference_entries();

}  // namespace rewake
