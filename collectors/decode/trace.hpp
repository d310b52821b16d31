// SPDX-License-Identifier: GPL-2.0-or-later
// An open trace.dat: container, formats and the merged streams of all CPUs, for any visitor. Two visitors exist: the
// batch decoder (decoder.hpp), which builds columns, and the streaming one of bench/decode_stream.cpp, which keeps
// nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectors/decode/format/events.hpp"
#include "collectors/decode/merge.hpp"
#include "collectors/decode/ring/stream.hpp"
#include "collectors/decode/tracedat/container.hpp"
#include "collectors/decode/tracedat/pages.hpp"

namespace rewake::decode {

/// What does not depend on the byte order.
struct TraceFile {
    explicit TraceFile(const std::string& path)
        : file(path),
          container(read_container(file, problems)),
          formats(container, problems),
          layout(page_layout(container.header_page, container.long_size, container.page_size, path)) {}

    File file;
    Problems problems;
    Container container;
    Formats formats;
    PageLayout layout;

    /// Timestamp of a record to ns on the recording's clock.
    [[nodiscard]] int64_t ns(uint64_t ts) const {
        if (container.tsc_mult != 0) [[unlikely]] {
            ts =
                static_cast<uint64_t>((static_cast<unsigned __int128>(ts) * container.tsc_mult) >> container.tsc_shift);
        }
        return static_cast<int64_t>(ts + static_cast<uint64_t>(container.ts_offset));
    }
};

/// The records of a file in (time, cpu, sequence) order.
template <bool Big>
class Records {
  public:
    using Source = Stream<Big>;

    explicit Records(TraceFile& trace) : merge_(open(trace)) {}

    /// See Merge::run.
    template <class Visit>
    bool run(Visit&& visit) {
        return merge_.run(std::forward<Visit>(visit));
    }

  private:
    static std::vector<Source> open(TraceFile& t) {
        const Budget budget(t.container.cpus.size(), t.container.page_size);
        std::vector<Source> out;
        out.reserve(t.container.cpus.size());
        for (const CpuData& cpu : t.container.cpus) {
            out.emplace_back(PageSource(t.file, t.container, cpu, budget, t.problems), t.layout, t.formats.type_offset,
                             t.formats.least, t.problems);
        }
        return out;
    }

    Merge<Source> merge_;
};

}  // namespace rewake::decode
