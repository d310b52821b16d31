// SPDX-License-Identifier: GPL-2.0-or-later
// The parts that versions 6 and 7 share: format texts, header pages and options. Used by container.cpp and v7.cpp only.
#pragma once

#include <optional>

#include "collectors/decode/file.hpp"
#include "collectors/decode/tracedat/container.hpp"

namespace rewake::decode::detail {

/// A BUFFER option: the data of one trace instance ("" is the main one).
struct Buffer {
    uint64_t offset = 0;
    std::string name, clock;
    uint32_t page_size = 0;
    std::vector<CpuData> cpus;
};

/// Option payloads that lead to other places of the file.
struct Places {
    std::optional<uint64_t> header_info, ftrace_events, event_formats;
    std::vector<Buffer> buffers;
    bool text_buffer = false;  ///< a BUFFER TEXT section: the `latency` variant
};

void read_header_info(Cursor& in, Container& c);
void read_ftrace_events(Cursor& in, Container& c);
void read_event_formats(Cursor& in, Container& c);

/// One option of a version 6 or 7 file. `payload` is the option's data.
void read_option(uint16_t id, const std::string& payload, uint64_t at, const File& file, Container& c, Places& places,
                 Problems& problems);

/// No CPU has data.
bool empty(const Buffer& b);

/// The buffer to decode: the main one, or the only instance, or the only one with data, when the main one is empty or
/// absent (`record -B`). Null: none. The others are counted as problems. Throws where there are several such instances.
const Buffer* choose_buffer(const std::vector<Buffer>& buffers, const File& file, Problems& problems);

/// Checks and keeps the CPU list; data beyond the end of the file is clipped and counted.
void set_cpu_data(std::vector<CpuData> cpus, const File& file, Container& c, Problems& problems);

void read_v7(Cursor& in, const File& file, Container& c, Problems& problems);

}  // namespace rewake::decode::detail
