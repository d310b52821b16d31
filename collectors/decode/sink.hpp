// SPDX-License-Identifier: GPL-2.0-or-later
// Rows from events that are numbers and names already: what the text and the Perfetto decoders share. Times come in the
// order of the file; counts, losses and tasks are kept as the trace.dat decoder keeps them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collectors/decode/columns.hpp"
#include "collectors/decode/decoder.hpp"
#include "collectors/decode/error.hpp"
#include "collectors/decode/format/prev_state.hpp"
#include "collectors/decode/tasks.hpp"

namespace rewake::decode {

/// The first 16 bytes of a name, padded.
[[nodiscard]] inline CommBytes comm_of(std::string_view s) {
    CommBytes out{};
    s.copy(reinterpret_cast<char*>(out.data()), out.size());
    return out;
}

/// Where an event happened. `tid`: of the task that was running there.
struct At {
    int64_t ns = 0;
    uint32_t cpu = 0;  ///< below Sink::cpus()
    int64_t tid = 0;
    uint8_t irq_ctx = 0;  ///< code of forms ENUMS["irq_ctx"]
    uint64_t where = 0;  ///< line or offset, for messages
};

/// A task as an event names it.
struct Who {
    int64_t tid = -1;
    int64_t prio = 0;
    CommBytes comm{};
};

class Sink {
  public:
    /// `most`: events in a batch (at least 2). `unit` names what At::where counts ("line").
    Sink(uint32_t n_cpus, size_t most, const char* unit);

    [[nodiscard]] uint32_t cpus() const { return n_cpus_; }

    // --- batches

    /// Rows go to a fresh batch from here on.
    void start();
    /// The batch has room for another event.
    [[nodiscard]] bool room() const { return next_id_ < end_; }
    /// The batch; null when it is empty.
    std::unique_ptr<Batch> take();

    // --- events. Those of one event: see(), then at most one row.

    /// Counts an event and its time.
    void see(const At& at) {
        if (first_ns == Tasks::kNever) [[unlikely]] {
            first_ns = at.ns;
        }
        if (at.ns < now_) [[unlikely]] {
            ++steps_back;
            first_ns = first_ns < at.ns ? first_ns : at.ns;
        }
        now_ = at.ns;
        last_ns = last_ns < now_ ? now_ : last_ns;
        streams_[at.cpu].see(at.ns, losses_[at.cpu].last_ns);
        losses_[at.cpu].last_ns = at.ns;
        ++events;
    }
    /// Counts an event without a table. Its time counts only where it goes on: systrace ends in a mark at time 0.
    void pass(const At& at) {
        if (at.ns >= now_ && now_ != Tasks::kNever) {
            see(at);
        } else {
            ++events;
        }
    }
    /// A gap before the next event of the CPU; `lost` < 0: their number is not known.
    void loss(uint32_t cpu, int64_t ns, int64_t lost);
    /// A gap behind the CPU's last event.
    void loss_at_end(uint32_t cpu, int64_t lost) {
        losses_[cpu].add(lost, losses_[cpu].last_ns, losses_[cpu].last_ns);
        streams_[cpu].loss_after = streams_[cpu].events;
    }
    /// Losses that are not known to lie at one place, per CPU.
    void lost_somewhere(uint32_t cpu, uint64_t lost) { losses_[cpu].add_lost(lost); }

    void switched(const At& at, const Who& prev, PrevState state, const Who& next);
    void waking(const At& at, const Who& who, int64_t target);
    void wakeup(const At& at, const Who& who, int64_t target, bool is_new);
    void failed() { ++wakeup_failed; }  ///< a wakeup with success=0
    void migrate(const At& at, const Who& who, int64_t orig, int64_t dest);
    void fork(const At& at, const Who& parent, const Who& child);
    void exec(const At& at, int64_t tid);
    void exit(const At& at, const Who& who);
    void irq(const At& at, uint8_t kind, int64_t vector, bool entry);
    void softirq(const At& at, int64_t vec, uint8_t phase);
    /// `target` < 0: not known, or several.
    void ipi(const At& at, uint8_t phase, int64_t target);
    void idle(const At& at, int64_t state, int64_t cpu);
    void freq(const At& at, int64_t khz, int64_t cpu);

    /// Fields of a placement probe; what is not fetched, or cannot be, becomes NULL.
    struct Probe {
        static constexpr int64_t kAbsent = INT64_MIN;
        int64_t task = kAbsent, prev_cpu = kAbsent, wake_flags = kAbsent, recent_cpu = kAbsent, flips = kAbsent,
                util = kAbsent, load = kAbsent, nallowed = kAbsent, nr_idle_scan = kAbsent, has_idle_cores = kAbsent,
                rq_load = kAbsent, rq_nr = kAbsent, chosen_cpu = kAbsent;
    };
    void probe(const At& at, bool in, const Probe& fields);

    // --- interrupt context of a CPU, rebuilt from irq and softirq events for formats that do not say it

    [[nodiscard]] uint8_t rebuilt_ctx(uint32_t cpu) const {
        return context_[cpu].hard > 0 ? 2 : context_[cpu].soft ? 1 : 0;
    }
    /// Interrupt events were seen, so the above says something.
    [[nodiscard]] bool saw_irqs() const { return saw_irqs_; }

    /// The task that the last switch of a CPU, with no loss since, went to; -1: none.
    [[nodiscard]] int64_t running(uint32_t cpu) const { return cpu < n_cpus_ ? context_[cpu].tid : -1; }

    // --- counts

    /// A counter by event name. At most kMaxNames names are told apart, the others share one.
    uint64_t& counter(std::string_view name, bool has_table);
    [[nodiscard]] std::map<std::string, uint64_t> counts(bool skipped_only) const;

    [[nodiscard]] const Tasks& tasks() const { return tasks_; }
    /// Before the first event: ids for the idle tasks of so many CPUs.
    void reserve_idle(uint32_t n_cpus) { tasks_.reserve_idle(n_cpus); }
    [[nodiscard]] const std::vector<CpuLoss>& losses() const { return losses_; }
    [[nodiscard]] const std::vector<CpuStream>& streams() const { return streams_; }

    Problems problems;
    uint64_t events = 0, steps_back = 0, wakeup_failed = 0;
    int64_t first_ns = Tasks::kNever, last_ns = Tasks::kNever;  ///< earliest and latest time of an event

  private:
    static constexpr size_t kMaxNames = 4096;

    struct Context {
        uint32_t hard = 0;
        bool soft = false;
        int64_t tid = -1;
    };
    struct Count {
        uint64_t n = 0;
        bool has_table = false;
    };

    template <class T>
    size_t head(T& t, const At& at) {
        const size_t i = batch_->row(t);
        t.id.set(i, next_id_++);
        t.ts_ns.set(i, at.ns);
        t.cpu.set(i, static_cast<uint16_t>(at.cpu));
        return i;
    }
    [[nodiscard]] bool tid_ok(int64_t v) const { return v >= 0 && v < kTids; }
    [[nodiscard]] bool cpu_ok(int64_t v) const { return v >= 0 && v < n_cpus_; }
    /// True, and counted, when the values cannot be.
    bool impossible(const At& at, bool fine);
    uint32_t task_of(int64_t tid, const At& at) { return tasks_.see(static_cast<uint32_t>(tid), at.cpu, at.ns); }
    void name(uint32_t task, const Who& who, const At& at) {
        tasks_.name(task, reinterpret_cast<const uint8_t*>(who.comm.data()), sizeof who.comm, at.ns);
    }
    void fill_wake(WakingTable& t, size_t i, const At& at, const Who& who, int64_t target);

    uint32_t n_cpus_;
    size_t most_;
    const char* unit_;
    int64_t next_id_ = 0, begin_ = 0, end_ = 0;
    int64_t now_ = Tasks::kNever;
    Tasks tasks_;
    std::vector<CpuLoss> losses_;
    std::vector<CpuStream> streams_;
    std::vector<Context> context_;
    bool saw_irqs_ = false;
    std::map<std::string, Count, std::less<>> counts_;
    std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
    Rows like_{};
    std::unique_ptr<Batch> batch_;
};

}  // namespace rewake::decode
