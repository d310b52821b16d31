// SPDX-License-Identifier: GPL-2.0-or-later
// A batch of recorded events as columns (forms/tables.py EVENT_TABLES), and the walk over all its tables in event order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "replay/model/ids.hpp"

namespace rewake {

// Codes of forms/tables.py ENUMS that the model looks at; a test compares them.
enum class PrevState : uint8_t { R, R_plus, S, D, T, t, X, Z, P, I, other };
enum class IrqCtx : uint8_t { task, softirq, hardirq, nmi };
enum class Cause : uint8_t { wake, fork, exec, newidle, periodic, active, numa, affinity, hotplug, unknown };

inline constexpr uint8_t kLocalTimer = 1;  ///< of irq_kind

inline bool still_runnable(uint8_t prev_state) { return prev_state <= static_cast<uint8_t>(PrevState::R_plus); }
/// It blocked in a way that no wakeup but the one meant for it may end (is_special_task_state()).
inline bool blocks_for_good(uint8_t s) {
    switch (static_cast<PrevState>(s)) {
        case PrevState::T:
        case PrevState::t:
        case PrevState::X:
        case PrevState::Z:
        case PrevState::P: return true;
        default: return false;
    }
}
inline bool is_dead(uint8_t s) {
    return s == static_cast<uint8_t>(PrevState::X) || s == static_cast<uint8_t>(PrevState::Z);
}

/// Columns common to all event tables.
struct HeadColumns {
    size_t n = 0;
    const int64_t* id = nullptr;
    const int64_t* ts = nullptr;
    const uint16_t* cpu = nullptr;
};
struct SwitchColumns : HeadColumns {
    const uint32_t* prev_task = nullptr;
    const int16_t* prev_prio = nullptr;
    const uint8_t* prev_state = nullptr;
    const uint32_t* next_task = nullptr;
    const int16_t* next_prio = nullptr;
};
struct WakingColumns : HeadColumns {
    const uint32_t* curr_task = nullptr;
    const uint8_t* irq_ctx = nullptr;
    const uint32_t* task = nullptr;
    const int16_t* prio = nullptr;
    const uint16_t* target_cpu = nullptr;
};
struct WakeupColumns : WakingColumns {
    const bool* is_new = nullptr;
};
struct MigrateColumns : HeadColumns {
    const uint32_t* curr_task = nullptr;
    const uint8_t* irq_ctx = nullptr;
    const uint32_t* task = nullptr;
    const int16_t* prio = nullptr;
    const uint16_t* orig_cpu = nullptr;
    const uint16_t* dest_cpu = nullptr;
    const uint8_t* cause = nullptr;  ///< Cause; nullptr: not read
    const bool* cause_null = nullptr;
};
struct ForkColumns : HeadColumns {
    const uint32_t* task = nullptr;
    const uint32_t* child = nullptr;
};
struct TaskColumns : HeadColumns {  // exec, exit
    const uint32_t* task = nullptr;
};
struct IdleColumns : HeadColumns {
    const uint16_t* idle_cpu = nullptr;
    const uint32_t* state = nullptr;
    const bool* state_null = nullptr;  ///< nullptr: no NULL in the column
};

struct IrqColumns : HeadColumns {
    const bool* entry = nullptr;
    const uint8_t* kind = nullptr;  ///< code of irq_kind of ENUMS; nullptr: not read
};

/// Calls of the placement function and their returns, in pairs on each CPU.
struct ProbeEventColumns : HeadColumns {
    const uint8_t* phase = nullptr;  ///< 0: call, 1: return
    const uint32_t* task = nullptr;  ///< wakee of a call
    const bool* task_null = nullptr;
};

/// The tables of one batch that the model reads. Pointers are borrowed for the call that receives the batch.
struct Batch {
    SwitchColumns sw;
    WakingColumns waking;
    WakeupColumns wakeup;
    MigrateColumns migrate;
    ForkColumns fork;
    TaskColumns exec, exit;
    IdleColumns idle;
    IrqColumns irq;  ///< only for replays that follow interrupts
    HeadColumns loss;
    HeadColumns balance;  ///< SCHED softirqs begin
    HeadColumns tick;  ///< interrupts of local timers of idle CPUs; may be rows of irq, too
    /// Interrupts begin in which an idle CPU empties its wake list, where others see that; may be rows of irq, too.
    HeadColumns wake_list;
    ProbeEventColumns probe;  ///< only where placement probes are used
};

/// Which table an event of the walk belongs to.
enum class Event : uint8_t {
    none,
    sw,
    waking,
    wakeup,
    migrate,
    fork,
    exec,
    exit,
    idle,
    irq,
    loss,
    balance,
    tick,
    wake_list,
    probe
};

/// How long before their events others see a switch on a CPU, and a task that is queued by it, ns.
struct Lead {
    int64_t switched = 0, queued = 0;
};

/// Merges the tables of a batch by event id. Ids are dense over the recording, so the merge is one scatter: O(events).
class EventOrder {
  public:
    EventOrder(size_t n_cpus, size_t n_tasks) : n_cpus_(n_cpus), n_tasks_(n_tasks) {}

    /// Rows that name a CPU or a task that does not exist (a corrupted trace) are left out and counted in skipped().
    /// Throws std::invalid_argument when the ids are not those of one batch (a recording that was tampered with).
    void build(const Batch& b) {
        int64_t lo = std::numeric_limits<int64_t>::max(), hi = -1;
        auto range = [&](const HeadColumns& c) {
            if (c.n == 0) return;
            if (c.id[0] < lo) lo = c.id[0];
            if (c.id[c.n - 1] > hi) hi = c.id[c.n - 1];
        };
        range(b.sw), range(b.waking), range(b.wakeup), range(b.migrate), range(b.fork), range(b.exec), range(b.exit);
        range(b.idle), range(b.irq), range(b.loss), range(b.balance), range(b.tick), range(b.wake_list), range(b.probe);
        slots_.clear();
        for (auto& [e, row] : also_irq_) row.clear();
        if (b.irq.n) also_irq_[0].row.assign(b.tick.n, kNoRow), also_irq_[1].row.assign(b.wake_list.n, kNoRow);
        if (hi < 0) return;
        if (lo < 0 || hi - lo >= kMaxSpan) throw std::invalid_argument("event ids of a batch are not consecutive");
        slots_.assign(static_cast<size_t>(hi - lo + 1), 0);
        auto place = [&](const HeadColumns& c, Event e, auto valid) {
            for (size_t i = 0; i < c.n; ++i) {
                if (c.cpu[i] >= n_cpus_ || !valid(i)) {
                    ++skipped_;
                    continue;
                }
                const int64_t at = c.id[i] - lo;
                uint32_t* const slot = at < 0 || at > hi - lo ? nullptr : &slots_[static_cast<size_t>(at)];
                const bool shared = slot && also_irq(e) && *slot >> kRowBits == static_cast<uint32_t>(Event::irq);
                if (!slot || (*slot != 0 && !shared))
                    throw std::invalid_argument("event ids of a batch are out of order or used twice");
                if (shared) also_irq(e)->row[i] = *slot & kRowMask;
                *slot = (static_cast<uint32_t>(e) << kRowBits) | static_cast<uint32_t>(i);
            }
        };
        auto cpu = [&](uint16_t c) { return c < n_cpus_; };
        auto task = [&](uint32_t t) { return t < n_tasks_; };
        place(b.sw, Event::sw, [&](size_t i) { return task(b.sw.prev_task[i]) && task(b.sw.next_task[i]); });
        auto wake = [&](const WakingColumns& w) {
            return [&, w](size_t i) { return task(w.task[i]) && task(w.curr_task[i]) && cpu(w.target_cpu[i]); };
        };
        place(b.waking, Event::waking, wake(b.waking));
        place(b.wakeup, Event::wakeup, wake(b.wakeup));
        place(b.migrate, Event::migrate, [&](size_t i) {
            const MigrateColumns& m = b.migrate;
            return task(m.task[i]) && task(m.curr_task[i]) && cpu(m.orig_cpu[i]) && cpu(m.dest_cpu[i]);
        });
        place(b.fork, Event::fork, [&](size_t i) { return task(b.fork.task[i]) && task(b.fork.child[i]); });
        place(b.exec, Event::exec, [&](size_t i) { return task(b.exec.task[i]); });
        place(b.exit, Event::exit, [&](size_t i) { return task(b.exit.task[i]); });
        place(b.idle, Event::idle, [&](size_t i) { return cpu(b.idle.idle_cpu[i]); });
        place(b.irq, Event::irq, [](size_t) { return true; });
        place(b.loss, Event::loss, [](size_t) { return true; });
        place(b.balance, Event::balance, [](size_t) { return true; });
        place(b.tick, Event::tick, [](size_t) { return true; });
        place(b.wake_list, Event::wake_list, [](size_t) { return true; });
        place(b.probe, Event::probe, [&](size_t i) {
            return b.probe.phase[i] != 0 || (b.probe.task_null && b.probe.task_null[i]) || task(b.probe.task[i]);
        });
    }
    int64_t skipped() const { return skipped_; }

    /// How long before its time stamp others see what the event tells. `lead`: by CPU. Not new tasks, as their events open
    /// decisions.
    static int64_t lead_of(const Batch& b, Event e, size_t row, const std::vector<Lead>& lead) {
        if (lead.empty()) return 0;
        const bool switches = e == Event::sw;
        if (!switches && (e != Event::wakeup || b.wakeup.is_new[row])) return 0;
        const uint16_t cpu = switches ? b.sw.cpu[row] : b.wakeup.cpu[row];
        if (cpu >= lead.size()) return 0;
        return switches ? lead[cpu].switched : lead[cpu].queued;
    }

    /// After build(): what others see before its time stamp (lead_of) comes before what happens elsewhere in between, but
    /// not before another event of its CPU or of its tasks.
    void bring_forward(const Batch& b, const std::vector<Lead>& lead);

    /// Calls f(Event, row) in event order.
    template <class F>
    void walk(F f) const {
        for (uint32_t s : slots_) call(s, f);
    }

    /// As walk(), and calls soon(Event, row) some events earlier: to fetch what f() will look at.
    template <class Soon, class F>
    void walk(Soon soon, F f) const {
        for (size_t k = 0; k < slots_.size(); ++k) {
            if (k + kSoon < slots_.size()) call(slots_[k + kSoon], soon);
            call(slots_[k], f);
        }
    }

  private:
    static constexpr size_t kSoon = 4;
    static constexpr int kRowBits = 28;
    static constexpr uint32_t kRowMask = (1u << kRowBits) - 1;
    static constexpr int64_t kMaxSpan = int64_t{1} << kRowBits;
    static constexpr uint32_t kNoRow = 0xffffffff;
    template <class F>
    void call(uint32_t s, F& f) const {
        if (s == 0) return;
        const auto e = static_cast<Event>(s >> kRowBits);
        const size_t row = s & kRowMask;
        f(e, row);
        for (const AlsoIrq& also : also_irq_)
            if (e == also.e && row < also.row.size() && also.row[row] != kNoRow)
                f(Event::irq, static_cast<size_t>(also.row[row]));
    }
    /// Events that may be rows of irq as well: which.
    struct AlsoIrq {
        Event e;
        std::vector<uint32_t> row;
    };
    AlsoIrq* also_irq(Event e) {
        for (AlsoIrq& also : also_irq_)
            if (also.e == e) return &also;
        return nullptr;
    }
    std::vector<uint32_t> slots_;
    std::array<AlsoIrq, 2> also_irq_{{{Event::tick, {}}, {Event::wake_list, {}}}};
    size_t n_cpus_, n_tasks_;
    int64_t skipped_ = 0;
};

}  // namespace rewake
