// SPDX-License-Identifier: GPL-2.0-or-later
// Scripts of a window (policies.md D2.1-3): what each fair task did, as work between actions, cut out of the recording.
// Which wakeup ended which sleep is kept, so a simulation in which things happen in another order still wakes a task by what
// woke it in the recording.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "replay/engine/closed/interrupts.hpp"
#include "replay/engine/closed/masks.hpp"
#include "replay/model/decisions.hpp"
#include "replay/model/events.hpp"
#include "replay/model/fair/queues.hpp"
#include "replay/model/machine.hpp"
#include "replay/model/paged.hpp"

namespace rewake::closed {

inline constexpr uint32_t kNone = 0xffffffff;
/// A timer may fire so much before it has to, if the CPU serves another one then: the kernel's default (init/init_task.c), which
/// a task may change unseen.
inline constexpr Ns kTimerSlack = 50'000;

/// What a task does after `work`.
struct Op {
    enum class Kind : uint8_t {
        wake,  ///< `arg`: the Stim that it gives
        block,  ///< `arg`: the Stim that ends the sleep; kNone: none does within the script
        ask,  ///< `arg`: TaskId of the server that it asks, awake or not
        meet,  ///< waits until all of its group have come; `arg`: a Stim that ends the sleep, unless it comes last
        yield,  ///< lets others run that wait for its CPU; `arg`: kNone
        look,  ///< comes to schedule() to sleep until the Stim `arg` comes, and was awake by then in the recording
        read,  ///< `arg`: the Stim by which comes what it reads here, which was there in the recording
        exec,  ///< `arg`: the Stim of where it goes; it runs on there
        exiting,  ///< begins to exit (sched_process_exit): it may wake somebody before it does
        exit,
        end,  ///< the script is over: what the task did next is not in the window
    };
    Kind kind = Kind::end;
    uint32_t arg = kNone;
    int64_t work = 0;  ///< on-CPU time since the action before, without Interrupts, ns x capacity of the recorded CPU
};

/// Ranks of a wakeup's recorded costs among their like, in [0, 1); negative: it had none.
struct Luck {
    float arrival = -1;  ///< until it was on the run queue, and until it ran where the CPU was idle
    float preempt = -1;  ///< until it had the CPU of another
};

/// One wakeup, fork or exec: who is woken, by whom, and what the recorded kernel made of it.
struct alignas(64) Stim {
    enum class Source : uint8_t {
        task,  ///< an action of a script
        absolute,  ///< from outside (a device, an RT task): at its recorded time
        relative,  ///< a timer, or a device that does what it was asked to: at most `delay` after the sleep began
        resume,  ///< no event tells it: the task was seen to run again (throttled, or a wakeup was lost)
    };
    TaskId p{}, curr{};
    Ns ts = 0, delay = 0;
    int64_t decision = -1;  ///< decision_id; -1: none
    Source source = Source::absolute;
    Kind kind = Kind::wake;
    DecisionClass cls = DecisionClass::stayed;
    bool ends = false;  ///< it ended a sleep (or began a task): else it changed nothing, and is left out
    bool in_task = false;
    bool hidden = false;  ///< the recording does not show it: it found its task awake
    bool device = false;  ///< relative, and no timer
    bool joined : 1 = false;  ///< a timer that another one's interrupt served, too
    bool early : 1 = false;  ///< it came before its sleeper had left its CPU
    bool tied : 1 = false;  ///< a Tie
    bool hardirq : 1 = false;  ///< by an interrupt's handler
    bool on : 1 = false;  ///< its waker had not left the CPU since it gave the one before
    bool by_other : 1 = false;  ///< the chosen CPU queued the wakee, not the waker
    bool chosen_known = false;
    bool sync = false;
    uint8_t hint = 0;
    uint8_t scanned = 0;  ///< CPUs that the recorded kernel's search examined (inferred)
    int16_t prio = 120;
    Cpu waker{}, prev{}, chosen{};
    Luck luck;
    uint32_t moves = kNone;  ///< latest Move between this wakeup and the next of the task
};
static_assert(sizeof(Stim) == 64);

/// One like `seen` that the recording does not show.
inline Stim unseen(const Stim& seen) {
    Stim out = seen;
    out.hidden = out.ends = true;
    out.decision = -1;
    out.cls = DecisionClass::stayed;
    out.chosen_known = out.joined = out.tied = false;
    out.luck = {};
    out.moves = kNone;
    return out;
}

/// Who waits for a task to sleep, see Lockstep.
struct Awaited {
    uint32_t by = kNone;  ///< a waker of it; kNone: nobody does
    Ns patience = -1;  ///< after so long it sleeps until the task wakes it; negative: it never does
};

/// A wakeup that waits for its wakee.
struct Tie {
    uint32_t stim = kNone;
    uint32_t mine = 0;  ///< the waker's op
    uint32_t op = 0;  ///< the wakee's that it was at
    bool slept = false;  ///< it slept,
    bool late = false;  ///< and had for a while: the waker had done something else
    int64_t work = 0;  ///< that it had done by then; of the op, until the script is finished
    Ns gap = 0;  ///< from its sleep to the wakeup, where not late
};

/// A recorded migration that no wakeup, fork or exec made.
struct Move {
    Ns ts = 0;  ///< of those that balancing made together, of the last one: they are put on the other queue then
    TaskId p{};
    Cpu orig{}, dest{};
    Cause cause = Cause::unknown;
    uint32_t stim = kNone;  ///< wakeup after which it was; kNone: before the window
    uint32_t next = kNone;  ///< Move after the same wakeup
};

/// A tick at which an idle CPU would have had somebody to pull, had it balanced that level of its domains.
struct Chance {
    Ns tick = 0;
    Cpu cpu{};
    uint16_t level = 0;
};

/// Time that a task of a higher class had of a CPU: it is not re-run.
struct Reservation {
    Ns woken = 0;  ///< from then on the CPU has something to run; at most `from`
    Ns from = 0, to = 0;
    Cpu cpu{};
    TaskId task{};
    int16_t prio = 0;
    bool timed = false;  ///< by a timer's interrupt on `cpu`
    uint32_t next = kNone;  ///< that of who has the CPU from `to` on: nobody else gets it in between
};

/// A device answers nobody. What counts is when each task was answered.
struct Stall {
    struct Answer {
        TaskId p{};
        Ns ts = 0;
    };
    Ns from = 0, to = 0;
    std::vector<Answer> answers;
};

/// The median, of at least one.
int64_t middle(std::vector<int64_t>& of);

struct alignas(64) TaskScript {
    TaskId id{};
    std::vector<Op> ops;
    Ns exit_at = -1;  ///< when it ended in the recording; negative: it did not
    uint32_t first = kNone;  ///< Stim that ends the sleep in which the window finds it, or its birth
    int64_t work() const;
    /// Median work from one wakeup to the next without a sleep between; negative: it gives one at a time.
    int64_t step() const;
};

struct Script {
    Ns from = 0, measured = 0, to = 0;  ///< simulated from `from`, counted from `measured` until `to`
    std::vector<TaskScript> tasks;
    std::vector<uint32_t> of;  ///< by TaskId: index into `tasks`; kNone: none
    std::vector<TaskId> present;  ///< ascending: all that are in the window, and some that are not
    std::vector<bool> shared;  ///< by TaskId: several tasks wake it, and whichever comes first ends its sleep
    std::vector<Stim> stims;
    std::vector<Move> moves;
    std::vector<Chance> chances;  ///< by time
    std::vector<Reservation> reservations;
    std::vector<Interrupt> interrupts;
    Masks masks;
    std::vector<Tie> ties;  ///< in order of their stims
    std::vector<Stall> stalls;  ///< in order of their ends
    struct Meetings {
        std::vector<uint32_t> group;  ///< by TaskId; kNone: it meets nobody. Empty: nobody does
        std::vector<int64_t> step;  ///< by group: work from one wakeup to the next of who came last
    } meets;
    size_t counted = 0;  ///< recorded wakeups between `measured` and `to`: about as many are simulated
    std::vector<std::pair<TaskId, uint8_t>> hints;  ///< of wakeups that have one, in their order
    Ns timer_step = 0;  ///< from one wakeup of a timer interrupt to the next
    Ns exec_stop = 0;  ///< what it takes to move a task that execs, of its CPU
    std::vector<uint32_t>
        told_by;  ///< by CPU: where the devices mostly tell that they did what was asked there; kNone: nowhere
    std::vector<int64_t> runnable;  ///< time of all tasks on the recorded run queues so far, every `kSample`, ns
    static constexpr Ns kSample = 1'000'000;
    const TaskScript* script(TaskId t) const { return t.v < of.size() && of[t.v] != kNone ? &tasks[of[t.v]] : nullptr; }
};

/// What the recording says of the wakeup that an event opens.
struct Opening {
    int64_t decision = -1;
    Kind kind = Kind::wake;
    DecisionClass cls = DecisionClass::unclosed;
    TaskId p{}, curr{};
    Cpu waker{}, prev{}, chosen{};
    bool chosen_known = false, prev_known = false, waker_known = false, in_task = false, hardirq = false;
    bool by_other = false;  ///< as Stim
    bool by_curr = false;  ///< the waker does it for what runs there: in_task, or in a softirq that is run for that
    int16_t prio = 120;
    bool sync = false;
    uint8_t hint = 0;
    uint8_t scanned = 0;
    Luck luck;
};

/// What a task did from one event to the next on one CPU, in terms of its script.
struct Stretch {
    Ns from = 0, to = 0;
    uint32_t op = 0;  ///< the action that came next
    int64_t done = 0;  ///< work towards it at `from`
    int32_t capacity = 1024;
};

/// Cuts the scripts of one window out of the events that follow `at`, the machine when it begins.
class ScriptBuilder {
  public:
    /// Scripts reach until `horizon`, beyond `to`, for tasks that get ahead of the recording.
    /// `asks`, `yields`, `pull`: see SimOptions; a task sleeps before its CPU pulls another. `stretches`: what tasks did when is
    /// kept.
    ScriptBuilder(const Topology& topo, const TaskTable& table, const Interrupts& interrupts, const Machine& at,
                  Ns from, Ns measured, Ns to, Ns horizon, const std::vector<bool>& asks = {},
                  const std::vector<bool>& yields = {}, bool stretches = false,
                  const std::vector<Awaited>& awaited = {}, Ns pull = 0);
    Ns from() const { return script_.from; }
    Ns horizon() const { return horizon_; }
    /// Rows of a batch in event order. `cause` of a migration is the one worked out at import.
    void on_switch(const SwitchColumns& s, size_t i);
    void on_opening(const Opening& o, Ns ts);
    void on_fork(TaskId child);
    void on_exit(TaskId t, Cpu c, Ns ts);
    void on_migrate(const MigrateColumns& m, size_t i, std::optional<Cause> cause);
    /// The handler of the timer's own interrupt begins or ends on `c`.
    void on_timer_irq(Cpu c, bool entry) {
        CpuState& cpu = cpus_[c.v];
        cpu.in_timer = entry, cpu.timer_woke = -1;
    }
    /// An event of `t` comes soon.
    void expect(TaskId t) const {
        tasks_.expect(t.v);
        if (const uint32_t at = script_.of[t.v]; at != kNone) __builtin_prefetch(&script_.tasks[at]);
    }
    void expect(Cpu c) const { __builtin_prefetch(&cpus_[c.v]); }
    /// `queued`: tasks on the run queues of the recorded machine since `since`, `total` the time of all before that. Nothing to
    /// do before sample_at().
    void on_time(Ns ts, Ns since, int64_t total, int64_t queued) {
        while (sample_at() <= ts) script_.runnable.push_back(total + (sample_at() - since) * queued);
    }
    Ns sample_at() const { return script_.from + static_cast<Ns>(script_.runnable.size()) * Script::kSample; }
    Script finish();
    /// May be taken after finish().
    std::vector<std::vector<Stretch>>& stretches() { return stretches_; }

  private:
    static constexpr Ns kLongAgo = -1'000'000'000'000;
    struct alignas(64) CpuState {
        TaskId curr{};
        bool known = false;
        bool in_timer = false;
        Ns timer_woke = -1;  ///< when its handler last woke a task
        Ns since = 0;
        Ns came = 0;  ///< when `curr` did
        Ns sent = kLongAgo;  ///< when somebody was last sent there
        Ns pulled = kLongAgo;  ///< when it last pulled somebody as it went idle
        bool moves_exec = false;  ///< `curr` is the stopper and moves a task that execs
        int16_t prio = 120;
        uint32_t reservation = kNone;  ///< the last one
    };
    struct alignas(64) TaskState {
        bool seen = false;
        bool fair = true;
        bool asleep = false;
        bool is_first = false;  ///< asleep since before the window: no block op
        uint32_t block_op = 0;  ///< its op, where not
        uint32_t ended_by = kNone;
        uint32_t last = kNone;  ///< wakeup that ended its last sleep
        uint32_t early = kNone;  ///< wakeup that came before the task had left its CPU
        Ns asleep_at = 0;
        Ns woken_at = -1;  ///< of a higher class: since it last ran
        bool timed = false;  ///< of a higher class: by a timer's interrupt where it runs
        int64_t done = 0;  ///< since the last action
        bool woke = false;  ///< somebody, since it got the CPU
    };
    /// Takes its class from the first look at it in the window.
    [[gnu::always_inline]] TaskState& state(TaskId t, int prio) {
        TaskState& s = tasks_[t.v];
        if (!std::exchange(s.seen, true)) s.fair = prio_is_fair(prio) && !table_.info(t).stopper;
        return s;
    }
    TaskScript& script(TaskId t);
    bool joins(CpuState& cpu, Ns ts);
    void join_timers();
    void find_queues();
    void give(const Opening& o, uint32_t stim, Ns ts);
    void tie(const Opening& o, uint32_t stim, Ns ts);
    void look(TaskId t, Ns ts);
    void looks_out(TaskId t, bool sleeps, Ns ts);
    void finish_ties();
    void account(Cpu c, Ns ts);
    void reserve(Cpu c, TaskId t, int prio, Ns from, Ns to);
    void act(TaskId t, Op::Kind kind, uint32_t arg);
    void fall_asleep(TaskId t, Cpu c, Ns ts);
    void wake(TaskId t, uint32_t stim);
    void act_exec(TaskId p, Cpu from, Cpu to, int16_t prio, Ns ts);
    void exec(const Opening& o, Ns ts);
    void exec_moves(const MigrateColumns& m, size_t i);
    void finish_execs();
    void returns(TaskId t, Cpu c, Ns ts, int prio);
    bool idle(TaskId t) const { return t.v < static_cast<uint32_t>(topo_.n_cpus); }
    /// A quota holds its group: who runs no more, and is not asleep, is throttled.
    bool limited(TaskId t) const { return table_.limited(table_.info(t).group) != 0; }
    bool asks(TaskId t) const { return t.v < asks_.size() && asks_[t.v]; }
    bool yields(TaskId t) const { return t.v < yields_.size() && yields_[t.v]; }

    const Topology& topo_;
    const TaskTable& table_;
    const Interrupts& interrupts_;
    Script script_;
    Ns horizon_;
    std::vector<CpuState> cpus_;
    Paged<TaskState> tasks_;
    std::vector<Ns> timer_steps_;
    struct Exec {
        uint32_t task = 0, op = 0;  ///< TaskScript and its op
    };
    std::vector<Exec> stayed_;  ///< execs that moved nobody
    std::vector<int64_t> exec_loads_;  ///< work from the move of an exec to its event
    std::vector<Ns> exec_stops_;  ///< what moving it took of its CPU
    std::vector<std::vector<Stretch>> stretches_;  ///< by TaskId; empty: they are not kept
    std::vector<bool> asks_, yields_;
    Ns pull_;
    std::vector<Awaited> awaited_;
    /// It was awake when it came to schedule().
    struct Look {
        uint32_t stim = kNone;  ///< by that one
        Ns at = 0;
        Cpu cpu{};
    };
    std::vector<Look> looks_;  ///< by TaskId; empty: nobody is awaited
};

}  // namespace rewake::closed
