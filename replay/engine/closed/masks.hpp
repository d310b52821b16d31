// SPDX-License-Identifier: GPL-2.0-or-later
// Which CPUs tasks may use, where that changes during a recording.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/tasks.hpp"

namespace rewake::closed {

/// From `ts` on `p` may use the CPUs of another mask: who changed it is not in the scripts, so it changes when it did.
struct MaskChange {
    Ns ts = 0;
    TaskId p{};
    uint32_t mask = 0;  ///< index into TaskTable::masks
};

/// Those of a window.
struct Masks {
    std::vector<uint32_t> at_begin;  ///< by TaskId; empty: those of the snapshot are in force to the end
    std::vector<MaskChange> later;  ///< in order of time
};

/// What `all`, in order of time, comes to for a window.
Masks masks_of(const std::vector<MaskChange>& all, const TaskTable& table, Ns from, Ns horizon);

}  // namespace rewake::closed
