// SPDX-License-Identifier: GPL-2.0-or-later
// A perf.data file, decoded: tracepoints of the scheduler and of interrupts as in a trace.dat. Besides these, COMM gives
// names to tasks that no event named, and FORK and EXIT stand in where their tracepoints were not recorded.
#pragma once

#include <variant>

#include "collectors/decode/decoder.hpp"
#include "collectors/decode/merge.hpp"
#include "collectors/decode/perfdata/header.hpp"
#include "collectors/decode/perfdata/scan.hpp"
#include "collectors/decode/perfdata/stream.hpp"

namespace rewake::decode::perf {

/// What does not depend on the byte order.
struct PerfFile {
    explicit PerfFile(const std::string& path);

    File file;
    Problems problems;
    Header header;
    Scan scanned;
    Formats formats;
};

class PerfData final : private PerfFile, public Decoder {
  public:
    /// `most`: events in a batch (at least 2). Throws Error.
    PerfData(const std::string& path, size_t most);

    using Decoder::problems;
    [[nodiscard]] const Header& about() const { return header; }
    [[nodiscard]] uint32_t n_cpus() const { return source_.n_cpus; }
    [[nodiscard]] const std::vector<uint32_t>& traced() const { return scanned.traced; }  ///< see Scan::traced
    [[nodiscard]] const Formats& event_formats() const { return formats; }
    [[nodiscard]] std::vector<std::string> missing() const override;

  private:
    bool fill(Batch& b, int64_t end) override;
    template <bool Big>
    void one(const Stream<Big>& s, Batch& b);
    template <bool Big>
    void comm(const Stream<Big>& s);
    template <bool Big>
    void fork_or_exit(const Stream<Big>& s, Batch& b);
    bool losses_at_end(Batch& b, int64_t end);

    std::variant<std::monostate, Merge<Stream<false>>, Merge<Stream<true>>> merge_;
    bool has_fork_ = false, has_exit_ = false;
    uint64_t forks_ = 0;  // rows made of FORK records
    uint32_t next_loss_ = 0;  // CPU whose loss at the end is told next
};

}  // namespace rewake::decode::perf
