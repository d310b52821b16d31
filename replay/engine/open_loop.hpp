// SPDX-License-Identifier: GPL-2.0-or-later
// Open loop: every recorded decision is decided again by every policy, all against the same View, in one pass.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "replay/engine/budget.hpp"
#include "replay/engine/divergence.hpp"
#include "replay/engine/explanation.hpp"
#include "replay/engine/inferred.hpp"
#include "replay/engine/input_log.hpp"
#include "replay/engine/irq_ticks.hpp"
#include "replay/engine/ledger.hpp"
#include "replay/engine/panel.hpp"
#include "replay/engine/probed.hpp"
#include "replay/model/decisions.hpp"
#include "replay/model/events.hpp"
#include "replay/model/fair/delays.hpp"
#include "replay/model/machine.hpp"
#include "replay/policies/group_sums.hpp"
#include "replay/policies/policy.hpp"

namespace rewake {

/// Columns of the recording's `decision` table that replay reads (forms/tables.py). Null arrays may be nullptr: no NULL.
struct DecisionColumns {
    size_t n = 0;
    const int64_t* event_id = nullptr;
    const int64_t* ts = nullptr;
    const uint8_t* kind = nullptr;
    const uint8_t* cls = nullptr;
    const uint32_t* task = nullptr;
    const uint32_t* waker_task = nullptr;
    const bool* waker_task_null = nullptr;
    const uint16_t* waker_cpu = nullptr;
    const bool* waker_cpu_null = nullptr;
    const uint8_t* irq_ctx = nullptr;
    const bool* irq_ctx_null = nullptr;
    const int16_t* prio = nullptr;
    const uint16_t* prev_cpu = nullptr;
    const bool* prev_cpu_null = nullptr;
    const uint16_t* chosen_cpu = nullptr;
    const bool* chosen_cpu_null = nullptr;
    const int64_t* latency = nullptr;
    const bool* latency_null = nullptr;
    const bool* low_confidence = nullptr;
    const uint8_t* hint = nullptr;  ///< hints of the task (seed 5); nullptr: none
    InferredColumns inferred;  ///< what answers
    InferredColumns before;  ///< what stays in the policies' private state; all nullptr: the same
    const uint32_t* allowed =
        nullptr;  ///< index into TaskTable::masks where the task's own is not in force; or nullptr
    const bool* allowed_null = nullptr;
    const uint8_t* looks = nullptr;  ///< which of ReplayOptions::looks; nullptr: the first
    const int64_t* decided = nullptr;  ///< of a fork or an exec, when; -1, nullptr: as its event comes
    const bool* by_waker = nullptr;  ///< its sched_wakeup is of the waker's CPU; nullptr: not known
    const uint8_t* scanned = nullptr;  ///< closed loop: CPUs that its search examined; nullptr: not known
    const float* luck = nullptr;  ///< closed loop: closed::Luck of it; nullptr: not known
    const float* luck_preempt = nullptr;
    ProbeColumns probes;         ///< what was recorded of it; goes before every inferred or reconstructed value
};

/// Recorded wakeup latency on idle targets (policies.md D1 lat_est): per relation of waker and target and idle state.
struct IdleLatency {
    struct Range {
        Ns lo = 0, hi = 0;
    };
    bool have = false;
    std::vector<Range> same_llc, cross_llc;  ///< index: idle state, last entry: state unknown
};

struct ReplayOptions {
    bool sync = false;  ///< WF_SYNC of every wakeup
    std::vector<FlipHypothesis> first_flips{{}};  ///< of the tasks that were there before the recording began: one
    ///< hypothesis, or some of which InferredColumns::flips names one
    uint32_t hz = 250;
    Ns tick_at = 0;  ///< when some tick was
    Ns clock_offset = 0;  ///< how far the scheduler's clock is ahead of the recording's
    Ns slice_least = 750'000;  ///< of one task: with W of them on a CPU it has slice_shared / W, and this at least
    Ns slice_shared = 6'000'000;
    Ns migration_cost = 500'000;
    std::vector<std::vector<int32_t>> exit_latency;  ///< per CPU and cpuidle state; empty: not recorded
    bool calls_seen = false;  ///< probes saw which wakeups reached placement
    bool energy_aware = false;  ///< wakeups may be placed by energy: such are left to the recording (policies.md A9)
    uint32_t inferred = 0;  ///< Input bits that this recording leaves to inference or to a model
    bool panel = false;  ///< one policy, asked under all of first_flips, both values of the flag and panel_scans
    std::vector<int32_t> panel_scans;
    bool panel_clocks = false;  ///< panel_scans are of scan_clocks
    std::vector<ScanClock> scan_clocks;  ///< View::scan_clocks; empty: what that begins with
    Ns order_window = 0;  ///< a panel's events less than this apart on two CPUs have no known order
    bool blind = false;  ///< probed values are for the budget only
    bool log_flips = false;  ///< keep when CPUs became idle and busy (flips())
    bool log_inputs = false;  ///< keep what the recorded kernel's policy read at each decision (inputs())
    std::vector<bool> own;  ///< per policy: stands for the recorded kernel, so its private state follows the record
    std::vector<Ns>
        settle;  ///< from a wakeup's opening event to the end of its placement, as a rule; by the waker's CPU
    std::vector<Lead> lead;  ///< EventOrder::bring_forward(); empty: nothing is
    std::vector<Machine::ListedAfter> listing;  ///< Machine::set_listing()
    std::vector<Ns> clearing;  ///< Machine::set_clearing()
    /// Machine::look_from(): from a wakeup's opening event, or the call that probes saw, to the first CPU of its search, and from
    /// one CPU to the next; step 0: all is looked at when the placement ends. DecisionColumns::looks names one; empty: so it is.
    struct Looks {
        Ns from = 0, step = 0;
    };
    std::vector<Looks> looks;
    std::optional<FairSettings> fair;  ///< the recorded kernel's; only of one that delays dequeues
    Ns warm_up = 2'000'000'000;  ///< flips and recent count as assumed until then
};

/// What the machine is like from a time on, while CPUs go offline and come back.
struct Shape {
    Ns from = 0;
    CpuMask inactive;  ///< CPUs that take no more tasks, yet are in the domains
    CpuMask gone;  ///< CPUs that are in no domain
    bool off = false;  ///< and do not run
    bool rebuilds = false;  ///< there are no domains
};

class OpenLoop {
  public:
    struct Instance {
        std::unique_ptr<Policy> policy;
        const PolicyState* memory = nullptr;  ///< Policy::memory()
        bool own = false;  ///< ReplayOptions::own
        std::optional<FlipHypotheses> flips;  ///< where ReplayOptions::first_flips says anything
        LedgerColumns out;
        LoadKind load{};
        const IrqLoad* irq = nullptr;  ///< what it reads as View::irq
        LedgerCounts counts;
        int64_t by_energy = 0;  ///< wakeups not decided, because energy-aware placement may have
    };

    OpenLoop(const Topology& topo, const TaskTable& tasks, std::vector<std::unique_ptr<Policy>> policies,
             ReplayOptions options, IdleLatency idle_latency, Running running);

    /// Replays one part. `next` (the following part's switches) ends the running segments that reach beyond it; nullptr at
    /// the end of the recording. Fills every instance's `out` with d.n rows.
    void run(const Batch& b, const SwitchColumns* next, const DecisionColumns& d);

    /// `live` is the topology that this loop and its policies were made with. It takes these shapes, in order of time.
    void reshape(Topology& live, std::vector<Shape> shapes) {
        live_ = &live;
        base_ = live;
        shapes_ = std::move(shapes);
    }

    /// Explains the decisions that these events open, when run() comes to them.
    void watch(std::vector<int64_t> event_ids);
    /// Explanations so far, in order of the decisions. Decisions that no policy is asked about have none.
    const std::vector<Explanation>& explanations() const { return explanations_; }

    std::vector<Instance>& instances() { return instances_; }
    /// Of the part just run, with ReplayOptions::log_inputs.
    const InputLog& inputs() const { return log_; }
    /// Of the part just run, with ReplayOptions::panel.
    const PanelAnswers& answers() const { return answers_; }
    /// Per decision of the recording so far, with ReplayOptions::panel: PanelAnswers::wide under other hypotheses. Ends where
    /// no decision asked for it any more, or FlipCourse ends.
    std::vector<uint32_t> wide_under(const std::vector<FlipHypothesis>& first) const {
        return panel_ ? panel_->course.wide(first, opt_.hz) : std::vector<uint32_t>{};
    }
    /// With ReplayOptions::panel: FlipCourse::apart() of the recording so far.
    FlipsApart wide_apart(const FlipHypothesis& base, const std::vector<FlipHypothesis>& tries,
                          const std::vector<bool>& asked) const {
        return panel_ ? panel_->course.apart(base, tries, asked, opt_.hz) : FlipsApart{};
    }
    /// Over all parts so far, with ReplayOptions::log_flips.
    const std::vector<Flip>& flips() const { return flips_; }
    /// From now on accounts for the misses of the policy that stands for the recorded kernel. `flips`: of an earlier run over
    /// the same recording under the same options.
    void account(std::vector<Flip> flips, Ns window) { budget_.emplace(std::move(flips), window); }
    /// Per decision of the part just run, after account().
    const std::vector<Blame>& blames() const { return blames_; }
    const Histogram& recorded() const { return recorded_; }  ///< recorded latency of the decisions above

  private:
    static constexpr Ns kNoEnd = -1;
    /// So close to a tick jiffies may be the next or the one before: it changes while one CPU handles its tick, and placement
    /// reads it some microseconds before its decision is taken here.
    static constexpr Ns kTickTakes = 50'000;
    /// `rebuilt`: so did the one before.
    void take(const Shape& s, bool rebuilt);
    void take_shapes(Ns ts);  ///< those that begin until then
    /// Whether it is certain that nothing is searched for it: its waker puts it on the wake list of the CPU that it is
    /// leaving (5.8).
    bool listed_at_once(DecisionClass cls) const { return opt_.calls_seen && cls == DecisionClass::maybe_on_cpu; }
    /// More than a second from the beginning: wakee_flips that nobody halved yet are due (0 is when they were).
    uint64_t jiffies(Ns ts) const {
        const Ns tick = 1'000'000'000 / opt_.hz;
        return opt_.hz + 1 + static_cast<uint64_t>(std::max<Ns>(0, ts - opt_.tick_at % tick) / tick);
    }
    std::vector<Ns> began_;  ///< by waker's CPU: its latest placement
    std::vector<Ns> sent_;  ///< by CPU: when the latest placement that chose it began
    void segments(const Batch& b, const SwitchColumns* next);
    void decide(const DecisionColumns& d, size_t row, Ns ts);
    /// Whether the decision that this event opens is to be explained.
    bool watches(int64_t event_id) const;
    void listen(size_t k, const Wakeup& w);
    void heard(size_t k, const Decision& dec, bool counts, uint32_t modelled);
    void flush(size_t end);
    static std::vector<std::pair<Ns, size_t>> decided_early(const DecisionColumns& d);
    bool is_ahead(size_t row) const { return std::find(ahead_.begin(), ahead_.end(), row) != ahead_.end(); }
    void write_rows(size_t slot, size_t n, size_t to);
    Verdict judge(Cpu c, size_t row, const DecisionColumns& d, const Wakeup& w) const;
    PanelAnswers::Doubt doubt(const Wakeup& w) const;
    Cpu ask_panel(Wakeup& w, const Probed& seen, size_t row, Cpu chosen, bool counts);
    bool placed_after_all(const DecisionColumns& d, size_t row);
    Inferred as_modelled(const Wakeup& w) const;
    void suppose(const Wakeup& w, const Inferred& now, const Inferred& then);
    void take_loads(Wakeup& w, LoadKind kind);
    Decision looked_at_the_end(Policy& policy, const Wakeup& w, Cpu chosen, const Decision& made);
    static void take_flips(Instance& in, const Wakeup& w, size_t which);
    uint32_t assumed(const Wakeup& w) const;
    /// Input bits that the probes gave a policy; `own`: with the private state of the recorded kernel.
    uint32_t recorded_inputs(const Probed& seen, const Wakeup& w, Cpu picked, bool own) const;

    /// A placement of which the recorded choice does not tell whether it ended early, or searched and set recent_used_cpu.
    struct ExitGuess {
        TaskId p;
        Cpu chosen, prev;
        PolicyState::Task before;
        bool was_idle;  ///< `chosen`, after it
        bool cleared;  ///< has_idle_cores of its LLC was, as if a search had failed
    };
    void started(TaskId p, Cpu c, bool from_idle);
    /// `made`: its decision by what was recorded of this wakeup, too; `blind`: the one without.
    void follow(Policy& policy, const Wakeup& w, Cpu chosen, const Decision& blind, const Decision& made);
    bool looked_idle(const Wakeup& w) const;
    Ns settles(Cpu waker) const { return waker.v < opt_.settle.size() ? opt_.settle[waker.v] : 0; }
    struct Otherwise {
        Branch branch{};
        PolicyState::Task p;  ///< private state of the wakee after it
        std::vector<uint8_t> hic;  ///< and has_idle_cores
    };
    std::optional<Otherwise> otherwise(Policy& policy, const Wakeup& w, Cpu chosen, Cpu made);

    Machine machine_;
    std::optional<Delays> delays_;  ///< with ReplayOptions::fair
    const Topology& topo_;
    const TaskTable& table_;
    ReplayOptions opt_;
    IdleLatency idle_latency_;
    std::vector<Instance> instances_;
    std::vector<size_t> asking_;  ///< the instances in the order in which they are asked; none of a panel
    struct IdleWatcher {
        Policy* policy;
        bool every;  ///< idle entries that leave the core busy, too
    };
    std::vector<IdleWatcher> idle_cores_;  ///< policies that keep has_idle_cores
    IrqTicks irq_;
    Histogram recorded_;
    std::vector<int64_t> watched_;  ///< events to explain, ascending
    std::vector<Explanation> explanations_;
    Reasons reasons_;
    size_t flushed_ = 0;  ///< rows of the part that are in the columns
    std::deque<size_t> ahead_;  ///< and these, further on, that were decided before their events; ascending
    int64_t first_row_ = 0;  ///< decision_id of the part's first row
    Divergence divergence_;
    std::optional<Panel> panel_;
    PanelAnswers answers_;
    EventOrder order_;
    std::vector<Ns> segment_;  ///< per CPU: when what runs there now leaves it, as recorded; kNoEnd: not known
    GroupSumCache sums_;  ///< of the decision at hand, for the load kind at hand
    LedgerBlock block_;  ///< rows not yet in the columns
    struct Judged {
        int64_t decision = -1;  ///< number of the decision that it belongs to
        uint32_t verdict = 0;  ///< its number in block_
    };
    std::vector<Judged> judged_;  ///< per CPU
    int64_t decision_ = 0;  ///< decisions so far
    std::vector<Ns> ends_;  ///< per switch row of the batch: end of the segment it starts
    void note_flips(Ns ts, int64_t decision);
    InputLog log_;
    KnownFlips certain_;  ///< with ReplayOptions::log_inputs
    std::vector<Flip> flips_;
    CpuMask was_avail_;
    std::optional<Budget> budget_;
    std::vector<Blame> blames_;
    SavedState state_;  ///< private state of the policy at hand just before it decides
    std::vector<ExitGuess> guesses_;  ///< until the wakee starts
    static constexpr size_t kNoRow = static_cast<size_t>(-1);
    std::vector<size_t> called_;  ///< per CPU: wakeup whose placement is not over; kNoRow: none
    std::vector<Cpu> calling_;  ///< these CPUs, ascending
    std::deque<std::pair<Ns, size_t>>
        due_;  ///< when those without probes are taken to be over; rows that are may remain
    std::vector<bool> flips_seen_;  ///< by task: its wakee_flips were probed
    std::vector<bool> strayed_;  ///< by task: it ran outside its mask, which is no longer in force
    Running running_;
    Topology* live_ = nullptr;
    Topology base_;  ///< what `live_` was
    std::vector<Shape> shapes_;
    size_t shape_ = 0;  ///< the next of them
    bool primed_ = false;
    Ns start_ = 0;
    static constexpr int kMaxQueue = 2;  ///< more tasks on a CPU leave the wait there unbounded (policies.md D1)
    std::array<Ns, kMaxQueue + 1> slice_{};  ///< by nr, the tasks ahead: one fair slice with one task more
};

}  // namespace rewake
