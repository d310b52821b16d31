// SPDX-License-Identifier: GPL-2.0-or-later
// Yields of simulated tasks. Modelled; who yields: model/fair/yielding.hpp.
#pragma once

#include <vector>

#include "replay/engine/closed/script.hpp"

namespace rewake::closed {

/// Puts the yields into the scripts of those that yield that found nobody waiting: they yield all the time, after so much work
/// as between two that the recording shows (median).
void add_yields(Script& script, const std::vector<bool>& yields);

}  // namespace rewake::closed
