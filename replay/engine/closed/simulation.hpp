// SPDX-License-Identifier: GPL-2.0-or-later
// One window re-run as a discrete-event simulation with a policy in charge (policies.md D2). Modelled throughout: the
// machine model (model/machine.hpp) is told of simulated switches, wakeups and migrations as it is of recorded ones, so the
// View of a policy is the same as in the open loop.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replay/engine/closed/agenda.hpp"
#include "replay/engine/closed/costs.hpp"
#include "replay/engine/closed/imbalance.hpp"
#include "replay/engine/closed/reading.hpp"
#include "replay/engine/closed/script.hpp"
#include "replay/engine/irq_ticks.hpp"
#include "replay/model/fair/tree.hpp"
#include "replay/model/machine.hpp"
#include "replay/policies/policy.hpp"

namespace rewake::closed {

/// As the decision builder: so long before and after its switch-out a task may be on_cpu.
inline constexpr Ns kOnCpu = 5'000;

/// From a task's last look for a reason to stay awake to its switch-out.
inline constexpr Ns kLeaves = 2'000;

/// Work in a time and time for work, at so much a nanosecond. Most CPUs have the capacity of 1024, for which numbers below 2^53
/// come out the same without floating point.
inline int64_t work_in(Ns ran, double speed) {
    if (speed == 1024 && ran < Ns{1} << 43) return ran * 1024;
    return static_cast<int64_t>(std::llround(static_cast<double>(ran) * speed));
}
inline Ns time_for(int64_t work, double speed) {
    if (speed == 1024 && work >= 0 && work < int64_t{1} << 53) return (work + 1023) / 1024;
    return static_cast<Ns>(std::ceil(static_cast<double>(work) / speed));
}

enum class Balance : uint8_t {
    model,  ///< new-idle and periodic balancing by rule
    recorded_rate,  ///< as often as the recorded kernel pulled where it could
    off,
    forced,  ///< the recorded migrations, when they were
};

inline constexpr size_t kIdleClasses = 20;
/// Binary logarithm of rq::avg_idle, which is at most 1 ms.
inline size_t idle_class(int64_t avg_idle) {
    const auto ns = static_cast<uint64_t>(std::max<int64_t>(avg_idle, 1));
    return std::min(kIdleClasses, static_cast<size_t>(std::bit_width(ns))) - 1;
}
/// Levels of domains told apart, the lowest first; the last stands for all beyond, too.
inline constexpr size_t kPullLevels = 4;
inline size_t pull_level(size_t level) { return std::min(level, kPullLevels - 1); }
/// How often a CPU that went idle pulled a task from a level of its domains, of the times that one waited there and none came
/// from below: by level and by how long such a CPU is idle on average. The kernel weighs that against what a balance costs, and
/// from 6.19 (and stable kernels of its time: NI_RANDOM) throws dice on each level (newidle_balance(), 6.1).
using PullRate = std::array<std::array<double, kIdleClasses>, kPullLevels>;

struct SimOptions {
    bool pinned = false;  ///< every wakeup goes where it went in the recording
    bool fifo = false;  ///< null model: first come, first served, no preemption
    bool own_luck = true;  ///< a cost has the rank among its like that the recorded one had; else drawn
    bool absolute_timers = false;
    Balance balance = Balance::model;
    double move_factor = 0;  ///< of the penalties of running elsewhere
    /// What the idle search of a wakeup takes per CPU that it examines: from an interrupt, from a task.
    std::array<double, kContexts> search_ns{};
    Ns scan_ns = 0;  ///< charged to the waker per CPU that its idle search examined
    double smt = 1;  ///< speed of a CPU with a busy sibling
    uint32_t hz = 250;
    Ns tick_at = 0;
    Ns migration_cost = 500'000;
    int major = 0, minor = 0;
    bool at_least(int a, int b) const { return major > a || (major == a && minor >= b); }
    bool queues_wakeups = true;  ///< TTWU_QUEUE
    bool queued_wakeups = true;  ///< the same, of the recorded kernel: costs were recorded under it
    Ns pull = 0;  ///< what a new-idle pull takes, from the sleep of the task before
    Ns pulled = 0;  ///< of which after the task has changed queues
    Ns unseen = 0;  ///< so long after a decision other CPUs may not know of it
    Ns hole = 0;  ///< nor does any so long before the wakee is on its run queue
    Ns looks = 0;  ///< so long after its wakeup began a search sees who left a CPU
    Ns waits = 0;  ///< a CPU that leaves idle waits for a wakee that will be queued there so soon
    double hidden = 1;  ///< how often that is so
    uint64_t seed = 0;
    PullRate pulls{};
    std::vector<bool> serves;  ///< by TaskId, see Serving
    std::vector<Pace> reads;  ///< by TaskId, see Reading
    std::vector<uint32_t> meets;  ///< by TaskId, see Meeting; empty: nobody does
    std::vector<uint32_t> pools;  ///< by TaskId, see Pooling; empty: nobody is in one
    std::vector<bool> asks;  ///< by TaskId: devices wake it so long after it asked them to
    std::vector<bool> yields;  ///< by TaskId, see Yielding; empty: nobody does
    std::vector<bool> computes;  ///< by TaskId: seldom comes into the kernel; empty: nobody is told lazily
    std::vector<Awaited> awaited;  ///< by TaskId, see Lockstep; empty: nobody is
    std::optional<uint32_t> idle_state;  ///< that CPUs enter
};

/// Who answers requests. A task that waits for a server asked it, whether the server had to be woken for that or not, and a
/// server does not sleep while somebody waits for it: it answers whoever waits, the longest first. Inferred: hardly any (less
/// than one in twenty) of its sleeps fell into the sleep of a task that it woke afterwards, and who waits for it waits for hardly
/// any other: a sender that needs room is woken by whichever of its readers comes first.
class Serving {
  public:
    explicit Serving(size_t tasks) : tasks_(tasks) {}
    void sleeps(TaskId t, Ns ts) { tasks_[t.v].asleep = true, tasks_[t.v].asleep_at = ts; }
    /// `waker`: by a task, nullptr: from outside.
    void woken(TaskId t, const TaskId* waker, Ns ts);
    std::vector<bool> servers() const;

  private:
    static constexpr Ns kOrder = 2'000;  ///< events of two CPUs closer than this may be in the wrong order
    static constexpr int64_t kFewest = 50;
    struct Task {
        bool asleep = false;
        Ns asleep_at = 0, woken_at = 0;
        TaskId answered{};
        TaskId by{};  ///< who woke it most, by majority vote
        int64_t votes = 0;
        int64_t alone = 0;  ///< answers to those that it wakes more than others do
        bool several = false;  ///< it answers more than one task; of two that only wait for each other none is a server
        int64_t answers = 0, sleeps = 0, slept_on = 0;
    };
    std::vector<Task> tasks_;
};

/// Clients ask before they sleep, where the recording shows it or not, and sleep after they asked, where it shows that or not (the
/// answer was there already): splits the work of the ops accordingly.
void expect_answers(Script& script, const std::vector<bool>& serves);
/// Who is woken by several tasks reads what they send: it does not wait for one of them.
void find_shared(Script& script, const std::vector<bool>& serves);

/// One simulated wakeup inside the counted part of a window.
struct Woken {
    int64_t decision = -1;
    Ns ts = 0;
    Ns latency = 0;  ///< decision to switch-in
    Ns wait = 0;  ///< of which on the run queue
    uint32_t task = 0;
    uint16_t prev = 0, cpu = 0;
    bool idle_target = false, placed = false, done = false;
};

/// Intervals in which a task waited although a CPU was idle that it may use (policies.md D1).
struct Violations {
    Ns total = 0;  ///< of those of at least 10 us
    int64_t over_10us = 0, over_100us = 0, over_1ms = 0;
};

struct WindowResult {
    Ns from = 0, to = 0;  ///< counted part
    bool diverged = false;
    std::string why;
    int64_t wakeups = 0, early = 0, external = 0, exhausted = 0, missed_moves = 0, skipped_reservations = 0;
    int64_t wake_moves = 0, fork_moves = 0, exec_moves = 0, newidle_moves = 0, periodic_moves = 0, forced_moves = 0;
    int64_t cross_llc = 0, cross_node = 0;
    int64_t preemptions = 0, switches = 0;
    Ns cpu_time = 0;  ///< of fair tasks
    int64_t work = 0;  ///< script work done, ns x capacity
    int64_t events = 0;
    int64_t collided = 0;  ///< sent to a CPU to which another was on its way, that had been idle
    int64_t ends = 0, ended = 0;  ///< tasks that ended in the counted part as recorded, and of these here
    Ns makespan = 0;  ///< from the beginning of the counted part until the last of these did
    Ns throttled = 0;  ///< time that groups had somebody to run on a CPU and were throttled there, summed over both
    int64_t broken = 0;  ///< conservation checks that failed (V5); must be 0
    Violations in_llc, on_machine;
    std::vector<Woken> woken;
};

/// Something that happens in a window.
struct Happening {
    enum class What : uint8_t {
        release,
        expect,
        reserve,
        action,
        resched,
        arrive,
        outside,
        move,
        tick,
        slice,
        pull,
        leave,
        irq,
        irq_over,
        refill,
        look,
        slack,
        mask
    };
    static constexpr uint64_t kLater = uint64_t{1} << 63;
    static constexpr uint64_t kPlanned = uint64_t{1}
                                         << 40;  ///< number of the first planned one: begin() pushes some before
    Ns at;
    uint64_t order;  ///< order_of()
    uint32_t a;
    What what;
    /// Of what happens at one time releases come first, else what was pushed first.
    static uint64_t order_of(uint64_t seq, What what) { return what == What::release ? seq : seq | kLater; }
    uint64_t seq() const { return order & ~kLater; }
    __int128 key() const { return static_cast<__int128>(at) << 64 | order; }
};

/// What a script brings from outside, in order, for arms of these options.
std::vector<Happening> planned(const Script& script, const SimOptions& options);

class Simulation {
  public:
    /// `policy`: nullptr where `options.pinned`. Its private state goes on from window to window. `irq`: the load of
    /// interrupts so far, with an estimate for the policy if it reads one.
    /// `planned`: of this script and these options.
    Simulation(const Topology& topo, const TaskTable& table, const Script& script,
               const std::vector<Happening>& planned, const Machine& at, const FairTree& queues, const IrqTicks& irq,
               Policy* policy, const Costs& costs, const SimOptions& options);
    WindowResult run();

  private:
    using What = Happening::What;
    struct Token {
        Ns at = 0;
        TaskId curr{};
        uint32_t stim = kNone;
    };
    static constexpr uint32_t kNoSample = kNone;
    /// What every action and switch looks at lies together, in the first two lines of the cache: with many tasks what a wakeup
    /// waits for is memory.
    struct alignas(64) Task {
        enum class State : uint8_t { asleep, waking, queued, running, gone, held };
        const Op* ops = nullptr;  ///< of its script
        uint32_t n_ops = 0, pos = 0;
        int64_t left = 0;  ///< work until the next action
        int64_t passed = 0;  ///< work of the actions that it has come to, and until the next
        struct Action {
            Op::Kind kind = Op::Kind::end;
            uint32_t arg = kNone;
        } coming;  ///< the next one, where there is one
        uint32_t waits_for = kNone;
        uint32_t race = kNone;  ///< what its sleep waits for, which came while it was about to sleep
        uint32_t client_of = kNone;  ///< server that has not answered it yet
        Cpu cpu{};
        int16_t prio = 120;
        State state = State::asleep;
        bool fresh_wake = false;  ///< its wakeup has not come to a switch-in
        bool free = true;  ///< may run anywhere
        bool shared = false;  ///< Script::shared
        bool to_idle = false;
        bool by_other = false;  ///< the CPU that it is sent to queues it
        bool by_task = true;
        uint8_t target = 0;

        Relation from = Relation::same_llc;
        uint8_t hint = 0;
        bool answered = false;  ///< before it slept
        bool race_stays = false;  ///< it was left to the CPU that the wakee was about to leave
        // As TaskTable has it, or a change of mask: at hand with the rest. `allowed` is an index into TaskTable::masks.
        uint32_t kthread : 1 = false, one_cpu : 1 = false, policy : 2 = 0, allowed : 28 = 0;
        Ns asleep_at = 0, woken_at = 0, queued_at = 0, exit = 0;
        double luck = 0.5, preempt_luck = 0.5;
        uint32_t sample = kNoSample;
        bool in_steps = false;  ///< `step` and `more` mean something
        bool leaving = false;  ///< it sleeps and is not switched out, see CpuState

        int64_t step =
            -1;  ///< of a server: work from one answer of a batch to the next; negative: it gives one at a time
        int64_t more = -1;  ///< it gives more answers than its script has here: the work after them
        const TaskScript* script = nullptr;
        Ns race_at = 0;
        uint32_t race_by = kNone;  ///< the wakeup that came: of a shared one any that does
        TaskId race_curr{};
        Cpu race_waker{};
        bool race_late = false;  ///< it came long before
        bool misses = false;  ///< it sleeps as what it reads there came in time in the recording, and not here
        std::vector<Token> tokens;  ///< of these: wakeups that came while it was awake, the oldest first
        Pace pace;  ///< of a reader
        int64_t ahead = 0;  ///< messages that it has read before they came
        const Action* next() const { return pos < n_ops ? &coming : nullptr; }
        /// That action is the next one.
        void come_to(uint32_t at) {
            pos = at;
            left = 0;
            if (at >= n_ops) return;
            coming = {ops[at].kind, ops[at].arg};
            left = ops[at].work;
            passed += left;
        }
    };
    static_assert(offsetof(Task, step) == 128 && sizeof(Task) == 256);
    static constexpr auto kSleeps = static_cast<uint8_t>(PrevState::S);
    static constexpr auto kRuns = static_cast<uint8_t>(PrevState::R);
    static constexpr auto kDead = static_cast<uint8_t>(PrevState::X);
    struct alignas(64) CpuState {
        TaskId curr{};
        bool reserved = false;
        bool busy_sibling = false;
        bool leaving = false;  ///< curr sleeps and is not switched out: a task is being pulled
        bool told_lazily : 1 = false;  ///< curr leaves it when it next comes into the kernel
        bool own_call : 1 = false;  ///< curr has woken who takes it from curr, and leaves when that call is over
        Ns since = 0;  ///< work of curr is accounted up to here
        Ns handling = 0;  ///< an interrupt handler has it until then
        Ns resched = -1;
        Ns wakes = -1;  ///< an interrupt on it wakes tasks until then
        Ns calling = -1;  ///< what runs here is waking somebody, and queues the wakee itself, until then
        Ns woke = -1;  ///< when what runs here last woke somebody, since it got the CPU
        uint64_t plan = 0;  ///< number of the action event that counts

        Ns coming = -1;  ///< another CPU has it queue a wakee then, the last one
        Ns spent = 0;  ///< time of curr counts against its limits up to here
        Ns slice = -1;  ///< when the timer fires that ends the slice; negative: none is set
        uint64_t leave = 0;  ///< number of the event that goes on with it
        uint32_t reservation = kNone;
        uint32_t takes = 0;  ///< what the switch was to take that was last asked for, ns
        struct Balancing {
            Ns last = 0, interval = 0;
            int failed = 0;  ///< times that nobody could come though one should have, since one came
            std::vector<Ns> told;  ///< ticks of recorded pulls, when it looked: the next one last
            std::vector<Ns> silent;  ///< ticks at which it had not, or it had pulled: the next one last
        };
        std::vector<Balancing> balancing;  ///< by level of its domains
    };
    static_assert(sizeof(CpuState) == 128);

    void push(Ns at, What what, uint32_t a) { events_.push(at, Happening::order_of(seq_++, what), a, what); }
    bool idle(TaskId t) const { return t.v < static_cast<uint32_t>(topo_.n_cpus); }
    /// All that an event looks at of a task, or of a CPU, at once: with many of them the waits add up else.
    [[gnu::always_inline]] void fetch(TaskId t) const {
        tasks_.expect(t.v), tasks_.expect(t.v, 64);
        machine_.expect(t), fair_.expect(t);
    }
    [[gnu::always_inline]] void fetch(Cpu c) const {
        const auto* s = reinterpret_cast<const char*>(&cpus_[c.v]);
        __builtin_prefetch(s), __builtin_prefetch(s + 64);
        machine_.expect(c), fair_.expect(c);
    }
    /// What the next planned happenings will look at. Most of what happens comes in between.
    [[gnu::always_inline]] void look_ahead() const {
        constexpr size_t kFar = 6, kNear = 3;
        if (const Happening* h = events_.ahead(kFar)) {
            if (h->what == What::irq)
                __builtin_prefetch(&cpus_[script_.interrupts[h->a].cpu.v]);
            else if (h->what == What::outside)
                __builtin_prefetch(&script_.stims[h->a]), __builtin_prefetch(&fired_at_[h->a]);
        }
        if (const Happening* h = events_.ahead(kNear)) {
            if (h->what == What::irq)
                tasks_.expect(cpus_[script_.interrupts[h->a].cpu.v].curr.v);
            else if (h->what == What::outside)
                tasks_.expect(script_.stims[h->a].p.v);
        }
    }
    bool is_idle(Cpu c) const { return idle(cpus_[c.v].curr) && !cpus_[c.v].reserved; }
    void begin();
    void begin_balancing();
    void plan(Cpu c);
    void settle(Cpu c);
    double speed(Cpu c) const;
    bool has_busy_sibling(Cpu c) const;
    void retime_sibling(Cpu c);
    void act(Cpu c);
    void sleep(Cpu c, uint32_t stim, uint8_t prev_state);
    void slept(TaskId t);
    void let_go();
    void leave(Cpu c);
    /// From when a pulled task is on its new queue, a quarter of the way from its sched_migrate_task to the switch: until then the
    /// waker of whom it is pulled for leaves that one to its CPU, as nobody is there (of 400 in two recordings of schbench).
    Ns lands() const { return opt_.pulled - opt_.pulled / 4; }
    void request(Cpu c, Ns at);
    void time_slice(Cpu c) {
        if (fair_.times_slices()) plan_slice(c);
    }
    void plan_slice(Cpu c);
    void joined(Cpu c, bool by_other);
    bool told_lazily(Cpu c, const Task& woken) const;
    void ticked(Cpu c, bool by_slice = false);
    void in_kernel(Cpu c);
    void resched(Cpu c);
    static bool goes_to_sleep(const Task& t);
    bool falls_asleep(const Task& t) const;
    bool wakes_on(Cpu c) const;
    void schedule(Cpu c, TaskId prev, uint8_t prev_state);
    void switch_to(Cpu c, TaskId prev, uint8_t prev_state, TaskId next);
    void fire(uint32_t stim, Cpu waker, TaskId curr);
    /// How a wakeup comes upon its wakee. Late: it came long before that slept, and counts as what it was in the recording: as so
    /// early as its like were there, or as one of a task that slept.
    enum class Meets : uint8_t { asleep, leaving, late };
    void wake(uint32_t stim, Cpu waker, TaskId curr, Ns since, Meets meets, bool stays);
    void wake(uint32_t stim, Cpu waker, TaskId curr);
    bool stays(Cpu waker, Cpu prev) const;
    struct Placed {
        Cpu cpu{};
        bool asked = false;  ///< the policy was, or the recorded kernel
        int scanned = 0;  ///< CPUs that its search examined
    };
    Placed place(const Stim& s, Task& t, Cpu waker, TaskId curr, bool stays);
    void arrive(TaskId t);
    bool serves(TaskId t) const { return any_serves_ && t.v < opt_.serves.size() && opt_.serves[t.v]; }
    /// The sleep that `stim` ends is ended by any wakeup of its kind.
    bool open(uint32_t stim, TaskId sleeper) const;
    uint32_t any_request(const TaskScript& server) const;
    void answer(const Stim& s, Cpu waker);
    bool awaits(const Task& t, TaskId server) const;
    void enlist(TaskId server, Cpu from, TaskId client);
    void give(TaskId client, Cpu from, TaskId server);
    bool takes_any(const Task& t, uint32_t stim) const;
    bool finds(Task& t, bool recorded);
    void spend_sleeps(Task& t, int more);
    bool owes_a_sleep(const Task& t);
    void message(const Stim& s, Cpu waker, TaskId curr);
    bool gives_way(Cpu c);
    bool execs(Cpu c, uint32_t stim);
    Ns left_until(const Tie& tie, TaskId wakee);
    bool spins(Cpu c);
    void tell_spinners(TaskId wakee);
    void looks(TaskId waker);
    bool comes_to_schedule(Cpu c);
    void run_instead(Cpu c, TaskId next);
    void begin_meetings();
    void begin_pools();
    uint32_t pool_of(const Stim& s) const;
    bool hands_over(uint32_t stim, Cpu waker, TaskId curr);
    bool changes_place(TaskId id);
    /// Who goes on with the script of a wakeup's task.
    TaskId wakee(const Stim& s) const { return players_.empty() ? s.p : players_[s.p.v]; }
    bool comes_last(TaskId id);
    void quits(TaskId id, Cpu c);
    bool about_to_sleep(Task& t, uint32_t stim, Cpu waker, TaskId curr);
    void interrupt(uint32_t index);
    void expect(uint32_t r);
    void reserve(uint32_t r);
    void release(uint32_t r);
    void leave_reserved(Cpu c);
    void set_timer(Cpu c, uint32_t stim);
    void serve_timers(Cpu c);
    void tick();
    void foresee_wakeups();
    void forced_move(uint32_t m);
    void relocate(TaskId t, Cpu to);
    FairPolicy policy_of(TaskId t) const { return static_cast<FairPolicy>(tasks_[t.v].policy); }
    /// Whether `woken`, just queued on `c`, takes the CPU from the fair task that runs there.
    bool preempts(Cpu c, TaskId woken) {
        return fair_.preempts(c, woken, policy_of(woken), policy_of(cpus_[c.v].curr));
    }
    void came(TaskId t, Cpu to, Ns after = 0);
    void change_mask(uint32_t index);
    Cpu spread(TaskId t);
    const TaskTable::Allowed& allowed(const Task& t) const { return table_.masks[t.allowed]; }
    void allow(Task& t, uint32_t mask);
    bool balances() const { return opt_.balance == Balance::model || opt_.balance == Balance::recorded_rate; }
    bool goes_to(TaskId id, Cpu to) const;
    bool may_pull(TaskId id, Cpu to) const;
    std::optional<size_t> even_out(Cpu to, const Domain& level, Has has, int failed);
    bool reached(std::vector<Ns>& ticks, Ns jiffy) const;
    void rebalance(Cpu c);
    TaskId to_pull(Cpu c, Ns since, bool takes);
    bool held(const Task& t, Cpu to) const;
    void new_idle(Cpu c, Ns since);
    void periodic();
    void moved(Cpu from, Cpu to);
    Cost cost_of(const Stim& s, const Task& t, Path path, Relation relation) const;
    Ns of_waker(bool by_other, bool asked, Ns queue, int scanned) const;
    Ns of_recorded_waker(const Stim& s, double luck) const;
    void charge_waker(const Stim& s, Task& waker);
    void leaves_own_call(Cpu c, Ns at);
    void begin_limits();
    void spend(Cpu c);
    bool spent_up(Cpu c);
    void exhaust(Cpu c, TaskId id);
    void evict(Cpu c, TaskId prev);
    void starve(TaskId id, Cpu c);
    void throttle(uint16_t g, Cpu c);
    void stands(uint16_t g, Cpu c);
    void stood(uint16_t g, Cpu c);
    void go_on(uint16_t g, Cpu c);
    void distribute(uint16_t g);
    void refill(uint16_t g);
    void give_back(uint16_t g, Cpu c);
    void slack(uint16_t g);
    void tell_limits();
    /// The limits that a task is under, its own group's first.
    template <class F>
    void for_limits(TaskId t, F f) {
        for (uint16_t g = table_.limited(table_.info(t).group); g != 0; g = table_.limited(table_.groups[g].parent))
            f(g);
    }
    void watch();
    bool judge();
    bool has_end(const TaskScript& t) const { return t.exit_at >= script_.measured && t.exit_at < script_.to; }
    bool counted() const { return now_ >= script_.measured && now_ < script_.to; }
    double draw(const Stim& s, float own, uint64_t what) const;

    const Topology& topo_;
    const TaskTable& table_;
    const Script& script_;
    Machine machine_;
    FairTree fair_;
    std::vector<TaskId> gone_;  ///< FairQueues::tell_gone()
    std::optional<IrqTicks> irq_;  ///< where the policy reads it
    Policy* policy_;
    const Costs& costs_;
    /// From a task's wakeup to its switch to whom it woke, the median: it has left the kernel by then.
    Ns leaves_kernel_;
    const SimOptions& opt_;
    bool any_serves_;
    bool has_ties_;  ///< the script has some
    WindowResult out_;
    Agenda<Happening> events_;
    uint64_t after_planned_;  ///< number of the first event that is pushed after those
    uint64_t seq_ = 1;
    Ns now_ = 0;
    Paged<Task> tasks_;
    std::vector<CpuState> cpus_;
    std::vector<Ns> fired_at_;  ///< by Stim; negative: not yet
    Paged<std::vector<TaskId>> clients_;  ///< by server: who waits for it, the longest first
    struct Gathering {
        size_t present = 0;  ///< tasks that come to the meetings
        std::vector<TaskId> came;  ///< and wait, the first first
    };
    std::vector<Gathering> gatherings_;  ///< by group of those that meet
    struct Timer {
        Ns due = 0;
        uint32_t stim = kNone;
    };
    std::vector<std::vector<Timer>> timers_;  ///< by CPU: those set there
    static constexpr Ns kNever = -1;
    /// A waker that waits for its wakee.
    struct Spinner {
        TaskId waker{}, wakee{};
        Ns until = 0;  ///< its patience ends
    };
    std::vector<Spinner> spinners_;
    /// Where a thread of a pool goes on, once it sleeps, as another one took its work.
    struct Heir {
        const TaskScript* script = nullptr;
        const Op* ops = nullptr;  ///< nullptr: nobody did
        uint32_t n_ops = 0, pos = 0;  ///< the sleep of that one
        const Op* until = nullptr;  ///< its own sleep
    };
    std::vector<TaskId> players_;  ///< by TaskId: who goes on with its script; empty: there are no pools
    std::vector<Heir> heirs_;  ///< by TaskId; empty: there are no pools
    std::vector<std::vector<uint32_t>> members_;  ///< by pool
    int64_t owed_ = 0;  ///< wakeups that found their readers awake, less those that the recording does not have
    struct Limit {  ///< of a group
        std::vector<Cpu> throttled;  ///< the longest first
        std::vector<Ns> since;  ///< by CPU: when it could have gone on there but for that; negative: it could not
        bool slack = false;  ///< slack() comes
    };
    std::vector<Limit> limits_;  ///< by group; none: nobody has one
    std::vector<Quota> quotas_;
    std::vector<std::pair<uint16_t, Cpu>> told_;  ///< groups just throttled, of which the machine model is to hear
    std::vector<TaskId> turned_;
    uint16_t spread_ = 0;  ///< where the last task went whose mask had changed
    int64_t added_ = 0;  ///< work that the scripts do not have: penalties, charged searches
    int64_t open_ = 0;  ///< counted wakeups without a switch-in
    int32_t waiting_ = 0;  ///< tasks that wait and may run anywhere
    std::vector<int32_t> waiting_llc_;  ///< of these, by LLC
    Ns bad_machine_ = -1, bad_llc_ = -1;
    int64_t outside_ = 0, outside_early_ = 0;
    int64_t queued_time_ = 0;  ///< of all tasks on the run queues so far, ns
    /// A decision that other CPUs may not have heard of.
    struct Fresh {
        Ns until = 0, again = 0;  ///< they do not until then, and from then on
        Cpu waker{}, chosen{};
        TaskId p{};
        bool to_idle = false;
    };
    /// A wakeup.
    struct Given {
        bool by_other = false;  ///< the CPU that the wakee is sent to queues it
        Relation from = Relation::same_llc;
        uint8_t target = 0;
        double luck = 0.5;
        Ns took = 0;  ///< of the waker
    };
    std::optional<Given> given_;  ///< the last one that the action at hand gave
    bool overlooked(const Fresh& f, Cpu waker) const;
    std::vector<Fresh> fresh_;
    void foresee();
    std::vector<Cpu> freed_;  ///< that will be idle when the search at hand looks
    std::vector<Cpu> overlooked_;  ///< CPUs to which those sent that the waker at hand has not heard of
    int64_t resync_before_ = 0;
    void wait_begins(const Task& t);
    void wait_ends(const Task& t);
    void close(Ns& since, Ns now, Violations& into) const;
};

}  // namespace rewake::closed
