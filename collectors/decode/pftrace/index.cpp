// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/pftrace/index.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "collectors/decode/pftrace/wire.hpp"
#include "collectors/decode/tracedat/container.hpp"

namespace rewake::decode {
namespace {

/// TracePacket.
namespace packet {
enum : uint32_t {
    ftrace_events = 1,
    sequence_id = 10,
    ftrace_stats = 34,
    previous_packet_dropped = 42,
    system_info = 45,
    compressed_packets = 50,
    machine_id = 98,
};
}

constexpr size_t kWindow = 1 << 20;
constexpr size_t kMaxSequences = 1 << 16;

/// A window over the file that moves forward.
class Window {
  public:
    explicit Window(const File& file) : file_(file) {}

    /// `n` bytes at `offset`, or fewer at the end of the file; n <= kMaxBundle + some.
    const uint8_t* bytes(uint64_t offset, size_t n, size_t& got) {
        if (offset < at_ || offset + n > at_ + have_) {
            buffer_.resize(std::max(n, kWindow));
            have_ = file_.read_at(offset, buffer_.data(), buffer_.size());
            at_ = offset;
        }
        got = static_cast<size_t>(std::min<uint64_t>(n, at_ + have_ - offset));
        return buffer_.data() + (offset - at_);
    }

  private:
    const File& file_;
    std::vector<uint8_t> buffer_;
    uint64_t at_ = 0;
    size_t have_ = 0;
};

std::string text_of(const WireField& f) { return std::string(f.text().substr(0, 256)); }

void read_uname(Wire info, PftraceIndex& out) {
    WireField f, g;
    while (info.next(f)) {
        if (f.number == 1 && f.type == 2) {
            Wire uname(f);
            while (uname.next(g)) {
                if (g.type == 2 && g.number >= 2 && g.number <= 4) {
                    (g.number == 2 ? out.version : g.number == 3 ? out.release : out.machine) = text_of(g);
                }
            }
        }
    }
}

void read_stats(Wire stats, PftraceIndex& out, std::vector<PftraceIndex::Counters>& first) {
    WireField f, g;
    uint64_t phase = 0;
    while (stats.next(f)) {
        if (f.number == 1 && f.type == 0) {
            phase = f.value;
        }
        if (f.number != 2 || f.type != 2) {
            continue;
        }
        Wire one(f);
        uint64_t cpu = kMaxFileCpus;
        PftraceIndex::Counters c;
        while (one.next(g)) {
            if (g.type == 0) {
                cpu = g.number == 1 ? g.value : cpu;
                c.overrun += g.number == 3 || g.number == 4 ? g.value : 0;
                c.dropped += g.number == 8 ? g.value : 0;
            }
        }
        if (cpu >= kMaxFileCpus) {
            continue;
        }
        out.n_cpus = std::max(out.n_cpus, static_cast<uint32_t>(cpu) + 1);
        auto& list = phase == 2 ? out.counters : first;  // END_OF_TRACE, else START_OF_TRACE
        list.resize(std::max<size_t>(list.size(), cpu + 1));
        list[cpu] = c;
    }
}

}  // namespace

PftraceIndex::PftraceIndex(const File& file, Problems& problems) {
    Window window(file);
    std::vector<Counters> first;
    size_t bundles = 0;
    std::set<uint64_t> with_events;  // sequences of packets that had bundles
    std::optional<uint64_t> source;  // the sequence that has events: each data source writes its own
    uint64_t gaps = 0;
    std::vector<uint64_t> gaps_before;  // by CPU, at its last bundle
    uint64_t at = 0;
    const auto where = [&] { return "offset " + std::to_string(at); };
    while (at < file.size()) {
        size_t got = 0;
        const uint8_t* p = window.bytes(at, 16, got);
        Wire head(p, got);
        uint64_t tag = 0, size = 0;
        if (!head.varint(tag) || (tag & 7) != 2 || tag >> 3 == 0 || !head.varint(size)) {
            problems.add("not a packet where one should begin; the rest of the file is not read", where());
            break;
        }
        const uint64_t body = at + static_cast<uint64_t>(head.at() - p);
        if (size > file.size() - body) {
            problems.add("truncated packet at the end of the file", where());
            break;
        }
        const uint64_t next = body + size;
        if (tag >> 3 != 1) {
            problems.add("field that is not a packet, skipped", where());
            at = next;
            continue;
        }
        if (size > kMaxBundle + 4096) {
            // Only compressed packets are this large; their tag is two bytes.
            Wire front(window.bytes(body, 2, got), got);
            uint64_t inner = 0;
            if (front.varint(inner) && inner >> 3 == packet::compressed_packets) {
                compressed = true;
            } else {
                problems.add("packet of more than 16 MiB, skipped", where());
            }
            at = next;
            continue;
        }
        p = window.bytes(body, static_cast<size_t>(size), got);
        if (got < size) {
            problems.add("truncated packet at the end of the file", where());
            break;
        }
        Wire packet(p, got);
        WireField f;
        WireField events, stats, info;
        uint64_t machine_id = 0, sequence = 0;
        bool dropped = false;
        while (packet.next(f)) {
            if (f.number == packet::ftrace_events && f.type == 2) {
                events = f;
            } else if (f.number == packet::ftrace_stats && f.type == 2) {
                stats = f;
            } else if (f.number == packet::system_info && f.type == 2) {
                info = f;
            } else if (f.number == packet::compressed_packets && f.type == 2) {
                compressed = true;
            } else if (f.number == packet::machine_id && f.type == 0) {
                machine_id = f.value;
            } else if (f.number == packet::previous_packet_dropped && f.type == 0) {
                dropped = f.value != 0;
            } else if (f.number == packet::sequence_id && f.type == 0) {
                sequence = f.value;
            }
        }
        if (packet.damaged()) {
            problems.add("damaged packet, read as far as it goes", where());
        }
        if (machine_id != 0) {
            ++other_machines;
            at = next;
            continue;
        }
        if (stats.p != nullptr) {
            read_stats(Wire(stats), *this, first);
        }
        if (info.p != nullptr) {
            read_uname(Wire(info), *this);
        }
        // The first packet of a sequence is always marked. What a later mark lost may have been of any CPU.
        gaps += dropped && with_events.contains(sequence) ? 1 : 0;
        if (events.p != nullptr) {
            Wire b(events);
            uint64_t cpu = kMaxFileCpus;
            while (b.next(f)) {
                if (f.number == bundle::cpu && f.type == 0) {
                    cpu = f.value;
                    break;
                }
            }
            if (cpu >= kMaxFileCpus || events.n > kMaxBundle) {
                problems.add("bundle of events without a possible CPU, skipped", where());
            } else {
                if (++bundles > kMaxBundles) {
                    fail(file.path(), at, "more than " + std::to_string(kMaxBundles) + " bundles of events");
                }
                uint32_t own = 0;
                bool filled = false;
                for (Wire all(events); all.next(f);) {
                    own = f.number == bundle::ftrace_clock && f.type == 0 ? static_cast<uint32_t>(f.value) : own;
                    filled = filled || ((f.number == bundle::event || f.number == bundle::compact_sched) && f.n > 0);
                }
                if (filled && source.value_or(sequence) != sequence) {
                    fail(file.path(), at,
                         "events of a second ftrace data source, which may be those of the first once more; record "
                         "with one data source linux.ftrace that has all events");
                }
                source = filled ? sequence : source;
                if (bundles == 1) {
                    clock = own;
                } else if (own != clock) {
                    problems.add("bundle of events with another clock than the first: its times do not fit", where());
                }
                if (with_events.size() < kMaxSequences) {
                    with_events.insert(sequence);
                }
                n_cpus = std::max(n_cpus, static_cast<uint32_t>(cpu) + 1);
                cpus.resize(n_cpus);
                gaps_before.resize(n_cpus);
                cpus[cpu].push_back({body + static_cast<uint64_t>(events.p - p), static_cast<uint32_t>(events.n),
                                     gaps_before[cpu] != gaps});
                gaps_before[cpu] = gaps;
            }
        }
        at = next;
    }
    cpus.resize(n_cpus);
    counters.resize(std::max(counters.size(), first.size()));
    for (size_t i = 0; i < first.size(); ++i) {
        counters[i].overrun -= std::min(counters[i].overrun, first[i].overrun);
        counters[i].dropped -= std::min(counters[i].dropped, first[i].dropped);
    }
}

}  // namespace rewake::decode
