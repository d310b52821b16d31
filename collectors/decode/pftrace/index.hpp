// SPDX-License-Identifier: GPL-2.0-or-later
// First pass over a Perfetto trace: where each CPU's bundles of ftrace events lie, and what the other packets say.
// Field numbers: protos/perfetto/trace/trace_packet.proto and trace/ftrace/*.proto of Perfetto.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectors/decode/error.hpp"
#include "collectors/decode/file.hpp"

namespace rewake::decode {

struct PftraceIndex {
    struct Bundle {
        uint64_t offset;  ///< of the FtraceEventBundle in the file
        uint32_t size;
        bool dropped;  ///< packets before it are missing
    };
    struct Counters {  ///< of the kernel's buffer of a CPU, at the end less at the beginning
        uint64_t overrun = 0, dropped = 0;
    };

    /// Reads packet by packet; memory is bounded by the index. Throws Error.
    PftraceIndex(const File& file, Problems& problems);

    static constexpr uint32_t kMaxBundle = 16 << 20;  ///< bytes; a bundle holds a few pages of the ring buffer
    static constexpr size_t kMaxBundles = 8 << 20;

    uint32_t n_cpus = 0;
    std::vector<std::vector<Bundle>> cpus;  ///< by CPU, in file order
    std::vector<Counters> counters;         ///< by CPU; may be shorter
    std::string release, version, machine;  ///< of uname
    uint32_t clock = 0;                     ///< FtraceClock of the bundles
    bool compressed = false;                ///< it has compressed packets, which are not read here
    uint64_t other_machines = 0;            ///< packets of guests
};

/// FtraceEventBundle.
namespace bundle {
enum : uint32_t { cpu = 1, event = 2, lost_events = 3, compact_sched = 4, ftrace_clock = 5, error = 8, broken = 512 };
}

}  // namespace rewake::decode
