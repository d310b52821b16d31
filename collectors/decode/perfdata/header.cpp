// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/perfdata/header.hpp"

#include <algorithm>

#include "collectors/decode/perfdata/records.hpp"
#include "collectors/decode/tracedat/sections.hpp"

namespace rewake::decode::perf {
namespace {

constexpr uint32_t kAttrVer0 = 64, kAttrMost = 4096;  // PERF_ATTR_SIZE_VER0; a page, the kernel's own limit
constexpr uint64_t kMaxString = 1 << 20, kMaxFeature = 256ULL << 20;
constexpr uint32_t kMaxCaches = 65536;
constexpr int kFeatures = 256;

/// Header features (enum of tools/perf/util/header.h) that are read.
namespace feature {
enum : uint32_t {
    kTracingData = 1,
    kHostname = 3,
    kOsRelease = 4,
    kVersion = 5,
    kArch = 6,
    kNrCpus = 7,
    kCommand = 11,
    kEventDesc = 12,
    kCpuTopology = 13,
    kNumaTopology = 14,
    kCache = 20,
    kDirFormat = 24,
    kCompressed = 27,
    kClockData = 29,
};
}  // namespace feature

struct Section {
    uint64_t offset, size;
};
Section read_section(Cursor& in, const char* what) {
    const uint64_t offset = in.u64(what);
    return {offset, in.u64(what)};
}

std::string clean(const std::string& s) { return s.c_str(); }  // up to the first NUL

std::string string_of(Cursor& in, const char* what) { return clean(in.text(in.u32(what), kMaxString, what)); }

std::vector<std::string> strings_of(Cursor& in, const char* what) {
    const uint32_t n = in.u32(what);
    if (n > kMaxFileCpus) {
        in.bad(std::string(what) + " claims " + std::to_string(n) + " entries; the file is damaged");
    }
    std::vector<std::string> out;
    for (uint32_t i = 0; i < n; ++i) {
        out.push_back(string_of(in, what));
    }
    return out;
}

void read_topology(Cursor& in, Hardware& hw) {
    hw.packages = strings_of(in, "CPU_TOPOLOGY");
    hw.threads = strings_of(in, "CPU_TOPOLOGY");
    if (in.left() / 8 < hw.available || hw.available == 0) {  // before 4.1: the lists alone
        return;
    }
    for (uint32_t i = 0; i < hw.available; ++i) {
        const uint32_t core = in.u32("CPU_TOPOLOGY");
        hw.cpus.push_back({core, in.u32("CPU_TOPOLOGY")});
    }
    if (in.left() >= 4) {  // since 5.3
        hw.dies = strings_of(in, "CPU_TOPOLOGY");
    }
}

void read_nodes(Cursor& in, Hardware& hw) {
    const uint32_t n = in.u32("NUMA_TOPOLOGY");
    if (n > kMaxFileCpus) {
        in.bad("NUMA_TOPOLOGY claims " + std::to_string(n) + " nodes; the file is damaged");
    }
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t number = in.u32("NUMA_TOPOLOGY");
        in.skip(16, "NUMA_TOPOLOGY");  // memory, total and free
        hw.nodes.push_back({number, string_of(in, "NUMA_TOPOLOGY")});
    }
}

void read_caches(Cursor& in, Hardware& hw) {
    if (in.u32("CACHE") != 1) {
        return;
    }
    const uint32_t n = in.u32("CACHE");
    if (n > kMaxCaches) {
        in.bad("CACHE claims " + std::to_string(n) + " caches; the file is damaged");
    }
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t level = in.u32("CACHE");
        in.skip(12, "CACHE");  // line size, sets, ways
        std::string type = string_of(in, "CACHE");
        string_of(in, "CACHE");  // size
        hw.caches.push_back({level, std::move(type), string_of(in, "CACHE")});
    }
}

void read_names(Cursor& in, Header& h) {
    const uint32_t n = in.u32("EVENT_DESC"), size = in.u32("EVENT_DESC");
    if (n > Attrs::kMost || size > kAttrMost) {
        in.bad("EVENT_DESC claims " + std::to_string(n) + " events; the file is damaged");
    }
    for (uint32_t i = 0; i < n; ++i) {
        in.skip(size, "EVENT_DESC");
        const uint32_t ids = in.u32("EVENT_DESC");
        std::string name = string_of(in, "EVENT_DESC");
        if (i < h.attrs.all.size()) {  // in the order of the attrs
            h.attrs.all[i].name = std::move(name);
        }
        in.skip(uint64_t{ids} * 8, "EVENT_DESC");
    }
}

void read_file_header(Cursor& in, const File& file, Header& h, Problems& problems) {
    const uint64_t attr_size = in.u64("perf.data header");
    const Section attrs = read_section(in, "perf.data header");
    const Section data = read_section(in, "perf.data header");
    read_section(in, "perf.data header");  // event types, of before 3.x
    std::vector<int> features;
    for (int word = 0; word < kFeatures / 64; ++word) {
        const uint64_t bits = in.u64("perf.data header");
        for (int bit = 0; bit < 64; ++bit) {
            if ((bits >> bit & 1) != 0) {
                features.push_back(word * 64 + bit);
            }
        }
    }
    constexpr uint32_t kIds = 16;  // the section of the ids follows each attr
    if (attr_size < kAttrVer0 + kIds || attr_size > kAttrMost || attrs.size / attr_size > Attrs::kMost) {
        in.bad("events of " + std::to_string(attr_size) + " bytes, " + std::to_string(attrs.size) +
               " bytes of them, are impossible; the file is damaged");
    }
    for (uint64_t i = 0; i < attrs.size / attr_size; ++i) {
        Cursor at(file, attrs.offset + i * attr_size, attrs.offset + (i + 1) * attr_size, h.big);
        h.attrs.all.push_back(read_attr(at, static_cast<uint32_t>(attr_size - kIds), h.big));
        const Section ids = read_section(at, "perf.data attr");
        Cursor list(file, ids.offset, ids.offset + std::min(ids.size, file.size()), h.big);
        for (uint64_t k = 0; k < ids.size / 8; ++k) {
            if (!h.attrs.add_id(list.u64("event ids"), static_cast<uint32_t>(i))) {
                list.bad("more event ids than any machine has; the file is damaged");
            }
        }
    }
    h.data_begin = data.offset;
    if (data.size == 0) {
        fail(file.path(), 48,
             "the recording was not finished (its size is 0), so the event formats at its end are missing; record "
             "again and end perf with SIGINT");
    }
    if (data.offset > file.size() || data.size > file.size() - data.offset) {
        fail(file.path(), 40,
             "the file ends inside its records (" + std::to_string(file.size()) + " of " +
                 std::to_string(data.offset + data.size) +
                 " bytes), so the event formats at its end are missing; copy or record it again");
    }
    h.data_end = data.offset + data.size;
    Cursor table(file, h.data_end, file.size(), h.big);
    for (const int number : features) {
        const Section s = read_section(table, "perf.data feature table");
        if (s.offset > file.size() || s.size > file.size() - s.offset) {
            if (number == feature::kTracingData) {
                fail(file.path(), file.size(),
                     "the file ends before its event formats (tracing data) do; copy or record it again");
            }
            problems.add("header feature that lies outside of the file, skipped", std::to_string(number));
            continue;
        }
        Cursor at(file, s.offset, s.offset + s.size, h.big);
        read_feature(static_cast<uint32_t>(number), at, h, problems);
    }
}

}  // namespace

Attr read_attr(Cursor& in, uint32_t size, bool big) {
    Attr a;
    const std::string bytes = in.text(size, kAttrMost, "event attr");
    const auto* p = reinterpret_cast<const uint8_t*>(bytes.data());
    const auto u32 = [&](uint32_t at) { return big ? load<uint32_t, true>(p + at) : load<uint32_t, false>(p + at); };
    const auto u64 = [&](uint32_t at) { return big ? load<uint64_t, true>(p + at) : load<uint64_t, false>(p + at); };
    if (size < kAttrVer0) {
        in.bad("event attr of " + std::to_string(size) + " bytes; the file is damaged");
    }
    a.type = u32(0);
    a.config = u64(8);
    a.sample_type = u64(24);
    a.read_format = u64(32);
    // Bit fields: a big-endian compiler gives the first of them the highest bit.
    const auto flag = [&, flags = u64(40)](int bit) { return (flags >> (big ? 63 - bit : bit) & 1) != 0; };
    a.sample_id_all = flag(18);
    a.use_clockid = flag(25);
    a.backward = flag(27);
    a.clockid = size >= 96 ? static_cast<int32_t>(u32(92)) : 0;
    a.lay_out();
    return a;
}

void read_tracing(Cursor& in, Header& h) {
    static constexpr char kMagic[] = "\x17\x08\x44tracing";
    if (in.text(10, 10, "tracing data") != std::string(kMagic, 10)) {
        in.bad("no tracing data where they should be; the file is damaged");
    }
    static_cast<void>(in.cstr(8, "tracing data"));  // version
    Container& c = h.tracing;
    c.big_endian = in.u8("tracing data") == 1;
    c.long_size = in.u8("tracing data");
    if (c.big_endian != h.big || (c.long_size != 4 && c.long_size != 8)) {
        in.bad("byte order or size of long of the tracing data are impossible; the file is damaged");
    }
    c.page_size = in.u32("tracing data");
    decode::detail::read_header_info(in, c);
    decode::detail::read_ftrace_events(in, c);
    decode::detail::read_event_formats(in, c);
    h.tracing_data = true;
}

void read_feature(uint32_t number, Cursor& in, Header& h, Problems& problems) {
    if (number == feature::kTracingData) {  // nothing can be decoded without
        return read_tracing(in, h);
    }
    if (number == feature::kDirFormat) {
        in.bad("one part of a directory that `perf record --threads` wrote; record without --threads");
    }
    if (in.left() > kMaxFeature) {
        return problems.add("header feature of impossible size, skipped", "feature " + std::to_string(number));
    }
    try {
        switch (number) {
            case feature::kHostname: h.hostname = string_of(in, "HOSTNAME"); break;
            case feature::kOsRelease: h.release = string_of(in, "OSRELEASE"); break;
            case feature::kVersion: h.perf_version = string_of(in, "VERSION"); break;
            case feature::kArch: h.arch = string_of(in, "ARCH"); break;
            case feature::kNrCpus:
                h.hardware.available = in.u32("NRCPUS");
                h.hardware.online = in.u32("NRCPUS");
                if (h.hardware.available > kMaxFileCpus || h.hardware.online > h.hardware.available) {
                    h.hardware.available = h.hardware.online = 0;
                    in.bad("impossible number of CPUs");
                }
                break;
            case feature::kCommand:
                for (const std::string& word : strings_of(in, "CMDLINE")) {
                    h.command += (h.command.empty() ? "" : " ") + word;
                }
                break;
            case feature::kEventDesc: read_names(in, h); break;
            case feature::kCpuTopology: read_topology(in, h.hardware); break;
            case feature::kNumaTopology: read_nodes(in, h.hardware); break;
            case feature::kCache: read_caches(in, h.hardware); break;
            case feature::kCompressed: h.compressed = true; break;
            case feature::kClockData:
                in.skip(4, "CLOCK_DATA");  // version
                h.clockid = static_cast<int32_t>(in.u32("CLOCK_DATA"));
                break;
            default: break;  // build ids, PMUs, memory blocks, ...: nothing that the decode needs
        }
    } catch (const Error&) {
        problems.add("header feature that cannot be read, skipped", "feature " + std::to_string(number));
    }
}

void check_attrs(Header& h, const std::string& path) {
    Attrs& attrs = h.attrs;
    if (attrs.all.empty()) {
        throw Error(path + ": no events in the header; the recording is empty or damaged, record it again");
    }
    attrs.id_at = attrs.all[0].id_at;
    const Attr* traced = nullptr;
    for (const Attr& a : attrs.all) {
        if (a.id_at != attrs.id_at) {
            throw Error(path + ": events whose samples carry their ids at different places; record them separately");
        }
        traced = a.type == 2 && traced == nullptr ? &a : traced;
        if (a.type != 2) {
            continue;
        }
        if (a.backward) {
            throw Error(path + ": recorded with --overwrite, newest event first; record without it");
        }
        if ((a.sample_type & kRaw) == 0 || a.time_at == kAbsent || a.cpu_at == kAbsent) {
            throw Error(path + ": tracepoints recorded without " +
                        ((a.sample_type & kRaw) == 0 ? "their fields (raw data)"
                         : a.time_at == kAbsent      ? "timestamps"
                                                     : "their CPU") +
                        "; record with `perf sched record`, or `perf record -R -T --sample-cpu -e 'sched:*' -a`");
        }
        if (a.use_clockid) {
            h.clockid = a.clockid;
        }
    }
    if (traced == nullptr) {
        throw Error(path + ": holds no tracepoints" +
                    (attrs.all[0].name.empty() ? "" : " (" + attrs.all[0].name + ")") +
                    "; record with `perf sched record`, or `perf record -e 'sched:*' -a`");
    }
    if (!h.tracing_data) {
        throw Error(path + ": without the formats of its tracepoints (tracing data); record it again with perf");
    }
}

Header read_header(const File& file, Problems& problems) {
    Header h;
    Cursor in(file, 0, file.size(), false);
    const std::string magic = in.text(8, 8, "perf.data magic");
    if (magic == "PERFFILE") {
        fail(file.path(), 0, "perf.data of version 1, of before 2012: it is not supported; record with a newer perf");
    }
    if (magic != "PERFILE2" && magic != "2ELIFREP") {
        fail(file.path(), 0, "not a perf.data file (no magic PERFILE2); give the file that `perf record -o` wrote");
    }
    h.big = magic[0] == '2';
    in.set_big(h.big);
    const uint64_t size = in.u64("perf.data header");
    h.tracing.path = file.path();
    if (size == kPipeHeader) {
        h.pipe = true;
        h.data_begin = kPipeHeader;
        h.data_end = file.size();
    } else if (size == kFileHeader) {
        read_file_header(in, file, h, problems);
        check_attrs(h, file.path());
    } else {
        fail(file.path(), 8,
             "header of " + std::to_string(size) + " bytes (16 and 104 are known); damaged, or of another perf");
    }
    return h;
}

}  // namespace rewake::decode::perf
