// SPDX-License-Identifier: GPL-2.0-or-later
// The events of one CPU of a Perfetto trace, bundle by bundle. A bundle keeps full events, compact switches and compact
// wakings apart: they are brought into the order of their times.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "collectors/decode/error.hpp"
#include "collectors/decode/file.hpp"
#include "collectors/decode/pftrace/index.hpp"
#include "collectors/decode/pftrace/wire.hpp"

namespace rewake::decode {

/// An event of a bundle.
struct PfEvent {
    /// nothing: no event, only a loss behind the CPU's last one.
    enum class What : uint8_t { full, compact_switch, compact_waking, nothing };
    uint64_t ts = 0;
    What what = What::full;
    bool has_tid = false, has_flags = false;
    uint32_t tid = 0, flags = 0;  ///< of a full event: common_pid, common_flags
    // Full: its payload. Compact: tid, prio, then prev_state or target CPU, comm.
    uint32_t field = 0;  ///< of the payload in FtraceEvent; 0: none
    WireField payload;
    int64_t next_tid = 0, prio = 0, state_or_cpu = 0;
    std::string_view comm;
};

class PfStream {
  public:
    /// Memory for the bundles that are open at once, one a CPU. The tracing service makes them of 128 KiB of a ring
    /// buffer at most: some 10,000 events.
    struct Budget {
        size_t bytes, events;  ///< of one bundle; what it has more of is skipped, and counted

        explicit Budget(size_t streams)
            : bytes(std::clamp<size_t>((512U << 20) / streams, 1U << 20, PftraceIndex::kMaxBundle)),
              events(std::clamp<size_t>((4U << 20) / streams, 1U << 14, 1U << 20)) {}
    };

    PfStream(const File& file, uint32_t cpu, const std::vector<PftraceIndex::Bundle>& bundles, Budget budget,
             Problems& problems)
        : file_(&file), bundles_(&bundles), budget_(budget), problems_(&problems), cpu_(cpu) {}

    bool next();
    [[nodiscard]] uint64_t ts() const { return order_[at_].ts; }
    [[nodiscard]] uint32_t cpu() const { return cpu_; }
    [[nodiscard]] const PfEvent& event() const { return events_[order_[at_].index]; }
    [[nodiscard]] uint64_t offset() const { return (*bundles_)[bundle_ - 1].offset; }
    /// Events before this one are missing.
    [[nodiscard]] bool lost() const { return lost_; }

  private:
    struct Place {
        uint64_t ts;
        uint32_t index;
    };
    bool load();
    void full(const WireField& f);
    void compact(Wire w);
    void problem(const char* what);
    bool room(size_t n);

    const File* file_;
    const std::vector<PftraceIndex::Bundle>* bundles_;
    Budget budget_;
    Problems* problems_;
    uint32_t cpu_;
    size_t bundle_ = 0;  // the next one to load
    std::vector<uint8_t> bytes_;
    std::vector<PfEvent> events_;
    std::vector<Place> order_;
    size_t at_ = 0;
    uint64_t last_ = 0;  // time of the last event
    bool lost_ = false, lost_pending_ = false, begun_ = false;
    bool lost_within_ = false;  // events of the bundle were skipped: a loss before those after it
    std::vector<uint64_t> columns_[13];  // of compact_sched, by field number
    std::vector<std::string_view> names_;
};

}  // namespace rewake::decode
