// SPDX-License-Identifier: GPL-2.0-or-later
// The fair class of a recorded kernel, one level deep (policies.md D2.5): CFS until 6.5, EEVDF from 6.6. Task groups make a
// tree of such levels: tree.hpp. Source: kernel/sched/fair.c of 6.1, 6.6, 6.12 and 7.2.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "replay/model/fair/task_list.hpp"
#include "replay/model/ids.hpp"
#include "replay/model/mask.hpp"
#include "replay/model/paged.hpp"
#include "replay/model/tasks.hpp"

namespace rewake {

struct FairSettings {
    enum class Kind : uint8_t { cfs, eevdf, fifo };
    Kind kind = Kind::cfs;
    Ns latency = 6'000'000, granularity = 750'000, wakeup_granularity = 1'000'000;  ///< CFS
    Ns slice = 750'000;  ///< EEVDF
    Ns tick = 4'000'000, tick_at = 0;  ///< period, and when one was
    bool delays = false;  ///< 6.12+: a task that sleeps before its turn stays queued
    bool moves_late = false;  ///< 6.12, 6.13: balancing moves them, too
    bool counts_cores = false;  ///< 6.6+: balancing evens out tasks per core, busy CPUs do not, idle ones relieve cores
    bool boosts = false;  ///< 6.5+: the fullest CPU is found by who waits there, too, in the last of full groups
    bool forfeits = false;  ///< 6.12.y, 6.18+: who yields gives up the rest of its slice; before, it got another one
    bool goes_unprotected = false;  ///< 6.12 - 6.16: what runs goes when it is neither protected nor eligible
    bool lag_by_tick = false;  ///< 6.18+: lag kept over a sleep is limited by a slice and a tick, before by two slices
    bool late_clock = false;  ///< until 6.x: the clock is not read before one that never left its queue is placed anew
    bool lazy = false;  ///< 7.0+: what runs is told to go lazily, and schedule() reads the clock
    bool looks_on = false;  ///< 7.0+: a wakeup that finds one that sleeps to be next lets it go, and looks who is then
    bool forks_wait = false;  ///< 7.0+: a newborn takes no CPU from what runs
    bool keeps_lag = false;  ///< 7.0+: who is delayed and woken owes no more than when it fell asleep
    bool hrtick = false;  ///< slices end when they end, not at the next tick
    /// Of a kernel version on a machine with that many CPUs (the tunables grow with them).
    static FairSettings of(int major, int minor, int cpus, Ns tick);
};

/// Number of a run queue: that of its CPU, beyond those that of a task group on a CPU.
struct Rq {
    uint32_t v = 0;
    constexpr Rq() = default;
    constexpr Rq(Cpu c) : v(c.v) {}
    constexpr explicit Rq(size_t number) : v(static_cast<uint32_t>(number)) {}
    bool operator==(const Rq&) const = default;
};

/// Balancing that moves several tasks takes no longer from one to the next.
inline constexpr Ns kDetaches = 5'000;

/// Run queues of all CPUs. Times of charge() on one CPU never go back.
class FairQueues {
  public:
    FairQueues(size_t cpus, size_t tasks, FairSettings settings);
    enum class How : uint8_t { wakeup, fork, moved };

    /// Puts `t` on the queue of `c`, of which what runs is brought up to `now`.
    void enqueue(Rq c, TaskId t, int32_t weight, How how, Ns now);
    /// The newborn takes its place beside its parent, who runs on `c`.
    void fork(Rq c, TaskId parent, TaskId child);
    void dequeue(TaskId t, bool sleeps);
    /// `t`, which is delayed(), still is on `c`: balancing took it there.
    void carry(Rq c, TaskId t, Ns now);
    /// `t`, which sleeps or waits, will be queued on another CPU.
    void leave(TaskId t);
    /// From now on who was delayed() and leaves its queue is added there; nullptr: nowhere. Copies do so, too.
    void tell_gone(std::vector<TaskId>* to) { gone_ = to; }
    bool queued(TaskId t) const { return tasks_[t.v].on; }
    /// Still a competitor on its old queue although it sleeps (6.12+): in neither queued() nor size().
    bool delayed(TaskId t) const { return tasks_[t.v].delayed; }
    Cpu cpu(TaskId t) const { return Cpu(static_cast<uint16_t>(tasks_[t.v].cpu.v)); }
    size_t size(Rq c) const { return cpus_[c.v].queue.size(); }
    const TaskList& queue(Rq c) const { return cpus_[c.v].queue; }  ///< who ran or came last at the end, curr included
    /// Balancing looks at `a` before `b`: it came to its queue, got the CPU or was passed_over() longer ago (rq->cfs_tasks). Who
    /// is delayed() and woken keeps its place.
    bool before(TaskId a, TaskId b) const {
        return static_cast<int32_t>(tasks_[a.v].touched - tasks_[b.v].touched) < 0;
    }
    /// Balancing looked at `t` and left it: next time it looks at all others of its CPU first (detach_tasks()).
    void passed_over(TaskId t) { touch(tasks_[t.v]); }
    /// CPUs on whose queue somebody waits.
    const CpuMask& crowded() const { return crowded_; }

    /// An event of `t` comes soon.
    void expect(TaskId t) const { tasks_.expect(t.v); }
    /// And of what runs and waits there.
    void expect(Rq c) const {
        const auto* q = reinterpret_cast<const char*>(&cpus_[c.v]);
        __builtin_prefetch(q), __builtin_prefetch(q + 64);
    }
    /// Brings what runs on `c` up to `now`.
    void charge(Rq c, Ns now);
    /// As charge(), by schedule() there: where a wakeup told what runs to go it does not read the clock again, so what is left
    /// of its time is the next task's (rq_clock_skip_update() in wakeup_preempt(); check_preempt_curr() of 6.1).
    void charge_by_schedule(Rq c, Ns now) { charge(c, clock(c, now)); }
    /// The idle task, which runs on `c`, was told to go by a wakeup; charge() first.
    void told_idle(Rq c) { cpus_[c.v].skips = true; }
    /// schedule() there is over, and nobody of this class started.
    void scheduled(Rq c) { cpus_[c.v].skips = false; }
    /// As charge(), up to the last tick before `now`: what the kernel knows of a CPU that just runs on.
    void ticked(Rq c, Ns now);
    /// `t`, which is queued on `c`, gets the CPU / loses it.
    void start(Rq c, TaskId t, Ns now);
    void stop(Rq c, Ns now);
    /// Who runs next on `c`, curr included if it runs; charge() first. There is one.
    TaskId pick(Rq c);
    /// `t`, which runs and has been charged, lets others run (yield_task_fair()).
    void yield(TaskId t);
    const FairSettings& settings() const { return set_; }
    /// Nobody runs next on `c`.
    void drain(Rq c);
    /// `woken`, just queued on `c`, takes the CPU from what runs there; false, too, where that has to go already.
    bool preempts(Rq c, TaskId woken, FairPolicy of_woken, FairPolicy of_curr);
    /// When what runs on `c` was told to go, if it was and has not gone yet.
    std::optional<Ns> told(Rq c) const {
        const Queue& q = cpus_[c.v];
        return q.running && q.due ? std::optional(q.told_at) : std::nullopt;
    }
    /// What runs on `c` was told to go and went on: CFS had not told it. (EEVDF: its slice may be over, until the next tick.)
    void goes_on(Rq c) {
        cpus_[c.v].due = cpus_[c.v].due && set_.kind != FairSettings::Kind::cfs;
        scheduled(c);
    }
    /// Whether a tick takes the CPU away from what runs on `c`.
    bool tick(Rq c);
    bool times_slices() const { return set_.hrtick; }
    /// How much of its slice what runs on `c` has left, of time; with company, and where slices are timed.
    std::optional<Ns> slice_left(Rq c) const;

    // What the recorded kernel did sets guesses right: the vruntimes (EEVDF: lags) of tasks older than the first event.
    /// EEVDF: `t`, which sleeps, was owed as much when it left its queue; at most what is kept over a sleep.
    void owe(TaskId t, int64_t lag) {
        if (set_.kind == FairSettings::Kind::eevdf && !tasks_[t.v].on)
            tasks_[t.v].lag = std::min(lag, most_lag(tasks_[t.v]));
    }
    int64_t lag(TaskId t) const { return tasks_[t.v].lag; }  ///< of one that sleeps
    /// How far `woken` is behind `curr`, and that it took the CPU from it nonetheless / did not, although it was expected to.
    /// EEVDF: then it had no more of a claim than what runs, whose slice is protected while that has any.
    int64_t behind(TaskId curr, TaskId woken) const { return tasks_[curr.v].v - tasks_[woken.v].v; }
    /// It did as expected: what is seen later, when errors have added up, does not make another beginning of it. CFS.
    void as_expected(TaskId curr, TaskId woken, int64_t behind, bool taken);
    void learn_preempted(TaskId curr, TaskId woken, int64_t behind);
    void learn_kept(TaskId curr, TaskId woken, int64_t behind);
    /// The recorded kernel took `t` of all that wait on `c`. EEVDF: it was eligible, and nobody who was had the turn before it. If
    /// its lag is a guess still, it was owed so much; else who seems to be is further on than it was thought to be, and the one
    /// that was taken less far, so much that the other's deadline is later or that it is not eligible, whichever is less.
    void learn_pick(Rq c, TaskId t);
    /// What these tasks began with, as far as it was learned: vruntime over the smallest of the queue, ns (EEVDF: lag); by
    /// TaskId.
    std::vector<int64_t> leads() const;
    /// Tasks that were there before the first event begin with these; by TaskId.
    void begin_with(std::vector<int64_t> leads) {
        first_ = std::make_shared<const std::vector<int64_t>>(std::move(leads));
    }
    /// Neither queued nor delayed: if it never comes again, and none of each_named() is it, forget() changes nothing.
    bool done_with(TaskId t) const { return !tasks_[t.v].on && !tasks_[t.v].delayed; }
    /// f(task) of those to which a queue refers, queued or not; also of kNobody.
    template <class F>
    void each_named(F f) const {
        for (const Queue& q : cpus_) {
            f(q.curr), f(q.next), f(q.last), f(q.skip);
            for (TaskId t : q.together) f(t);
        }
    }
    /// A page of tasks (paged.hpp).
    void forget(size_t page) { tasks_.drop(page); }
    /// `t` ran on its CPU so short a time ago that balancing leaves it there (task_hot()). One of SCHED_IDLE never did (5.0+).
    bool hot(TaskId t, Ns now, Ns migration_cost) const {
        const Ns ran = ran_at(t);
        return ran != kNeverHot && (migration_cost < 0 || now - ran < migration_cost);
    }

  protected:
    static constexpr Ns kLongAgo = -1'000'000'000'000'000'000, kUnknown = 2 * kLongAgo, kNeverHot = kLongAgo - 1;
    /// Fifths of what a pick shows two lags to be wrong by that are the taken one's. Fitted to 23 recordings (6.12, 7.2): picks
    /// and preemptions are foretold best so. Of 0, 1, 3 and 5 it leaves the least error of the lags themselves, too (32,028
    /// sleeps on 7.2: 20, 9, 7 and 48 us at the median): where all of it was the other's, all lags fell together.
    static constexpr int64_t kOfTaken = 3;
    static constexpr Ns kDoubt = 5'000;  ///< by about so much vruntimes are not known anyway
    static constexpr int32_t kMostWeight = (1 << 24) - 1;  ///< a group's are at most 262144
    struct alignas(64) Task {
        int64_t v = 0;
        union {
            int64_t deadline = 0;  ///< EEVDF
            int64_t least_lead;  ///< CFS, if v is a guess: what was seen is true of this lead
        };
        union {
            int64_t lag = 0;  ///< EEVDF
            int64_t most_lead;  ///< CFS: up to this one
        };
        int64_t protect = 0;
        int64_t lead = 0;
        Ns exec_start = kLongAgo;
        uint32_t ran = 0;  ///< ns since it got the CPU, up to the largest number
        uint32_t touched = 0;  ///< orders before(), modulo 2^32
        Rq cpu;
        int32_t weight : 25 = 1024;
        bool on : 1 = false, delayed : 1 = false, ever : 1 = false, relative : 1 = false, fresh : 1 = false,
                  guessed : 1 = false, born : 1 = false;
    };
    static_assert(sizeof(Task) == 64);
    struct alignas(64) Queue {
        TaskList queue;
        int64_t min_v = 0;
        int64_t weight = 0;
        TaskId curr{}, next{0xffffffff}, last{0xffffffff};
        TaskId skip{0xffffffff};  ///< CFS: who yields, until it runs again
        bool running = false;
        bool due = false;  ///< what runs has been told to go,
        bool skips = false;  ///< by a wakeup: schedule() will not read the clock
        Ns clock = 0;  ///< as last read
        Ns told_at = 0;  ///< then
        TaskList late;  ///< delayed()
        std::vector<TaskId> together;  ///< who was moved here last, by one act of balancing, the last one first
        Rq moved_from;
        Ns moved_at = kUnknown;
    };
    static_assert(sizeof(Queue) == 192);
    static constexpr TaskId kNobody{0xffffffff};
    void touch(Task& t) { t.touched = ++touches_; }
    void set_aside(Rq c, Rq from, Ns now);
    void put_back(Rq c, TaskId t, Rq from, Ns now);
    void bound(TaskId first, TaskId second, int64_t by);
    void learn_eevdf(Queue& q, TaskId taken);
    Ns clock(Rq c, Ns now) const { return cpus_[c.v].skips ? cpus_[c.v].clock : now; }
    void tell(Queue& q) { q.due = true, q.told_at = tasks_[q.curr.v].exec_start; }  // who asks has charged it
    void look(Rq c) {
        Queue& q = cpus_[c.v];
        if (c.v >= roots_) return;
        const Cpu cpu(static_cast<uint16_t>(c.v));
        crowded_.assign(cpu, q.queue.size() > (q.running ? 1u : 0u));
    }
    Ns ran_at(TaskId t) const { return tasks_[t.v].weight == kIdleWeight ? kNeverHot : tasks_[t.v].exec_start; }
    static int64_t scaled(Ns t, int32_t weight) { return weight == 1024 ? t : t * 1024 / weight; }
    Ns slice_of(const Queue& q, const Task& t) const;
    bool over(Queue& q, Ns slice);
    struct Rivals {
        TaskId curr, woken;  ///< tasks, or the entities of groups that compete for them
        FairPolicy of_curr, of_woken;  ///< the tasks'
        bool curr_idle, woken_idle;  ///< se_is_idle()
    };
    std::optional<bool> by_rule(const Rivals& r);
    int against(const Task& curr, const Task& t) const;
    TaskId leftmost(const Queue& q, TaskId but) const;
    void update_min(Queue& q);
    struct Sums {
        int64_t v = 0, weight = 0;  ///< of vruntimes over min_v, times weights; of weights
    };
    Sums sums(const Queue& q) const;
    int64_t average(const Queue& q) const;
    static bool eligible(const Queue& q, const Sums& all, const Task& t) {
        return all.v >= (t.v - q.min_v) * all.weight;
    }
    bool eligible(const Queue& q, const Task& t) const { return eligible(q, sums(q), t); }
    bool loses_claim(const Queue& q, const Task& t) const;
    static int64_t owed(const Queue& q, const Sums& all, const Task& t);
    TaskId earliest(Queue& q, bool keep);
    /// EEVDF: whether `woken`, which was just queued, is who runs next. `drop`: lets go of one that is delayed().
    template <class F>
    bool comes_next(Queue& q, TaskId woken, F drop) {
        for (;;) {
            const TaskId best = earliest(q, true);
            if (best == woken || !set_.looks_on || !tasks_[best.v].delayed) return best == woken;
            drop(best);
        }
    }
    void place_cfs(Queue& q, Task& t, How how);
    void place_eevdf(Queue& q, Task& t, How how);
    int64_t most_lag(const Task& t) const;
    int64_t lag_of(const Queue& q, const Task& t) const;
    void let_go(TaskId t);
    bool shift(TaskId t, int64_t by);
    template <class F>
    void each(const Queue& q, F f) const {
        for (TaskId t : q.queue) f(tasks_[t.v]);
        for (TaskId t : q.late) f(tasks_[t.v]);
    }

    FairSettings set_;
    uint32_t touches_ = 0;
    std::vector<TaskId>* gone_ = nullptr;
    std::vector<Queue> cpus_;
    CpuMask crowded_;
    size_t roots_;  ///< queues that crowded_ speaks of
    Paged<Task> tasks_;
    int64_t lead_of(TaskId t) const { return first_ && t.v < first_->size() ? (*first_)[t.v] : 0; }
    std::shared_ptr<const std::vector<int64_t>> first_;  ///< one for all copies
};

}  // namespace rewake
