// SPDX-License-Identifier: GPL-2.0-or-later
// trace.dat to batches of columns (rewake.forms EVENT_TABLES), tasks and counts. One pass, bounded memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "collectors/decode/columns.hpp"
#include "collectors/decode/tasks.hpp"
#include "collectors/decode/trace.hpp"

namespace rewake::decode {

/// Losses of one CPU.
struct CpuLoss {
    int64_t lost = 0;      ///< events, where the number was stored
    uint64_t gaps = 0;     ///< marks
    int64_t blind_ns = 0;  ///< time between the events around the gaps
    int64_t last_ns = Tasks::kNever;
};

/// What one CPU's records span. A busy CPU without records is more suspicious than an idle one.
struct CpuStream {
    int64_t first_ns = Tasks::kNever;
    uint64_t events = 0, steps_back = 0;  ///< steps_back: records older than their predecessor of this CPU
    std::optional<bool> busy_first, busy_last;  ///< by its first and last switch: a task was running before, after
};

class Decoder {
  public:
    /// `most`: events in a batch (at least 2). Throws Error.
    Decoder(const std::string& path, size_t most);

    /// The next batch; null at the end. Throws Error.
    std::unique_ptr<Batch> next();

    [[nodiscard]] const TraceFile& trace() const { return trace_; }
    [[nodiscard]] const Tasks& tasks() const { return tasks_; }
    /// Records by original event name, all of them and those without a table.
    [[nodiscard]] std::map<std::string, uint64_t> counts(bool skipped_only) const;
    [[nodiscard]] const std::vector<CpuLoss>& losses() const { return losses_; }
    [[nodiscard]] const std::vector<CpuStream>& streams() const { return streams_; }
    [[nodiscard]] std::vector<std::string> problems() const { return trace_.problems.lines(); }

    uint64_t events = 0;         ///< records seen
    uint64_t steps_back = 0;     ///< records older than their predecessor in the merged order
    uint64_t wakeup_failed = 0;  ///< wakeups with success=0, dropped
    int64_t first_ns = Tasks::kNever, last_ns = Tasks::kNever;

  private:
    template <bool Big>
    void visit(const Stream<Big>& s, Batch& b);
    template <bool Big>
    void table_row(const Stream<Big>& s, const Plan& plan, int64_t ns, Batch& b);
    template <bool Big>
    void probe_row(const Stream<Big>& s, const Plan& plan, int64_t ns, Batch& b);
    void loss_row(uint16_t cpu, bool counted, uint64_t lost, int64_t ns, Batch& b);

    /// Fills the columns that every table has; the index of the row.
    template <class T>
    size_t head(Batch& b, T& t, int64_t ns, uint16_t cpu) {
        const size_t i = b.row(t);
        t.id.set(i, next_id_++);
        t.ts_ns.set(i, ns);
        t.cpu.set(i, cpu);
        return i;
    }
    [[nodiscard]] bool tid_ok(int64_t v) const { return v >= 0 && v < kTids; }
    [[nodiscard]] bool cpu_ok(int64_t v) const { return v >= 0 && v < trace_.container.n_cpus; }
    void impossible(uint32_t cpu, uint64_t offset);

    TraceFile trace_;
    std::variant<std::monostate, Records<false>, Records<true>> records_;
    size_t most_;
    bool more_ = true;
    int64_t next_id_ = 0;
    Tasks tasks_;
    std::vector<uint64_t> counts_;          // by dense number of the event
    std::map<uint16_t, uint64_t> unknown_;  // by common_type, types without a format
    std::vector<CpuLoss> losses_;
    std::vector<CpuStream> streams_;
    std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
    Rows like_{};
};

}  // namespace rewake::decode
