// SPDX-License-Identifier: GPL-2.0-or-later
// The event tables as columns: one struct a table, in the order and with the types of rewake.forms EVENT_TABLES (a test
// compares them). Memory is raw and comes from a pool: nothing is zero-filled, and a batch that was let go lends its
// pages, already touched, to the next one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace rewake::decode {

/// Blocks of memory that go round. Thread-safe: batches are let go by Python while the next one is decoded.
class Pool {
  public:
    Pool() = default;
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    struct Block {
        void* p = nullptr;
        size_t bytes = 0;
    };
    /// A block of at least `bytes`, with unspecified content. Throws std::bad_alloc.
    Block take(size_t bytes);
    /// `b` with at least `bytes`, its content kept.
    static Block grow(Block b, size_t bytes);
    void give(Block b);

  private:
    static constexpr size_t kMost = 256;
    std::mutex lock_;
    std::vector<Block> free_;
};

/// A column of T. `Null` columns carry a byte a row, 1 = NULL.
template <class T, bool Null = false>
struct Column {
    using Value = T;
    static constexpr bool nullable = Null;
    T* v = nullptr;
    uint8_t* null = nullptr;
    Pool::Block values, nulls;

    void set(size_t i, T value) {
        v[i] = value;
        if constexpr (Null) {
            null[i] = 0;
        }
    }
    void set_null(size_t i)
        requires Null
    {
        v[i] = T{};
        null[i] = 1;
    }
};
template <class T>
using Nullable = Column<T, true>;

struct TableBase {
    size_t n = 0, room = 0, first = 0;  // rows, rows that fit, rows to make room for at first
};

/// Rows of each table, in the order of Batch::tables.
using Rows = std::array<size_t, 14>;

struct Head : TableBase {
    Column<int64_t> id, ts_ns;
    Column<uint16_t> cpu;
    template <class F>
    void head(F&& f) {
        f("id", id), f("ts_ns", ts_ns), f("cpu", cpu);
    }
};

struct SwitchTable : Head {
    static constexpr const char* name = "switch";
    Column<uint32_t> prev_task;
    Column<int16_t> prev_prio;
    Column<uint8_t> prev_state;
    Column<uint32_t> next_task;
    Column<int16_t> next_prio;
    template <class F>
    void each(F&& f) {
        head(f), f("prev_task", prev_task), f("prev_prio", prev_prio), f("prev_state", prev_state),
            f("next_task", next_task), f("next_prio", next_prio);
    }
};

struct WakingTable : Head {
    static constexpr const char* name = "waking";
    Column<uint32_t> curr_task;
    Column<uint8_t> irq_ctx;
    Column<uint32_t> task;
    Column<int16_t> prio;
    Column<uint16_t> target_cpu;
    template <class F>
    void each(F&& f) {
        head(f), f("curr_task", curr_task), f("irq_ctx", irq_ctx), f("task", task), f("prio", prio),
            f("target_cpu", target_cpu);
    }
};

struct WakeupTable : WakingTable {
    static constexpr const char* name = "wakeup";
    Column<bool> is_new;
    template <class F>
    void each(F&& f) {
        WakingTable::each(f), f("is_new", is_new);
    }
};

struct MigrateTable : Head {
    static constexpr const char* name = "migrate";
    Column<uint32_t> curr_task;
    Column<uint8_t> irq_ctx;
    Column<uint32_t> task;
    Column<int16_t> prio;
    Column<uint16_t> orig_cpu, dest_cpu;
    Nullable<uint8_t> cause;  // worked out at import, after decode
    template <class F>
    void each(F&& f) {
        head(f), f("curr_task", curr_task), f("irq_ctx", irq_ctx), f("task", task), f("prio", prio),
            f("orig_cpu", orig_cpu), f("dest_cpu", dest_cpu), f("cause", cause);
    }
};

struct ForkTable : Head {
    static constexpr const char* name = "fork";
    Column<uint32_t> task, child;
    template <class F>
    void each(F&& f) {
        head(f), f("task", task), f("child", child);
    }
};

struct ExecTable : Head {
    static constexpr const char* name = "exec";
    Column<uint32_t> task;
    template <class F>
    void each(F&& f) {
        head(f), f("task", task);
    }
};

struct ExitTable : Head {
    static constexpr const char* name = "exit";
    Column<uint32_t> task;
    Column<int16_t> prio;
    template <class F>
    void each(F&& f) {
        head(f), f("task", task), f("prio", prio);
    }
};

struct IrqTable : Head {
    static constexpr const char* name = "irq";
    Column<uint32_t> curr_task;
    Column<uint8_t> kind;
    Column<int32_t> vector;
    Column<bool> entry;
    template <class F>
    void each(F&& f) {
        head(f), f("curr_task", curr_task), f("kind", kind), f("vector", vector), f("entry", entry);
    }
};

struct SoftirqTable : Head {
    static constexpr const char* name = "softirq";
    Column<uint32_t> curr_task;
    Column<uint8_t> vec, phase;
    template <class F>
    void each(F&& f) {
        head(f), f("curr_task", curr_task), f("vec", vec), f("phase", phase);
    }
};

struct IpiTable : Head {
    static constexpr const char* name = "ipi";
    Column<uint32_t> curr_task;
    Column<uint8_t> phase;
    Nullable<uint16_t> target_cpu;
    template <class F>
    void each(F&& f) {
        head(f), f("curr_task", curr_task), f("phase", phase), f("target_cpu", target_cpu);
    }
};

struct IdleTable : Head {
    static constexpr const char* name = "idle";
    Column<uint16_t> idle_cpu;
    Nullable<uint32_t> state;
    template <class F>
    void each(F&& f) {
        head(f), f("idle_cpu", idle_cpu), f("state", state);
    }
};

struct FreqTable : Head {
    static constexpr const char* name = "freq";
    Column<uint16_t> freq_cpu;
    Column<uint32_t> khz;
    template <class F>
    void each(F&& f) {
        head(f), f("freq_cpu", freq_cpu), f("khz", khz);
    }
};

struct LossTable : Head {
    static constexpr const char* name = "loss";
    Nullable<int64_t> lost;
    template <class F>
    void each(F&& f) {
        head(f), f("lost", lost);
    }
};

struct ProbeTable : Head {
    static constexpr const char* name = "probe";
    Column<uint32_t> curr_task;
    Column<uint8_t> phase;
    Nullable<uint32_t> task;
    Nullable<uint16_t> prev_cpu;
    Nullable<int32_t> wake_flags;
    Nullable<uint16_t> recent_cpu;
    Nullable<uint32_t> flips;
    Nullable<int64_t> util, load;
    Nullable<int32_t> nallowed, nr_idle_scan, has_idle_cores;
    Nullable<int64_t> rq_load;
    Nullable<int32_t> rq_nr;
    Nullable<uint16_t> chosen_cpu;
    template <class F>
    void each(F&& f) {
        head(f), f("curr_task", curr_task), f("phase", phase), f("task", task), f("prev_cpu", prev_cpu),
            f("wake_flags", wake_flags), f("recent_cpu", recent_cpu), f("flips", flips), f("util", util),
            f("load", load), f("nallowed", nallowed), f("nr_idle_scan", nr_idle_scan),
            f("has_idle_cores", has_idle_cores), f("rq_load", rq_load), f("rq_nr", rq_nr), f("chosen_cpu", chosen_cpu);
    }
};

/// One batch: all tables.
class Batch {
  public:
    /// `like`: rows per table of the batch before, a first guess of the room that is needed.
    explicit Batch(std::shared_ptr<Pool> pool, const Rows& like = {}) : pool_(std::move(pool)) {
        size_t i = 0;
        tables([&](TableBase& t) { t.first = like[i++]; });
    }
    ~Batch();
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    SwitchTable switch_;
    WakingTable waking;
    WakeupTable wakeup;
    MigrateTable migrate;
    ForkTable fork;
    ExecTable exec;
    ExitTable exit;
    IrqTable irq;
    SoftirqTable softirq;
    IpiTable ipi;
    IdleTable idle;
    FreqTable freq;
    LossTable loss;
    ProbeTable probe;

    template <class F>
    void tables(F&& f) {
        f(switch_), f(waking), f(wakeup), f(migrate), f(fork), f(exec), f(exit), f(irq), f(softirq), f(ipi), f(idle),
            f(freq), f(loss), f(probe);
    }

    /// Index of a new row of `t`, a table of this batch.
    template <class T>
    size_t row(T& t) {
        if (t.n == t.room) [[unlikely]] {
            grow(t);
        }
        return t.n++;
    }
    [[nodiscard]] Rows rows() {
        Rows out{};
        size_t i = 0;
        tables([&](TableBase& t) { out[i++] = t.n; });
        return out;
    }
    [[nodiscard]] const std::shared_ptr<Pool>& pool() const { return pool_; }

  private:
    static constexpr size_t kFirstRows = 4096;

    template <class T>
    void grow(T& t) {
        const size_t room = t.room == 0 ? std::max(kFirstRows, t.first + t.first / 8) : t.room * 2;
        t.each([&](const char*, auto& column) {
            using Value = typename std::remove_reference_t<decltype(column)>::Value;
            column.values = enlarge(column.values, room * sizeof(Value));
            column.v = static_cast<Value*>(column.values.p);
            if constexpr (std::remove_reference_t<decltype(column)>::nullable) {
                column.nulls = enlarge(column.nulls, room);
                column.null = static_cast<uint8_t*>(column.nulls.p);
            }
        });
        t.room = room;
    }
    Pool::Block enlarge(Pool::Block b, size_t bytes) {
        return b.p == nullptr ? pool_->take(bytes) : Pool::grow(b, bytes);
    }

    std::shared_ptr<Pool> pool_;
};

}  // namespace rewake::decode
