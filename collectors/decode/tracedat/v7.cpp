// SPDX-License-Identifier: GPL-2.0-or-later
// Version 7: sections found through a chain of option sections, each section plain or compressed as one block.
#include <zstd.h>

#include <set>

#include "collectors/decode/tracedat/sections.hpp"

namespace rewake::decode::detail {
namespace {

constexpr uint64_t kMaxSection = 256ULL << 20;
constexpr size_t kMaxOptionSections = 4096;
constexpr uint64_t kSectionHeader = 16;
constexpr uint16_t kCompressed = 1;

struct Section {
    uint16_t flags;
    uint64_t begin, size;  // of the payload as stored
};

Section section_at(uint64_t offset, uint16_t want, const char* what, const File& file, const Container& c) {
    if (offset > file.size() || file.size() - offset < kSectionHeader) {
        fail(file.path(), offset, std::string(what) + " lies beyond the end of the file; it is truncated or damaged");
    }
    Cursor in(file, offset, offset + kSectionHeader, c.big_endian);
    const uint16_t id = in.u16(what);
    const uint16_t flags = in.u16(what);
    in.skip(4, what);  // description
    const uint64_t size = in.u64(what);
    if (id != want) {
        fail(file.path(), offset,
             std::string("section ") + std::to_string(id) + " where " + what + " should be; the file is damaged");
    }
    return {flags, offset + kSectionHeader, size};
}

Cursor open_section(uint64_t offset, uint16_t want, const char* what, const File& file, const Container& c) {
    const Section s = section_at(offset, want, what, file, c);
    if (s.size > file.size() - s.begin) {
        fail(file.path(), offset, std::string("file ends inside ") + what + "; it is truncated or damaged");
    }
    Cursor raw(file, s.begin, s.begin + s.size, c.big_endian);
    if ((s.flags & kCompressed) == 0) {
        return raw;
    }
    if (c.compression != "zstd") {
        fail(file.path(), offset,
             std::string(what) + " is compressed but the file names no compression; the file is damaged");
    }
    const uint32_t packed = raw.u32(what), plain = raw.u32(what);
    const std::string in = raw.text(packed, kMaxSection, what);
    if (plain > kMaxSection) {
        fail(file.path(), offset,
             std::string(what) + " claims " + std::to_string(plain) + " bytes; the file is damaged");
    }
    // A block that claims more than zstd can pack into its bytes would only cost memory.
    const unsigned long long content = ZSTD_getFrameContentSize(in.data(), in.size());
    if (content == ZSTD_CONTENTSIZE_ERROR || (content != ZSTD_CONTENTSIZE_UNKNOWN && content != plain)) {
        fail(file.path(), offset, std::string(what) + ": not a zstd block of the size it claims; the file is damaged");
    }
    std::vector<uint8_t> out(plain);
    const size_t got = ZSTD_decompress(out.data(), out.size(), in.data(), in.size());
    if (ZSTD_isError(got) || got != plain) {
        fail(file.path(), offset, std::string(what) + ": zstd cannot unpack it; the file is damaged");
    }
    return {file, std::move(out), s.begin, c.big_endian};
}

void read_options(uint64_t offset, const File& file, Container& c, Places& places, Problems& problems) {
    std::set<uint64_t> seen;
    while (offset != 0) {
        if (!seen.insert(offset).second || seen.size() > kMaxOptionSections) {
            fail(file.path(), offset, "the chain of option sections has no end; the file is damaged");
        }
        Cursor in = open_section(offset, 0, "options section", file, c);
        offset = 0;
        while (in.left() >= 6) {
            const uint64_t at = in.offset();
            const uint16_t id = in.u16("option");
            const uint32_t size = in.u32("option");
            if (id == 0) {
                offset = size >= 8 ? in.u64("DONE option") : 0;
                break;
            }
            read_option(id, in.text(size, kMaxSection, "option"), at, file, c, places, problems);
        }
    }
}

}  // namespace

void read_v7(Cursor& in, const File& file, Container& c, Problems& problems) {
    c.compression = in.cstr(64, "compression name");
    (void)in.cstr(64, "compression version");
    if (c.compression != "none" && c.compression != "zstd") {
        in.bad("compression \"" + c.compression.substr(0, 16) +
               "\" is not supported (none and zstd are); convert it with `trace-cmd convert --compression zstd`");
    }
    Places places;
    read_options(in.u64("offset of the options"), file, c, places, problems);
    if (!places.header_info || !places.event_formats) {
        fail(file.path(), in.offset(),
             "no event formats in the options; the recording did not end properly, record it again");
    }
    Cursor header = open_section(*places.header_info, 16, "header info section", file, c);
    read_header_info(header, c);
    if (places.ftrace_events) {
        Cursor ftrace = open_section(*places.ftrace_events, 17, "ftrace event formats section", file, c);
        read_ftrace_events(ftrace, c);
    }
    Cursor formats = open_section(*places.event_formats, 18, "event formats section", file, c);
    read_event_formats(formats, c);

    const Buffer* main = choose_buffer(places.buffers, file, problems);
    if (main == nullptr) {
        fail(file.path(), in.offset(),
             places.text_buffer
                 ? "holds the text of a latency tracer, no events; record with `trace-cmd record -e sched`"
                 : "holds no event data; end the recording properly and record it again");
    }
    c.data_compressed = (section_at(main->offset, 3, "buffer section", file, c).flags & kCompressed) != 0;
    if (c.data_compressed && c.compression != "zstd") {
        fail(file.path(), main->offset, "compressed data but the file names no compression; the file is damaged");
    }
    c.page_size = main->page_size;
    // Of an instance trace-cmd (3.1) writes the main buffer's clock there; the TRACE_CLOCK option has the right one.
    if (!main->clock.empty() && (main->name.empty() || c.clock.empty())) {
        c.clock = main->clock;
    }
    set_cpu_data(main->cpus, file, c, problems);
}

}  // namespace rewake::decode::detail
