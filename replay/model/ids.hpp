// SPDX-License-Identifier: GPL-2.0-or-later
// Strong types for the numbers that must not be confused: CPUs, tasks and last-level caches.
#pragma once

#include <compare>
#include <cstdint>

namespace rewake {

/// A number with a name. `Tag` keeps a CPU from being used as a task.
template <class Tag, class Rep>
struct Id {
    Rep v{};
    constexpr Id() = default;
    constexpr explicit Id(Rep value) : v(value) {}
    friend constexpr auto operator<=>(Id, Id) = default;
};

using Cpu = Id<struct CpuTag, uint16_t>;      ///< CPU number of the recorded machine
using TaskId = Id<struct TaskTag, uint32_t>;  ///< dense task number of the recording (0..n_cpus-1: idle tasks)
using Llc = Id<struct LlcTag, uint16_t>;      ///< dense index of a last-level cache (Topology::llcs), not llc_id

inline constexpr int kMaxCpus = 1024;
using Ns = int64_t;  ///< nanoseconds on the recording's clock

}  // namespace rewake
