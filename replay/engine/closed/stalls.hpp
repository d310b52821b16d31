// SPDX-License-Identifier: GPL-2.0-or-later
// Devices that stall (inferred): they answer nobody for a while, and then all that asked them meanwhile. Who is answered
// together goes on in step from then on. Modelled.
#pragma once

#include <vector>

#include "replay/engine/closed/script.hpp"

namespace rewake::closed {

/// Finds the stalls of a script: at least three tasks are answered within 20 us of each other, each after more than twice as
/// long as as a rule (median), and more than 20 us. Their answers take as long as they do as a rule, but for the stall.
void find_stalls(Script& script);

/// When `t` is answered, that would be at `due`.
Ns answered(const std::vector<Stall>& stalls, TaskId t, Ns due);

}  // namespace rewake::closed
