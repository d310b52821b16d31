// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/tracedat/sections.hpp"

#include <algorithm>
#include <cstdlib>

namespace rewake::decode::detail {
namespace {

// Real files hold about 2,000 formats of 1-3 KiB each; these caps only stop sizes that are damage.
constexpr uint64_t kMaxFormat = 1 << 20;
constexpr uint64_t kMaxFormats = 64ULL << 20;
constexpr uint32_t kMaxSystems = 4096;
constexpr uint32_t kMaxEvents = 65536, kMaxFtraceEvents = 256;  // the kernel has about 20 of the latter

enum OptionId : uint16_t {
    kDate = 1,
    kCpuStat = 2,
    kBuffer = 3,
    kTraceClock = 4,
    kUname = 5,
    kHook = 6,
    kOffset = 7,
    kCpuCount = 8,
    kVersion = 9,
    kTraceId = 11,
    kTimeShift = 12,
    kGuest = 13,
    kTscToNs = 14,
    kHeaderInfo = 16,
    kFtraceEvents = 17,
    kEventFormats = 18,
    kBufferText = 22,
};

/// Text up to the first NUL, without trailing blanks and newlines.
std::string chomp(const std::string& s) {
    std::string out(s.c_str());
    while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) {
        out.pop_back();
    }
    return out;
}

/// "[local] global ..." (the trace_clock file) or "local" (the name alone).
std::string clock_name(const std::string& text) {
    const size_t open = text.find('['), close = text.find(']', open);
    return open != std::string::npos && close != std::string::npos ? text.substr(open + 1, close - open - 1)
                                                                   : chomp(text);
}

Buffer read_buffer(Cursor& in, int version) {
    Buffer b;
    b.offset = in.u64("BUFFER option");
    b.name = in.cstr(4096, "BUFFER option");
    if (version < 7) {
        return b;
    }
    b.clock = in.cstr(4096, "BUFFER option");
    b.page_size = in.u32("BUFFER option");
    const uint32_t n = in.u32("BUFFER option");
    if (n > kMaxFileCpus) {
        in.bad("BUFFER option claims " + std::to_string(n) + " CPUs; the file is damaged");
    }
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t cpu = in.u32("BUFFER option");
        const uint64_t offset = in.u64("BUFFER option");
        b.cpus.push_back({cpu, offset, in.u64("BUFFER option")});
    }
    return b;
}

}  // namespace

void read_header_info(Cursor& in, Container& c) {
    if (in.cstr(16, "header_page") != "header_page") {
        in.bad("no header_page where it should be; the file is damaged");
    }
    c.header_page = in.text(in.u64("header_page"), kMaxFormat, "header_page");
    if (in.cstr(16, "header_event") != "header_event") {
        in.bad("no header_event where it should be; the file is damaged");
    }
    in.skip(in.u64("header_event"), "header_event");
}

void read_ftrace_events(Cursor& in, Container& c) {
    const uint32_t n = in.u32("ftrace event formats");
    if (n > kMaxFtraceEvents) {
        in.bad("claims " + std::to_string(n) + " ftrace events; the file is damaged");
    }
    for (uint32_t i = 0; i < n; ++i) {
        c.formats.push_back({"ftrace", in.text(in.u64("ftrace event format"), kMaxFormat, "ftrace event format")});
    }
}

void read_event_formats(Cursor& in, Container& c) {
    const uint32_t systems = in.u32("event formats");
    if (systems > kMaxSystems) {
        in.bad("claims " + std::to_string(systems) + " event systems; the file is damaged");
    }
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < systems; ++s) {
        const std::string system = in.cstr(256, "event system name");
        const uint32_t events = in.u32("event formats");
        if (events > kMaxEvents || c.formats.size() + events > kMaxEvents) {
            in.bad("claims " + std::to_string(events) + " events in one system; the file is damaged");
        }
        for (uint32_t e = 0; e < events; ++e) {
            c.formats.push_back({system, in.text(in.u64("event format"), kMaxFormat, "event format")});
            bytes += c.formats.back().text.size();
            if (bytes > kMaxFormats) {
                in.bad("more than 64 MiB of event formats; the file is damaged");
            }
        }
    }
}

void read_option(uint16_t id, const std::string& payload, uint64_t at, const File& file, Container& c, Places& places,
                 Problems& problems) {
    Cursor in(file, std::vector<uint8_t>(payload.begin(), payload.end()), at, c.big_endian);
    switch (id) {
        case kDate: c.options.emplace_back("date", chomp(payload)); break;
        case kCpuStat: c.options.emplace_back("cpustat", chomp(payload)); break;
        case kHook: c.options.emplace_back("hook", chomp(payload)); break;
        case kVersion: c.options.emplace_back("trace_cmd", chomp(payload)); break;
        case kUname: c.uname = chomp(payload); break;
        case kTraceClock: c.clock = clock_name(payload); break;
        case kOffset: {
            c.options.emplace_back("offset", chomp(payload));
            c.ts_offset = std::strtoll(c.options.back().second.c_str(), nullptr, 0);
            break;
        }
        case kCpuCount: c.n_cpus = std::max(c.n_cpus, in.u32("CPUCOUNT option")); break;
        case kTraceId: c.options.emplace_back("trace_id", std::to_string(in.u64("TRACEID option"))); break;
        case kTimeShift:
            c.is_guest = true;
            problems.add("guest trace: its time shifts to the host's clock are not applied", "");
            break;
        case kGuest: c.guests.push_back(in.cstr(4096, "GUEST option")); break;
        case kTscToNs:
            c.tsc_mult = in.u32("TSC2NSEC option");
            c.tsc_shift = in.u32("TSC2NSEC option");
            if (c.tsc_shift > 63) {
                in.bad("TSC2NSEC option: shift " + std::to_string(c.tsc_shift) + " is impossible; the file is damaged");
            }
            break;
        case kBuffer: places.buffers.push_back(read_buffer(in, c.version)); break;
        case kHeaderInfo: places.header_info = in.u64("HEADER_INFO option"); break;
        case kFtraceEvents: places.ftrace_events = in.u64("FTRACE_EVENTS option"); break;
        case kEventFormats: places.event_formats = in.u64("EVENT_FORMATS option"); break;
        case kBufferText: places.text_buffer = true; break;
        default: break;  // kallsyms, printk, command lines, maps: nothing that the decode needs
    }
}

bool empty(const Buffer& b) {
    return std::all_of(b.cpus.begin(), b.cpus.end(), [](const CpuData& d) { return d.size == 0; });
}

const Buffer* choose_buffer(const std::vector<Buffer>& buffers, const File& file, Problems& problems) {
    const Buffer* chosen = nullptr;
    std::vector<const Buffer*> instances, full;
    for (const Buffer& b : buffers) {
        if (b.name.empty() && chosen == nullptr) {
            chosen = &b;
            continue;
        }
        instances.push_back(&b);
        if (!empty(b)) {
            full.push_back(&b);
        }
    }
    if (chosen == nullptr || empty(*chosen)) {
        if (instances.size() == 1) {
            return instances[0];
        }
        if (full.size() == 1) {
            chosen = full[0];
        } else if (!instances.empty()) {
            std::string names;
            for (const Buffer* b : instances) {
                names += (names.empty() ? "" : ", ") + b->name.substr(0, 64);
            }
            fail(file.path(), instances[0]->offset,
                 "nothing in the main buffer, and " + std::to_string(instances.size()) + " trace instances (" +
                     names.substr(0, 256) + ") of which none stands for the machine; record without -B, or with one");
        }
    }
    for (const Buffer& b : buffers) {
        if (&b != chosen) {
            problems.add("trace instance besides the main buffer, not decoded", b.name);
        }
    }
    return chosen;
}

void set_cpu_data(std::vector<CpuData> cpus, const File& file, Container& c, Problems& problems) {
    std::sort(cpus.begin(), cpus.end(), [](const CpuData& a, const CpuData& b) { return a.cpu < b.cpu; });
    for (size_t i = 0; i < cpus.size(); ++i) {
        CpuData& d = cpus[i];
        if (d.cpu >= kMaxFileCpus) {
            fail(file.path(), d.offset,
                 "data of CPU " + std::to_string(d.cpu) + " (at most " + std::to_string(kMaxFileCpus) +
                     " CPUs are possible); the file is damaged");
        }
        if (i > 0 && cpus[i - 1].cpu == d.cpu) {
            fail(file.path(), d.offset, "CPU " + std::to_string(d.cpu) + " is listed twice; the file is damaged");
        }
        c.n_cpus = std::max(c.n_cpus, d.cpu + 1);
        const uint64_t there = d.offset < file.size() ? file.size() - d.offset : 0;
        if (d.size > there) {
            problems.add("the file ends inside the data of a CPU (truncated)",
                         place(d.cpu, d.offset) + ", " + std::to_string(there) + " of " + std::to_string(d.size) +
                             " bytes there");
            d.size = there;
            d.offset = std::min(d.offset, file.size());
            d.cut = true;
        }
        if (d.size > 0 || d.cut) {
            c.cpus.push_back(d);
        }
    }
    if (c.n_cpus > kMaxFileCpus) {
        fail(file.path(), 0, "claims " + std::to_string(c.n_cpus) + " CPUs; the file is damaged");
    }
}

}  // namespace rewake::decode::detail
