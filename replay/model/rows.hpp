// SPDX-License-Identifier: GPL-2.0-or-later
// From the recording's machine tables (forms/tables.py MACHINE_TABLES) to a Topology.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/model/topology.hpp"

namespace rewake {

/// CPUs of a kernel list ("0-3,8"); empty text is the empty set. Throws std::invalid_argument for anything else.
CpuMask parse_cpulist(std::string_view text);

struct CpuRow {
    uint16_t cpu = 0;
    std::optional<uint16_t> core, llc, cluster, node, capacity;
    bool online = true;
};
struct DomainRow {
    uint16_t cpu = 0;
    int level = 0;
    std::string name, span, flags;
    std::optional<int> imbalance_pct;
};

/// Builds and finishes a Topology. Without LLCs or domains the result has `known` false and every CPU is its own LLC.
/// Throws std::invalid_argument when the rows contradict each other.
Topology topology_from_rows(const std::vector<CpuRow>& cpus, const std::vector<DomainRow>& domains);

}  // namespace rewake
