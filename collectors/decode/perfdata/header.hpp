// SPDX-License-Identifier: GPL-2.0-or-later
// What a perf.data file says besides its records: attrs and header features.
// Source: tools/perf/Documentation/perf.data-file-format.txt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectors/decode/error.hpp"
#include "collectors/decode/file.hpp"
#include "collectors/decode/perfdata/attrs.hpp"
#include "collectors/decode/tracedat/container.hpp"

namespace rewake::decode::perf {

/// The recorded hardware as the features tell it; CPU lists are as the kernel prints them ("0-3,8").
struct Hardware {
    struct Cpu {
        uint32_t core, socket;
    };
    struct Node {
        uint32_t number;
        std::string cpus;
    };
    struct Cache {
        uint32_t level;
        std::string type, cpus;
    };
    uint32_t available = 0, online = 0;  ///< CPUs; 0: not told
    std::vector<std::string> packages, dies, threads;
    std::vector<Cpu> cpus;  ///< by CPU number
    std::vector<Node> nodes;
    std::vector<Cache> caches;
};

struct Header {
    bool big = false, pipe = false;
    uint64_t data_begin = 0, data_end = 0;
    Attrs attrs;
    std::string hostname, release, arch, perf_version, command;
    std::optional<int32_t> clockid;  ///< of the timestamps; nothing: perf's own clock
    Hardware hardware;
    bool compressed = false;
    /// The tracing data (formats of the tracepoints), which perf copies in the layout of trace.dat version 6.
    bool tracing_data = false;
    Container tracing;
};

/// Reads the header, and of a file that is no pipe's also attrs and features. Throws Error.
Header read_header(const File& file, Problems& problems);

/// One perf_event_attr of `size` bytes at the cursor, and how many bytes it says it has.
Attr read_attr(Cursor& in, uint32_t size, bool big);

/// Content of feature `number`; those that nobody needs are skipped.
void read_feature(uint32_t number, Cursor& in, Header& h, Problems& problems);

/// Content of the tracing data.
void read_tracing(Cursor& in, Header& h);

/// After all attrs are known: where ids lie, whether the samples can be used. Throws Error.
void check_attrs(Header& h, const std::string& path);

}  // namespace rewake::decode::perf
