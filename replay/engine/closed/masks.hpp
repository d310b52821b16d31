// SPDX-License-Identifier: GPL-2.0-or-later
// Which CPUs tasks may use, where that changes during a recording.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/mask.hpp"
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

/// All of a recording.
class MaskChanges {
  public:
    explicit MaskChanges(const TaskTable& table) : table_(table) {}
    /// `all`: in order of time.
    void begin_with(std::vector<MaskChange> all);
    Masks during(Ns from, Ns horizon) const;
    /// What `t` may use at `now`, which never falls.
    const CpuMask& of(TaskId t, Ns now);

  private:
    std::vector<uint32_t> at(Ns ts) const;  ///< by TaskId
    const TaskTable& table_;
    std::vector<MaskChange> all_;
    std::vector<uint32_t> now_;  ///< by TaskId; empty: no mask ever changes
    size_t next_ = 0;  ///< of `all_`, the first that `now_` does not have
};

}  // namespace rewake::closed
