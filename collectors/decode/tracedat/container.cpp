// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/tracedat/container.hpp"

#include <algorithm>
#include <bit>

#include "collectors/decode/tracedat/sections.hpp"

namespace rewake::decode {
namespace {

constexpr uint64_t kMaxBlob = 1ULL << 30;  // kallsyms, printk formats, command lines: skipped, never loaded

std::vector<CpuData> read_cpu_table(Cursor& in, uint32_t n) {
    std::vector<CpuData> cpus;
    for (uint32_t cpu = 0; cpu < n; ++cpu) {
        const uint64_t offset = in.u64("CPU data table");
        cpus.push_back({cpu, offset, in.u64("CPU data table")});
    }
    return cpus;
}

void read_v6(Cursor& in, const File& file, Container& c, Problems& problems) {
    detail::read_header_info(in, c);
    detail::read_ftrace_events(in, c);
    detail::read_event_formats(in, c);
    in.skip(in.u32("kallsyms"), "kallsyms");
    in.skip(in.u32("printk formats"), "printk formats");
    const uint64_t lines = in.u64("saved command lines");
    if (lines > kMaxBlob) {
        in.bad("saved command lines claim " + std::to_string(lines) + " bytes; the file is damaged");
    }
    in.skip(lines, "saved command lines");
    const uint32_t n = in.u32("CPU count");
    if (n > kMaxFileCpus) {
        in.bad("claims " + std::to_string(n) + " CPUs (at most " + std::to_string(kMaxFileCpus) +
               " are possible); the file is damaged");
    }
    c.n_cpus = n;
    std::string kind = in.text(10, 10, "kind of data");
    detail::Places places;
    if (kind.starts_with("options")) {
        while (const uint16_t id = in.u16("options")) {
            const uint64_t at = in.offset();
            const uint32_t size = in.u32("options");
            detail::read_option(id, in.text(size, 64ULL << 20, "option"), at, file, c, places, problems);
        }
        kind = in.text(10, 10, "kind of data");
    }
    if (kind.starts_with("latency")) {
        in.bad("holds the text of a latency tracer, no events; record with `trace-cmd record -e sched`");
    }
    if (!kind.starts_with("flyrecord")) {
        in.bad("no flyrecord mark before the CPU data; the file is damaged");
    }
    std::vector<detail::Buffer> buffers(1);
    buffers[0].cpus = read_cpu_table(in, n);
    const bool only = places.buffers.size() == 1 && detail::empty(buffers[0]);
    for (detail::Buffer& b : places.buffers) {
        if (!only) {
            buffers.push_back(std::move(b));
            continue;
        }
        Cursor at(file, b.offset, file.size(), c.big_endian);
        if (!at.text(10, 10, "trace instance").starts_with("flyrecord")) {
            at.bad("no flyrecord mark before the data of a trace instance; the file is damaged");
        }
        b.cpus = read_cpu_table(at, n);
        buffers.push_back(std::move(b));
    }
    detail::set_cpu_data(detail::choose_buffer(buffers, file, problems)->cpus, file, c, problems);
}

}  // namespace

Container read_container(const File& file, Problems& problems) {
    Container c;
    c.path = file.path();
    c.file_size = file.size();
    if (file.size() == 0) {
        fail(file.path(), 0, "the file is empty; record it again");
    }
    Cursor in(file, 0, file.size(), false);
    static constexpr char kMagic[] = "\x17\x08\x44tracing";
    if (file.size() < 10 || in.text(10, 10, "magic") != std::string(kMagic, 10)) {
        fail(file.path(), 0,
             "not a trace.dat file (no magic 17 08 44 \"tracing\"); give the file that `trace-cmd record -o` wrote");
    }
    const std::string version = in.cstr(8, "file version");
    if (version != "6" && version != "7") {
        in.bad("trace.dat version " + version.substr(0, 4) +
               " is not known (6 and 7 are); convert it with `trace-cmd convert --file-version 6`");
    }
    c.version = version[0] - '0';
    const uint8_t endian = in.u8("byte order");
    c.long_size = in.u8("size of long");
    if (endian > 1 || (c.long_size != 4 && c.long_size != 8)) {
        in.bad("byte order " + std::to_string(endian) + ", size of long " + std::to_string(c.long_size) +
               " are impossible; the file is damaged");
    }
    c.big_endian = endian == 1;
    in.set_big(c.big_endian);
    c.page_size = in.u32("page size");
    if (c.version == 6) {
        read_v6(in, file, c, problems);
    } else {
        detail::read_v7(in, file, c, problems);
    }
    if (c.page_size < 64 || c.page_size > (1U << 24) || !std::has_single_bit(c.page_size)) {
        fail(file.path(), 14, "page size " + std::to_string(c.page_size) + " is impossible; the file is damaged");
    }
    return c;
}

}  // namespace rewake::decode
