// SPDX-License-Identifier: GPL-2.0-or-later
// The trace.dat container, versions 6 and 7: what is in the file and where, without the events.
// Source: trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5). Offsets and sizes are bytes in the file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectors/decode/error.hpp"
#include "collectors/decode/file.hpp"

namespace rewake::decode {

inline constexpr uint32_t kMaxFileCpus = 8192;  // NR_CPUS of the largest mainline configuration

/// Ring-buffer data of one CPU.
struct CpuData {
    uint32_t cpu;
    uint64_t offset, size;
    bool cut = false;  ///< the file ends before all of it
};

/// One event format file of tracefs.
struct FormatText {
    std::string system, text;
};

struct Container {
    std::string path;
    uint64_t file_size = 0;
    int version = 0;
    bool big_endian = false;
    int long_size = 8;                 ///< sizeof(long) of the traced machine's user space
    uint32_t page_size = 4096;         ///< of the ring buffer's sub-buffers
    std::string compression = "none";  ///< "none" or "zstd"
    bool data_compressed = false;      ///< the CPU data are compressed chunks
    uint32_t n_cpus = 0;               ///< CPUs of the machine: every CPU number of the file is below
    std::vector<CpuData> cpus;         ///< CPUs with data, ascending
    std::string header_page;           ///< events/header_page of tracefs
    std::vector<FormatText> formats;   ///< of the recorded events, in file order
    std::string uname, clock;
    std::vector<std::pair<std::string, std::string>> options;  ///< text options by name, in file order
    std::vector<std::string> guests;                           ///< names of guests that were traced with this host
    bool is_guest = false;                                     ///< it carries time shifts to a host's trace
    uint32_t tsc_mult = 0, tsc_shift = 0;  ///< clock cycles to ns: (t * mult) >> shift; mult 0: already ns
    int64_t ts_offset = 0;                 ///< ns added to each timestamp on reading
};

/// Reads all but the events. Throws Error; what can be done without is added to `problems`.
Container read_container(const File& file, Problems& problems);

}  // namespace rewake::decode
