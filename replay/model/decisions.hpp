// SPDX-License-Identifier: GPL-2.0-or-later
// Decision records from events (policies.md C2-C5): one row per wakeup, fork or exec, with its class, the CPU the kernel
// chose, where the task first ran and how long that took; and the cause of every migration.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "replay/model/events.hpp"
#include "replay/model/machine.hpp"

namespace rewake {

// Codes of forms/tables.py ENUMS; a test compares them.
enum class DecisionClass : uint8_t {
    moved,
    stayed,
    self,
    bypass_on_rq,
    maybe_on_cpu,
    maybe_delayed,
    pinned,
    rt,
    dl,
    ext,
    throttled,
    core_cookie,
    unclosed,
    waker_lost,
    observer,
    unrecorded,  ///< placement looks at CPUs whose events were not captured
};

/// The recorded kernel's fair class was asked for a placement.
constexpr bool was_asked(DecisionClass cls) { return cls == DecisionClass::moved || cls == DecisionClass::stayed; }

struct DecisionRow {
    int64_t event_id = 0;
    Ns ts = 0;
    Kind kind = Kind::wake;
    DecisionClass cls = DecisionClass::unclosed;
    TaskId task{};
    std::optional<TaskId> waker_task;
    std::optional<Cpu> waker, prev, chosen, ran;
    std::optional<uint8_t> irq_ctx;
    int16_t prio = 120;
    std::optional<bool> chosen_idle;
    std::optional<uint32_t> idle_state;
    std::optional<Ns> wakeup_ns, latency_ns;
    bool censored = false;
    bool low_confidence = false;
};

/// Whether the wakeup put the task on `chosen` (from then on not idle), given the state the model had it in.
inline bool was_placed(DecisionClass cls, bool chosen_known, Machine::State before) {
    if (!chosen_known) return false;
    switch (cls) {
        case DecisionClass::self:
        case DecisionClass::bypass_on_rq:
        case DecisionClass::throttled:
        case DecisionClass::unclosed: return false;
        case DecisionClass::rt:
        case DecisionClass::dl:
        case DecisionClass::ext:
        case DecisionClass::observer: return before == Machine::State::sleeping || before == Machine::State::unknown;
        default: return true;
    }
}

using Running = std::vector<std::pair<uint16_t, uint32_t>>;  ///< (CPU, task) at the start, see Machine::prime

/// What the recorded kernel does that the events alone do not say, and what of it was recorded.
struct KernelTraits {
    int major = 0, minor = 0;  ///< 0.0: unknown
    bool has_waking = true;  ///< sched_waking exists and was recorded
    bool has_migrate = true;  ///< sched_migrate_task was recorded
    bool has_context = true;  ///< irq_ctx was: else it says nothing where it is IrqCtx::task
    /// It is that version or a later one, or may be: sched_waking tells no more than that it is 4.3 or later.
    bool may_be(int a, int b) const {
        return major > a || (major == a && minor >= b) || (major == 0 && minor == 0 && has_waking);
    }
};

struct DecisionCounts {
    int64_t conflicts = 0;  ///< migrate, prev and wakeup disagree about the chosen CPU
    int64_t prev_mismatch = 0;  ///< sched_waking.target_cpu differs from sched_migrate_task.orig_cpu
    int64_t late = 0;  ///< outcome given up because it lay too many batches ahead (censored)
};

/// Two passes over each batch, one batch apart: scan() finds what closes each decision, run() rebuilds the state at the
/// decision. Call scan(b0), scan(b1), run(b0), scan(b2), run(b1), …, run(last), finish(); take() hands out finished parts.
class DecisionBuilder {
  public:
    struct Part {
        std::vector<DecisionRow> rows;  ///< in order of their opening events
        std::vector<Cause> causes;  ///< per row of the batch's migrate table
        size_t unresolved = 0;
        bool ran = false;
    };

    /// `running`: see Machine::prime.
    DecisionBuilder(const Topology& topo, const TaskTable& tasks, KernelTraits kernel, Running running);
    void scan(const Batch& b);
    /// Returns the causes of the batch's migrations (valid until the next call).
    const std::vector<Cause>& run(const Batch& b);
    void finish();
    /// The oldest part whose decisions all have their outcome, or nothing. Parts come in batch order.
    std::optional<std::vector<DecisionRow>> take();
    const Machine& machine() const { return machine_; }
    /// Contradictions outside of [from, to], the time that all CPUs' records cover, are not counted.
    void count_resyncs(Ns from, Ns to) { machine_.count_resyncs(from, to); }
    const DecisionCounts& counts() const { return counts_; }
    /// Events left out because they name a CPU or task that does not exist.
    int64_t skipped() const { return scan_order_.skipped(); }

  private:
    static constexpr size_t kMaxParts = 16;  ///< parts held back for an outcome that is still to come
    static constexpr Ns kOnCpu = 5'000;  ///< delta of policies.md C3.6a
    enum class Stage : uint8_t { none, await_wakeup, await_run };
    struct Open {  // per task: its decision in flight
        Stage stage = Stage::none;
        bool running = false;  // on a CPU right now
        bool ran_early = false;  // switched in before its sched_wakeup (clocks of two CPUs differ)
        size_t part = 0, row = 0;
        Ns last_block = 0;
        bool blocked = false;
        Cpu left{};  // where it did
        bool has_move = false;  // last migration by a stopper thread, candidate for exec
        Cpu move_from{}, move_to{};
        size_t move_part = 0, move_row = 0;
    };
    struct Extra {  // per row, only until run()
        bool moved = false;
        bool was_running = false;  // wakee on a CPU at the waking event
        bool called = false;  // a probe saw the placement function called for it
        bool blocked_near = false;  // its sleeping switch-out lies within kOnCpu of the waking event
        /// Balancing moved it there after the waking event, asleep on its run queue (6.12+): if it was not placed yet, that is
        /// where it comes from.
        std::optional<Cpu> pulled;
        Cpu wakeup_cpu{};
        bool closed = false;
    };

    Open& open(TaskId t);
    DecisionRow& row(const Open& o) { return parts_[o.part - first_part_].rows[o.row]; }
    Extra& extra(const Open& o) { return extras_[o.part - first_part_][o.row]; }
    bool alive(const Open& o) const { return o.stage != Stage::none && o.part >= first_part_; }
    void resolve(Open& o);
    void close_unseen(Open& o, Ns latency);
    void open_row(Open& o, DecisionRow r, Stage stage);
    void open_by_wakeup(Open& o, const WakeupColumns& w, size_t i);
    void scan_waking(const WakingColumns& w, size_t i);
    void scan_migrate(const MigrateColumns& m, size_t i);
    void scan_wakeup(const WakeupColumns& w, size_t i);
    void scan_switch(const SwitchColumns& s, size_t i);
    void scan_probe(const ProbeEventColumns& p, size_t i);
    void scan_exec(const TaskColumns& e, size_t i);
    DecisionClass classify(const DecisionRow& r, const Extra& x);
    DecisionClass from_events(const DecisionRow& r, const Extra& x);
    void decide(DecisionRow& r, const Extra& x);
    /// What the decision still waits for would happen on `c`.
    bool awaits(const Open& o, Cpu c) {
        const DecisionRow& r = row(o);
        return r.waker == c || (r.chosen ? r.chosen : r.prev) == c;
    }

    const Topology& topo_;
    const TaskTable& table_;
    KernelTraits kernel_;
    Machine machine_;
    EventOrder scan_order_, order_;
    std::deque<Part> parts_;
    std::deque<std::vector<Extra>> extras_;
    size_t first_part_ = 0, run_part_ = 0;
    std::vector<Open> opens_;
    std::vector<Ns> last_idle_;  ///< per CPU: last time it went idle (delayed dequeue, C3.6b)
    Running running_;
    bool primed_ = false;
    std::optional<Ns> probed_from_;  ///< first call of the placement function that a probe saw
    DecisionCounts counts_;
    std::vector<Cause> causes_;
};

}  // namespace rewake
