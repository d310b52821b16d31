// SPDX-License-Identifier: GPL-2.0-or-later
// What placement probes recorded of a decision: the inputs as the kernel's placement function saw them on entry
// (forms/tables.py `probe`, replay/probes.py).
#pragma once

#include <cstdint>
#include <optional>

#include "replay/model/ids.hpp"
#include "replay/policies/policy.hpp"

namespace rewake {

/// A column that may hold NULL; without values everything is NULL. `null` nullptr: nothing is.
template <class T>
struct OptionalColumn {
    const T* values = nullptr;
    const bool* null = nullptr;
    std::optional<T> at(size_t row) const {
        if (!values || (null && null[row])) return std::nullopt;
        return values[row];
    }
};

/// The probed inputs of one decision. Of the LLC and the run queue of the wakee's CPU where nothing else is said.
struct Probed {
    static constexpr int32_t kWfSync = 0x10;  ///< WF_SYNC of wake_flags, 5.11 and later
    std::optional<int32_t> wake_flags;
    std::optional<uint16_t> recent;  ///< recent_used_cpu of the wakee
    std::optional<uint32_t> flips;   ///< wakee_flips of the wakee
    std::optional<int64_t> util, load;  ///< of the wakee
    std::optional<int32_t> nr_idle_scan, has_idle_cores;
    std::optional<int64_t> rq_load;  ///< cfs load_avg
    std::optional<int32_t> rq_nr;    ///< nr_running
    bool any() const {
        return wake_flags || recent || flips || util || load || nr_idle_scan || has_idle_cores || rq_load || rq_nr;
    }
};

/// The same per decision. Only replays that use probes have values.
struct ProbeColumns {
    OptionalColumn<int64_t> id;  ///< event of the call; NULL: the placement function was not called, or not seen
    OptionalColumn<int32_t> wake_flags, nr_idle_scan, has_idle_cores, rq_nr;
    OptionalColumn<uint16_t> recent;
    OptionalColumn<uint32_t> flips;
    OptionalColumn<int64_t> util, load, rq_load;
    Probed at(size_t row) const {
        return {wake_flags.at(row),   recent.at(row),         flips.at(row),   util.at(row), load.at(row),
                nr_idle_scan.at(row), has_idle_cores.at(row), rq_load.at(row), rq_nr.at(row)};
    }
};

/// Sets the state that the recorded kernel's own column keeps to what its kernel had: recent_used_cpu and wakee_flips of
/// the wakee, has_idle_cores of its LLC. Other policies made other decisions, so theirs is not in the record (A13).
inline void take_private(PolicyState& s, const Probed& x, TaskId p, Llc llc) {
    PolicyState::Task& task = s.task(p);
    if (x.recent) {
        task.recent = Cpu(*x.recent);
        task.has_recent = true;
    }
    if (x.flips) task.flips = *x.flips;
    if (x.has_idle_cores && llc.v < s.hic.size()) s.hic[llc.v] = *x.has_idle_cores != 0;
}

}  // namespace rewake
