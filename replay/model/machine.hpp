// SPDX-License-Identifier: GPL-2.0-or-later
// The machine rebuilt from events (policies.md C4): who runs, who waits, which CPUs are idle. It fills the View that all
// policies look at. The same class serves the decision builder (import) and the replay engine.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "replay/model/events.hpp"
#include "replay/model/groups.hpp"
#include "replay/model/idle_scan.hpp"
#include "replay/model/paged.hpp"
#include "replay/model/pelt.hpp"
#include "replay/model/quota.hpp"
#include "replay/model/switch_clock.hpp"
#include "replay/model/tasks.hpp"
#include "replay/model/view.hpp"

namespace rewake {

/// Counted departures from what the model expects; they stand in the quality card.
struct MachineCounts {
    int64_t switches = 0;
    int64_t resync = 0;  ///< a CPU was resynchronised: a switch contradicted the model, or its events were lost
    std::vector<int64_t> unseen_by_cpu;  ///< of these, those where a switch before it is not in the recording
    int64_t throttled = 0;  ///< tasks still queued when their CPU went idle whose groups have a limit, or are not known
    std::vector<int64_t> throttled_by_cpu;
    std::vector<int64_t> throttled_by_cgroup;  ///< by cgroup id; tasks without one count in throttled only
};

class Machine {
  public:
    enum class State : uint8_t { unknown, sleeping, waking, queued, running, throttled, dead };
    /// In two lines of the cache: where nobody reads averages the first one is enough.
    struct alignas(64) Task {
        State state = State::unknown;
        bool exiting = false;
        bool counted = false;  ///< in nr, load of `cpu`
        bool delayed = false;  ///< sleeps, and is counted still: its dequeue is delayed (6.12+)
        bool pending = false;  ///< on its way to `cpu`
        bool listed = false;  ///< in the pending count of `cpu`: on its wake list
        int16_t prio = 120;
        Cpu cpu{};  ///< CPU it is on, pends for, or was on last
        int32_t weight = 1024;  ///< what it adds to load while counted (0: not a fair task)
        bool sidle = false;  ///< counted as an idle-policy task
        bool estimated = false;  ///< in util_est of `cpu`: while counted, and while its group is throttled
        bool ever_blocked = false;
        bool is_attached = false;
        bool left = false;  ///< they do not any more: it is woken on another CPU, and not queued there yet
        bool born = false;  ///< its fork is in the recording
        bool rejoins = false;  ///< it exits, and has not left the group of its session yet
        Cpu attached{};  ///< CPU whose averages hold it
        uint16_t group = 0;  ///< its task group; 0: root
        uint32_t parent = kNoTask;  ///< who forked it, where the recording shows that
        int32_t util_est = 0;  ///< as of its last sleep
        Ns blocked_at = 0;  ///< last switch-out into sleep
        uint32_t next = kNoTask, prev = kNoTask;  ///< list of tasks queued (not running) on `cpu`
        alignas(64) Pelt pelt;  ///< as of its last change of state, on the PELT clock of `attached`
    };
    static_assert(sizeof(Task) == 128);

    Machine(const Topology& topo, const TaskTable& tasks);

    /// Takes the state that the first batch implies: what each CPU ran and which tasks were already queued before their
    /// first event. `running`: (CPU, task) of CPUs whose first switch comes in a later batch. A CPU that never switches counts
    /// as idle. Call once, before any event.
    void prime(const Batch& first, const EventOrder& order, const std::vector<std::pair<uint16_t, uint32_t>>& running);

    /// Takes row `i` of the event's table, in event order. A sched_waking changes nothing by itself: its decision does,
    /// through on_waking().
    void apply(const Batch& b, Event e, size_t i);
    // What apply() calls, one an event.
    /// `delays`: who goes to sleep stays on its run queue, until let_go() (6.12+).
    void on_switch(const SwitchColumns& c, size_t i, bool delays = false);
    /// `p` is woken, so it has set itself asleep: one that is to wait, throttled, did so in switches that were not recorded.
    void slept_unseen(TaskId p, Ns ts);
    /// `placed`: the wakeup went through placement; `chosen` is where `by` will put it, or have it put (from then on not
    /// idle, F.2).
    void on_waking(TaskId p, int prio, bool placed, Cpu chosen, std::optional<Cpu> by = std::nullopt);
    void on_wakeup(TaskId p, int prio, Cpu target, Ns ts);
    /// Its priority is that, as it wakes up: before task_load() for its placement.
    void set_prio(TaskId p, int prio) {
        grow(p);
        set_prio(tasks_[p.v], prio);
    }
    void on_migrate(TaskId p, Cpu orig, Cpu dest, Ns ts, Cpu by);
    void on_fork(TaskId child, std::optional<TaskId> parent = {});
    void on_exit(TaskId p, Ns ts);
    /// The dequeue of `p`, if it was delayed, is done.
    void let_go(TaskId p, Ns ts);
    /// An interrupt in which `c` empties its wake list begins: set_clearing().
    void on_wake_list(Cpu c, Ns ts);
    void on_idle_state(Cpu c, std::optional<uint32_t> state);
    /// An interrupt of the local timer of `c`, which is idle: its tick goes on.
    void on_idle_tick(Cpu c, Ns ts);
    /// The load balancer ran on `c`: the averages there are up to date, on an idle CPU whose tick has stopped those of all
    /// such, and nr_idle_scan of the LLCs whose turn it is.
    void on_balance(Cpu c, Ns ts);
    /// Events of `c` were lost: what ran, waited or was expected there is unknown until seen again.
    void on_loss(Cpu c, Ns ts);

    /// Brings the time-dependent parts of the View (now, the clock of `prev`, loads of the two CPUs, nr_idle_scan) to `ts`;
    /// call before a decision about a task on `prev`, a wakeup of `wakee`.
    void advance(Ns ts, Cpu prev, Cpu waker, std::optional<TaskId> wakee = {});

    /// load_avg of the queue that a task was on, its group's.
    int64_t queue_load(TaskId p, Cpu c) const { return queue(tasks_[p.v], c).load_avg; }
    /// Takes over what was recorded at the instant of advance(): load_avg of the wakee and of its run queue (not where there
    /// are task groups), nr_idle_scan of its LLC (from then on the last recorded value, no longer the model's).
    void learn(TaskId p, Cpu prev, std::optional<int64_t> load, std::optional<int64_t> rq_load,
               std::optional<int32_t> nr_idle_scan);

    /// CPUs with more than two tasks, the running one included.
    const CpuMask& deep() const { return deep_; }
    /// CPUs where somebody sleeps whose dequeue is delayed.
    const CpuMask& late() const { return late_; }
    /// An event of `t` comes soon.
    void expect(TaskId t) const {
        if (t.v < tasks_.size()) tasks_.expect(t.v), tasks_.expect(t.v, 64);
        __builtin_prefetch(&table_.info(t));
    }
    /// And of what runs there.
    void expect(Cpu c) const {
        const auto* s = reinterpret_cast<const char*>(&cpus_[c.v]);
        for (size_t at = 0; at < sizeof(CpuState); at += 64) __builtin_prefetch(s + at);
    }
    const View& view() const { return view_; }
    /// Exit latencies per CPU and cpuidle state, in any unit. Where none are known the states count by their number: a
    /// deeper one takes longer to leave.
    void set_exit_latency(const std::vector<std::vector<int32_t>>& latency) { exit_latency_ = latency; }
    /// Load tracking stops, which nobody reads from now on: loads, utilisation and nr_idle_scan mean nothing any more. Not
    /// where there are task groups, whose weights come from it.
    void forget_averages() { averages_ = groups_.any(); }
    bool keeps_averages() const { return averages_; }
    /// Some CPU uses more than four fifths of its capacity, as far as is known.
    bool overutilised();
    /// Takes back / puts back that `n` wakeups are on their way to `c`: what another CPU sees that has not heard of them.
    void overlook(Cpu c, int n) {
        cpus_[c.v].pending -= n;
        refresh(c);
    }
    /// Takes `c` for idle or busy until its next event: what another CPU sees whose clock is ahead of it, or behind.
    void suppose(Cpu c, bool idle) {
        view_.idle.assign(c, idle);
        view_.avail.assign(c, idle);
        view_.turns.forget(c);
    }
    /// Takes that back.
    void look_again(Cpu c) {
        const bool keeps = std::exchange(keeps_turns_, false);
        refresh(c);
        if (view_.turns.step > 0) look_from(view_.turns.from, view_.turns.step);
        keeps_turns_ = keeps;
    }
    /// From now on keeps when CPUs turn idle or busy, for look_from().
    void keep_turns() { keeps_turns_ = true; }
    /// What is applied next others see at that time. With keep_turns(); times go back by no more than events are brought forward.
    void seen_at(Ns ts);
    /// The placement looked from then on, and so much later at each CPU that its search examined (View::turns); `step` 0: at all
    /// at once, now.
    void look_from(Ns from, Ns step);
    /// Exchanges what that found.
    Turns looked(Turns turns) { return std::exchange(view_.turns, std::move(turns)); }
    /// Since when `c` has been idle, where nothing was queued there since.
    Ns idle_since(Cpu c) const { return cpus_[c.v].idle_stamp; }
    /// Tasks on the run queues of all CPUs, those that run among them.
    int64_t n_queued() const { return n_queued_; }
    /// Nothing but the running task is on `c`, or on its way there.
    bool runs_the_last(Cpu c) const {
        const CpuState& s = cpus_[c.v];
        return s.curr_known && !is_idle_task(s.curr) && view_.nr[c.v] - view_.delayed[c.v] == 1 && s.pending == 0;
    }
    /// It would be idle, were there no wakeup on its way to it.
    bool idle_but_for_wakeups(Cpu c) const {
        const CpuState& s = cpus_[c.v];
        return s.curr_known && is_idle_task(s.curr) && view_.nr[c.v] == 0 && s.pending > 0;
    }
    /// nr_idle_scan of an LLC changes when its balancer runs: how often some CPU of it looked whether to, at different
    /// times, and how often it did according to the model.
    struct LlcScan {
        int32_t chances = 0, writes = 0;
        Ns chance = -1;  ///< jiffy of the last one
        bool recorded = false;  ///< the value is; the model writes it no longer
    };
    const LlcScan& scan_of(Llc llc) const { return scans_[llc.v]; }
    /// Takes `nr` as nr_idle_scan of an LLC, until the model writes it again.
    void set_nr_idle_scan(Llc llc, int32_t nr) { view_.nr_idle_scan[llc.v] = nr; }
    void set_scan_clocks(std::vector<ScanClock> clocks) { view_.scan_clocks = std::move(clocks); }
    /// Throws std::invalid_argument.
    void set_scan_clock(uint8_t which) {
        if (which >= view_.scan_clocks.size()) throw std::invalid_argument("no such scan clock");
        view_.scan_clock = which;
    }
    /// From now on only these CPUs can be idle.
    void set_online(const CpuMask& online) {
        online_ = online;
        for (uint16_t c = 0; c < cpus_.size(); ++c) refresh(Cpu(c));
    }
    /// The kernel built its domains anew, those that topo() has by now: what they share begins with nothing, and they are not
    /// balanced before an interval is over.
    void rebuilt(Ns at);
    Ns now() const { return std::max(now_, switch_at_); }  ///< time of the event at hand
    /// The tick: its period and when one was. Busy CPUs bring their averages up to date then.
    void set_tick(Ns period, Ns at) {
        tick_ = period, tick_phase_ = at % period;
        balancer_.set_tick(period);
    }
    /// How far the scheduler's clock is ahead of the recording's: PELT periods begin on multiples of their length there.
    /// Before any event.
    void set_clock_offset(Ns ahead);
    /// Gives view() a hardirq load to point at; nullptr: not known.
    void set_irq_load(const IrqLoad* load) { view_.irq = load; }
    /// Makes view().load what a policy of that kind reads.
    void select_load(LoadKind kind) {
        std::swap(view_.load, loads_[static_cast<size_t>(selected_)]);
        std::swap(view_.load, loads_[static_cast<size_t>(kind)]);
        selected_ = kind;
    }
    LoadKind load_kind() const { return selected_; }
    /// Utilisation of a task as a kernel sees it that places the task: as of its sleep, decayed on the clock of `prev`.
    struct TaskUtil {
        int32_t util = 0, util_est = 0, runnable = 0;
    };
    TaskUtil task_util(const Task& t, Cpu prev) const;
    /// Counts a running task on `c` instead of its CPU, until called with that one again: an exec is recorded only after
    /// the move that it decided.
    void move_running(TaskId p, Cpu c);
    /// Brings View::slow to the time of the last advance(): before a decision that takes the fork and exec path.
    void look_at_all();
    /// The recorded kernel asked for task_load() of a task on `c`: within a jiffy, it goes on with that load of the queue.
    void asked_load(const Task& t, Cpu c) {
        CpuState& s = cpus_[c.v];
        const Ns now = jiffy();
        if (std::exchange(s.h_load_jiffy, now) != now) s.h_load = s.pelt.load_avg;
        if (t.group) groups_.asked(t.group, c, now, s.h_load, s.pelt.load_avg);
    }
    /// w(x) of policies.md A5 for a task that was last on `c`: nice weight, or its average as part of the queue's.
    int64_t task_load(TaskId p, Cpu c, LoadKind kind) const;
    /// When `c` last balanced a level of its stack, as far as that is known, and whether it found something there.
    struct Balanced {
        Ns at = 0;
        bool found = false, sure = false;  ///< see Balancer::Turn
    };
    std::optional<Balanced> balanced(Cpu c, size_t level) const;
    /// Averages of a CPU as balancing reads them, as of its last update.
    struct Used {
        int64_t util = 0;  ///< cpu_util_cfs()
        int64_t runnable = 0;  ///< time that tasks waited or ran, each counted (cpu_runnable())
    };
    /// Where a recording is too short to guess what was before it, that was what was since.
    Used used(Cpu c) const;
    const Topology& topo() const { return topo_; }
    const TaskTable& table() const { return table_; }
    /// Kernel priority last seen of a task (120 before its first event).
    int16_t prio_hint(TaskId t) const { return t.v < tasks_.size() ? tasks_[t.v].prio : int16_t{120}; }
    const Task& task(TaskId t) {
        grow(t);
        return tasks_[t.v];
    }
    /// As task(), or nullptr: never heard of.
    const Task* known(TaskId t) const { return t.v < tasks_.size() ? &tasks_[t.v] : nullptr; }
    /// f(number, task) of all that were heard of and are not forgotten, and of some that were not; ascending.
    template <class F>
    void each_known(F f) const {
        tasks_.each(f);
    }
    /// Nothing here refers to it, but for each_named(): if it is never heard of again, forget() changes nothing.
    bool done_with(TaskId t) const;
    /// f(task) of those to which a CPU refers; also of numbers that no task has.
    template <class F>
    void each_named(F f) const {
        for (const CpuState& s : cpus_) f(s.curr), f(s.switches.last_woken());
    }
    bool knows(size_t page) const { return tasks_.has_page(page); }
    /// A page of tasks (paged.hpp).
    void forget(size_t page) { tasks_.drop(page); }
    /// What runs on `c`, the idle task included, where that is known.
    std::optional<TaskId> curr(Cpu c) const {
        return cpus_[c.v].curr_known ? std::optional(cpus_[c.v].curr) : std::nullopt;
    }
    /// After a copy: the View refers to this machine again.
    void rebind() { view_.slow = &slow_; }
    /// How long after sched_migrate_task its task is on the wake list of the CPU that it is to go to, and how long after
    /// its placement one that stays, by the waker's CPU.
    struct ListedAfter {
        Ns migrate = 0, stay = 0;
    };
    void set_listing(std::vector<ListedAfter> after) { listing_ = std::move(after); }
    /// Tasks that a balance takes off a run queue are on the new one so long after the last of them was recorded, on a CPU of
    /// full capacity; 0: at once.
    void set_pulling(Ns after) { pulling_ = after; }
    /// How long after such an interrupt the others no longer see the tasks of the list, by CPU; 0: they see them until they
    /// are queued. Until 6.1 rq::ttwu_pending, before 5.8 the list itself, is cleared first.
    void set_clearing(std::vector<Ns> after) { clearing_ = std::move(after); }
    /// From now on no event tells when the load balancer runs.
    void balances_at_ticks() { balances_ = false; }
    /// A wakeup is on its way to `c`, in its wake list.
    bool expects(Cpu c) const { return cpus_[c.v].pending > 0; }
    /// An RT or deadline task runs on `c`.
    bool runs_non_fair(Cpu c) const {
        const TaskId t = cpus_[c.v].curr;
        return !is_idle_task(t) && t.v < tasks_.size() && !prio_is_fair(tasks_[t.v].prio);
    }
    /// All other siblings of `c` are AVAIL: the set side of has_idle_cores when `c` enters idle.
    bool core_idle_but(Cpu c) const;
    void count_resyncs(Ns from, Ns to) {
        counted_from_ = from;
        counted_to_ = to;
    }
    /// The state of `c` was resynchronised, or events of it were lost, less than 10 ms before `now`.
    bool low_confidence(Cpu c, Ns now) const { return cpus_[c.v].unsure_until > now; }
    std::optional<uint32_t> idle_state(Cpu c) const {
        return cpus_[c.v].has_idle_state ? std::optional(cpus_[c.v].idle_state) : std::nullopt;
    }
    const MachineCounts& counts() const { return counts_; }

    // Task groups (groups.hpp) and their limits (throttle.cpp).
    /// What the entity of a group weighs on its CPU's queue above.
    int64_t group_share(uint16_t g, Cpu c) const { return groups_.share(g, c); }
    /// Whether the model has a group with a limit throttled there.
    bool held(uint16_t limit, Cpu c) const { return held_[limit * cpus_.size() + c.v] != Held::no; }
    const std::vector<Quota>& quotas() const { return quotas_; }
    /// From when on the time of what runs there does not count against its limits yet.
    Ns ran_from(Cpu c) const { return cpus_[c.v].ran_from; }
    /// From now on groups are throttled when throttle() says so, and by nothing that the model makes of events.
    void throttles_when_told() {
        groups_.forget_limits();
        next_period_ = std::numeric_limits<Ns>::max();
        watches_limits_ = false;
    }
    void throttle(uint16_t limit, Cpu c, Ns ts) {
        now_ = ts;
        hold(limit, c, Held::assumed);
    }
    void unthrottle(uint16_t limit, Cpu c, Ns ts) {
        now_ = ts;
        release(limit, c, false);
    }
    /// What became of the limits since the last look; kept from watch_limits() on.
    struct LimitNews {
        std::vector<std::pair<uint16_t, Cpu>> turned;  ///< groups that were throttled there, or go on
        std::vector<std::pair<uint16_t, Ns>> refills;  ///< groups that were seen to get their quota, and when
    };
    void watch_limits() { watches_limits_ = groups_.any(); }
    LimitNews& limit_news() { return limit_news_; }
    /// Periods of a group begin on `at`, and every period before and after it.
    void set_period(uint16_t limit, Ns at) {
        quotas_[limit].begin_at(at, now_);
        next_period_ = std::min(next_period_, quotas_[limit].due());
    }
    /// After prime() and set_period(). `sw`: the switches with which the recording begins.
    void begin_throttled(const SwitchColumns& sw);
    bool is_idle_task(TaskId t) const { return t.v < static_cast<uint32_t>(topo_.n_cpus); }

    static constexpr uint32_t kNoTask = 0xffffffff;

  private:
    /// What a task that is woken elsewhere takes off its old CPU's averages, with the first update from `at` on.
    struct alignas(64) Leaving {
        Ns at = 0;
        Pelt pelt;
    };
    struct alignas(64) CpuState {
        TaskId curr{};
        bool curr_known = false;
        bool has_idle_state = false;
        uint32_t idle_state = 0;
        bool runs_fair = false;  ///< curr is a fair task
        int32_t pending = 0;  ///< wakeups in its wake list, as others see it
        bool hides = false;  ///< they are off that list and not queued yet: nobody sees them
        QueuePelt pelt;  ///< as of its last change, on this CPU's PELT clock
        std::vector<Leaving> leaving;
        Ns updated = 0;  ///< last update of `pelt`
        uint32_t blocked = ~0u;  ///< jiffy of the last one by a balance, its low bits
        uint32_t ticked = ~0u;  ///< and of its last tick while idle
        int64_t h_load = 0;  ///< load_avg as task_h_load last took it
        Ns h_load_jiffy = -1;  ///< when; task_h_load keeps it for the rest of that jiffy
        int32_t util_est = 0;  ///< sum over the queued fair tasks
        int32_t idle_h = 0;
        Ns idle_stamp = 1;  ///< last entry into idle; idle since before the recording comes before all others
        SwitchClock switches;
        Ns ran_from = 0;  ///< what its task ran before is accounted for
        double speed = 1;  ///< of the PELT clock while busy: capacity / 1024
        Ns clock = 0, clock_at = 0;  ///< PELT clock, at that time
        Ns lost = 0;  ///< how far it stays behind: lose_idle_time()
        Ns unsure_until = 0;
        uint32_t head = kNoTask;  ///< queued, not running tasks
        uint32_t parked = kNoTask;  ///< throttled ones
    };
    static_assert(sizeof(CpuState) == 256);

    void grow(TaskId t) {
        if (t.v >= tasks_.size()) [[unlikely]]
            tasks_.resize(t.v + 1 + t.v / 2);
    }
    void set_prio(Task& t, int prio);
    void count(TaskId id, Task& t, Cpu c);
    /// `moves`: and leaves at once for the run queue of another CPU.
    void uncount(Task& t, bool moves = false) {
        if (uncount_unseen(t, moves)) refresh(t.cpu);
    }
    /// The same, where refresh() of its CPU follows; whether it has to.
    bool uncount_unseen(Task& t, bool moves = false);
    void delay(Task& t);
    void let_all_go(Cpu c);
    void estimate(Task& t, bool counts);
    void link(TaskId id, Task& t);
    void unlink(TaskId id, Task& t);
    void expect(TaskId id, Task& t, Cpu c, std::optional<Cpu> by);
    void list(Task& t, Cpu c, Ns at);
    void list_due(Ns now);
    [[gnu::noinline, gnu::cold]] void note_turn(Cpu c, bool idle);
    void moved(TaskId id, Task& t, Cpu by, Ns ts);
    void unlist(Task& t);
    bool unlist_unseen(Task& t);
    void look_at_cleared(Ns now);
    void show_list(Cpu c, Ns at);
    void drop_pending(Task& t);
    bool lists(Cpu by, Cpu c) const;
    void enqueue(TaskId id, Task& t, Cpu c);
    void refresh(Cpu c);
    Ns pelt_clock(Cpu c);
    void lose_idle_time(Cpu c);
    int32_t exit_latency(Cpu c) const;
    Ns jiffy_at(Ns ts) const { return (ts - tick_phase_) / tick_; }
    Ns jiffy() const { return jiffy_at(now_); }
    /// Its tick interrupted `c`, which is idle, in this jiffy.
    bool ticks(Cpu c, Ns jiffy) const { return cpus_[c.v].ticked == static_cast<uint32_t>(jiffy); }
    /// Brings the averages of `c` to the time of the event at hand.
    void accrue(Cpu c) {
        if (!averages_) return;
        const CpuState& s = cpus_[c.v];
        const bool done = s.updated == now_ && s.pelt.at == now_ && s.pelt.gone_load == 0 && s.leaving.empty();
        if (!done || scaled_ || groups_.any()) accrue_now(c);  // what an event asks for twice is done once
    }
    void accrue_now(Cpu c);
    /// A switch from `prev`, which stays on the run queue or not, may follow a wakeup that asked for it at once.
    bool preempted(TaskId prev, bool waits) const { return is_idle_task(prev) || (waits && !table_.preempts_lazily); }
    void guess(const Batch& first, const EventOrder& order, const std::vector<std::pair<uint16_t, uint32_t>>& running);
    void catch_up(Cpu c, Ns tick);
    Ns last_tick() const { return now_ - (now_ - tick_phase_) % tick_; }
    void tick_all();
    void update_blocked(Cpu c);
    void balance(Cpu c, bool is_idle, Ns jiffy);
    void balance_idle(Cpu by);
    void balance_by_ticks();
    void balance_one_idle(Cpu c, Ns jiffy);
    void write_idle_scan(Llc llc);
    void accrue(Task& t, bool ran) {
        if (averages_) t.pelt.accrue(clock(t, t.attached), t.weight, ran, t.weight > 0 && !t.delayed);
    }
    void publish(Cpu c);
    void reweigh(Task& t, int32_t weight);
    void attach(Task& t, Cpu c);
    void leave_by_migration(Task& t, Cpu to);
    /// With the first update of its CPU that is so long after now.
    void leave(Task& t, Ns told);
    void notifies(Cpu waker, TaskId wakee);
    void rejoin(Task& t);
    void take_off(CpuState& s);
    void thaw(Task& t);
    void start(Task& t, Cpu c);
    GroupQueues::At at(Cpu c) {
        return {c, {cpus_[c.v].pelt, load(LoadKind::weight)[c.v], view_.cfs_nr[c.v]}, pelt_clock(c), now_};
    }
    QueuePelt& queue(const Task& t, Cpu c) { return t.group ? groups_.queue(t.group, c) : cpus_[c.v].pelt; }
    const QueuePelt& queue(const Task& t, Cpu c) const { return t.group ? groups_.queue(t.group, c) : cpus_[c.v].pelt; }
    Ns clock(const Task& t, Cpu c) { return t.group ? groups_.clock(t.group, c, pelt_clock(c)) : pelt_clock(c); }
    uint32_t& list(const Task& t) { return t.state == State::throttled ? cpus_[t.cpu.v].parked : cpus_[t.cpu.v].head; }
    bool resync(Cpu c, Ns ts);  ///< whether it counts
    Ns counted_from_ = std::numeric_limits<Ns>::min(), counted_to_ = std::numeric_limits<Ns>::max();
    // Throttled groups (throttle.cpp).
    enum class Held : uint8_t { no, assumed, seen };
    void park(TaskId id, Task& t);
    void park_all(Cpu c);
    void hold(uint16_t limit, Cpu c, Held how);
    void release(uint16_t limit, Cpu c, bool forget);
    void resume(uint16_t group, Cpu c);
    void account(uint16_t group, Cpu c);
    void joins(uint16_t group, Cpu c);
    void left(uint16_t group, Cpu c, uint16_t next_group);
    bool starved(uint16_t group, Cpu c);
    void refill(uint16_t limit, Ns at);
    void periods();
    void look_for_held();

    const Topology& topo_;
    const TaskTable& table_;
    View view_;
    CpuMask online_, deep_, late_;
    std::vector<CpuState> cpus_;
    GroupQueues groups_;
    Paged<Task> tasks_;
    std::vector<Held> held_;  ///< by limited group and CPU: it is throttled there
    int64_t n_exiting_ = 0;  ///< tasks that have yet to leave their session's group
    std::vector<Quota> quotas_;  ///< by group; of those with a limit
    Ns next_period_ = std::numeric_limits<Ns>::max();
    struct Listing {
        TaskId p;
        Cpu to{};
        Ns at = 0;
    };
    std::vector<Listing> unlisted_;  ///< placed tasks that are not yet on a wake list
    std::vector<ListedAfter> listing_;
    bool migrations_ = false;  ///< sched_migrate_task is recorded: no wakee that moves is on a list before its own
    struct Clearing {
        Cpu c{};
        Ns at = 0;
    };
    std::vector<Clearing> cleared_;  ///< wake lists that are about to be cleared
    std::vector<Ns> clearing_;
    bool keeps_turns_ = false;
    Ns turn_at_ = 0;  ///< seen_at()
    std::vector<Turns::Turn> turns_;  ///< in order of time, the latest ones
    bool watches_limits_ = false;
    LimitNews limit_news_;
    std::vector<std::pair<Cpu, Ns>> waits_;  ///< idle CPUs where a task of a limited group queued, and when
    Ns now_ = 0;  ///< time of the event at hand
    Ns switch_at_ = 0;  ///< of the last sched_switch; now_ is what its clock stood at (SwitchClock)
    std::vector<int64_t>& load(LoadKind kind) {
        return kind == selected_ ? view_.load : loads_[static_cast<size_t>(kind)];
    }
    std::array<std::vector<int64_t>, 3> loads_;  ///< by LoadKind, per CPU; the selected one lies in view_
    LoadKind selected_ = LoadKind::average;
    Balancer balancer_;
    std::vector<LlcScan> scans_;  ///< per LLC
    Ns ticked_ = -1;  ///< jiffy in which all CPUs looked at their domains, where the recording does not say when
    SlowInputs slow_;
    std::vector<std::vector<int32_t>> exit_latency_;
    Ns tick_ = 4'000'000, tick_phase_ = 0;
    struct Pull {
        Cpu orig{}, by{};
        Ns first = 0, last = 0;
        int n = 0;
    } pull_;  ///< the latest one: tasks that a balance takes off another CPU
    Ns pull_time(Cpu orig, Cpu by, Ns ts);
    struct Pulled {
        TaskId p;
        Cpu to{}, by{};
        Ns at = 0;
    };
    std::vector<Pulled> pulled_;  ///< tasks off their old run queue and not on the new one yet
    Ns pulling_ = 0;
    void pull(TaskId id, Task& t, Cpu to, Cpu by, Ns ts);
    void put_pulled(std::optional<Cpu> by);
    Ns next_tick_ = std::numeric_limits<Ns>::max();  ///< of all CPUs; with groups only
    bool moved_queued_ = false;  ///< the task that is being enqueued leaves another run queue
    Ns began_ = 0;  ///< when the recording did
    bool guessed_ = false;  ///< averages of older tasks: guess()
    bool averages_ = true;  ///< somebody reads them
    bool balances_ = false;  ///< the recording says when the load balancer runs; else it is taken to at every tick
    bool scaled_ = false;  ///< some CPU has less than full capacity
    int64_t n_queued_ = 0;
    MachineCounts counts_;
};

}  // namespace rewake
