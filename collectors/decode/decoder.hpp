// SPDX-License-Identifier: GPL-2.0-or-later
// Records of the kernel's tracepoints, in order of time, to batches of columns (rewake.forms EVENT_TABLES), tasks and
// counts. One pass, bounded memory. What a format adds is how it comes by the records: TraceDat, perf::PerfData.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collectors/decode/columns.hpp"
#include "collectors/decode/error.hpp"
#include "collectors/decode/format/events.hpp"
#include "collectors/decode/tasks.hpp"

namespace rewake::decode {

/// Losses of one CPU.
struct CpuLoss {
    int64_t lost = 0;      ///< events, where the number was stored
    uint64_t gaps = 0;     ///< marks
    int64_t blind_ns = 0;  ///< time between the events around the gaps
    int64_t last_ns = Tasks::kNever;

    /// A gap of `n` events (< 0: not known) before `ns`, in a recording that begins at `first_ns`. Damaged times and
    /// counts can be anything: the largest number stands for what leaves the range.
    void add(int64_t n, int64_t ns, int64_t first_ns);
    void add_lost(uint64_t n);
};

/// What one CPU's records span. A busy CPU without records is more suspicious than an idle one.
struct CpuStream {
    int64_t first_ns = Tasks::kNever;
    uint64_t events = 0, steps_back = 0;        ///< steps_back: records older than their predecessor of this CPU
    std::optional<bool> busy_first, busy_last;  ///< by its first and last switch: a task was running before, after
    bool late = false;                          ///< there was more before its first record
    std::optional<uint64_t> loss_after;         ///< events before its last loss that no event followed at once
    uint32_t last_task = 0;                     ///< switched in by its last switch

    /// A record at `ns`; the one before was at `before`.
    void see(int64_t ns, int64_t before) {
        if (events++ == 0) [[unlikely]] {
            first_ns = ns;
        }
        steps_back += ns < before;
    }
    /// A switch of this CPU, `cpu`. A task that leaves it first, and was on another before, came unseen.
    void switched(Tasks& tasks, uint32_t cpu, uint32_t prev, uint32_t next) {
        const bool moved = tasks.switched(prev, cpu);
        if (!busy_first) [[unlikely]] {
            busy_first = tasks.all()[prev].tid != 0;
            late |= *busy_first && moved;
        }
        tasks.switched(next, cpu);
        busy_last = tasks.all()[next].tid != 0;
        last_task = next;
    }
    /// There was more after its last record, if it has one: its data end in a loss, or its last task went on elsewhere.
    [[nodiscard]] bool cut_short(const Tasks& tasks, uint32_t cpu) const {
        return loss_after == events || (busy_last.value_or(false) && tasks.all()[last_task].cpu != cpu);
    }
};

/// What is needed of a file to understand its records. The references outlive the decoder.
struct Source {
    const Formats& formats;
    Problems& problems;
    uint32_t n_cpus;     ///< above every CPU number of the records
    uint32_t long_size;  ///< sizeof(long) of the kernel
};

class Decoder {
  public:
    virtual ~Decoder() = default;
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;

    /// The next batch; null at the end. Throws Error.
    std::unique_ptr<Batch> next();

    [[nodiscard]] const Tasks& tasks() const { return tasks_; }
    /// Before the first batch: ids for the idle tasks of so many CPUs.
    void reserve_idle(uint32_t n_cpus) { tasks_.reserve_idle(n_cpus); }
    /// Records by original event name, all of them and those without a table.
    [[nodiscard]] std::map<std::string, uint64_t> counts(bool skipped_only) const;
    [[nodiscard]] const std::vector<CpuLoss>& losses() const { return losses_; }
    [[nodiscard]] const std::vector<CpuStream>& streams() const { return streams_; }
    [[nodiscard]] std::vector<std::string> problems() const { return source_.problems.lines(); }
    /// What the format could not carry, in words.
    [[nodiscard]] virtual std::vector<std::string> missing() const { return {}; }
    /// Every record says whether it comes from an interrupt.
    [[nodiscard]] bool tells_contexts() const { return true; }

    uint64_t events = 0;         ///< records seen
    uint64_t steps_back = 0;     ///< records older than their predecessor in the merged order
    uint64_t wakeup_failed = 0;  ///< wakeups with success=0, dropped
    int64_t first_ns = Tasks::kNever, last_ns = Tasks::kNever;  ///< earliest and latest time of a record

  protected:
    /// `most`: events in a batch (at least 2).
    Decoder(const Source& source, size_t most);

    /// Visits records until `next_id_` is at least `end` or there are none. True: there are more.
    virtual bool fill(Batch& b, int64_t end) = 0;

    /// One record (defined in rows.hpp). `S`: ring/stream.hpp, or what looks like it.
    template <class S>
    void visit(const S& s, int64_t ns, Batch& b);
    void loss_row(uint16_t cpu, bool counted, uint64_t lost, int64_t ns, Batch& b);

    /// Records that never came here, as skipped ones.
    void add_skipped(const std::string& name, uint64_t n) { others_[name] += n; }

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
    [[nodiscard]] bool cpu_ok(int64_t v) const { return v >= 0 && v < source_.n_cpus; }
    void impossible(uint32_t cpu, uint64_t offset);

    Source source_;
    int64_t next_id_ = 0;
    Tasks tasks_;
    std::vector<CpuLoss> losses_;
    std::vector<CpuStream> streams_;

  private:
    template <class S>
    void table_row(const S& s, const Plan& plan, int64_t ns, Batch& b);
    template <class S>
    void probe_row(const S& s, const Plan& plan, int64_t ns, Batch& b);

    size_t most_;
    int64_t now_ = Tasks::kNever;  // of the record before
    bool more_ = true;
    std::vector<uint64_t> counts_;          // by dense number of the event
    std::map<std::string, uint64_t> others_;
    std::map<uint16_t, uint64_t> unknown_;  // by common_type, types without a format
    std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
    Rows like_{};
};

}  // namespace rewake::decode
