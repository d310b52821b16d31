// SPDX-License-Identifier: GPL-2.0-or-later
// Closed loop: windows of a recording re-run with each policy in charge (policies.md D2). Events go through once, in parts; a
// window is simulated as soon as its scripts are complete, so memory holds the windows that are open.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

#include "replay/engine/closed/gone.hpp"
#include "replay/engine/closed/lockstep.hpp"
#include "replay/engine/closed/meeting.hpp"
#include "replay/engine/closed/pooling.hpp"
#include "replay/engine/closed/remembered.hpp"
#include "replay/engine/closed/simulation.hpp"
#include "replay/engine/closed/softirqs.hpp"
#include "replay/engine/irq_ticks.hpp"
#include "replay/engine/open_loop.hpp"
#include "replay/model/fair/delays.hpp"

namespace rewake::closed {

/// One window: simulated from `from`, counted in [measured, to), scripts cut until `horizon`.
struct WindowPlan {
    Ns from = 0, measured = 0, to = 0, horizon = 0;
    size_t costs = 0;  ///< which cost distributions it draws from
};

/// One policy in charge, or the recorded placement.
struct Arm {
    std::unique_ptr<Policy> policy;  ///< nullptr: pinned
    SimOptions options;
};

/// What only the recording can tell the simulation, over all events so far.
struct Survey {
    using Pulls = std::array<std::array<int64_t, kIdleClasses>, kPullLevels>;  ///< by level and class, as PullRate
    Pulls pulled{};  ///< new-idle migrations
    Pulls
        chances{};  ///< of CPUs that went idle: somebody waited whom they might have pulled, nobody had come from below
    std::vector<int64_t> idle_states;  ///< entries by cpuidle state
};

class ClosedLoop {
  public:
    struct Result {
        size_t arm = 0, window = 0;
        WindowResult result;
    };

    ClosedLoop(const Topology& topo, const TaskTable& tasks, std::vector<Arm> arms, std::vector<WindowPlan> windows,
               std::vector<std::shared_ptr<const Costs>> costs, Interrupts interrupts, FairSettings fair,
               ReplayOptions recorded, Running running, unsigned threads);
    /// Takes the next part of the recording.
    void run(const Batch& b, const DecisionColumns& d);
    /// From now on these are known, of all others none: those of the windows that are open and of the next part.
    void interrupted_by(Interrupts interrupts);
    /// The recording is over.
    void finish();
    /// Results so far, the first `most` of them, in order of the windows and then of the arms; forgets these.
    std::vector<Result> take(size_t most);
    /// Without arms only: there is nothing else to do then.
    const Survey& survey() const { return survey_; }
    std::vector<bool> servers() const { return serving_.servers(); }
    std::vector<Pace> readers() const { return reading_.readers(); }
    std::vector<uint32_t> meetings() const { return meeting_.groups(); }
    std::vector<uint32_t> pools() const { return pooling_.pools(); }
    std::vector<bool> yielders() const { return fair_.yielding().yielders(); }
    const FairRecord::Survey& fair_survey() const { return fair_.survey(); }
    std::vector<Awaited> awaited() const { return lockstep_.awaited(); }
    /// FairQueues::leads at this point, and what to begin with.
    std::vector<int64_t> leads() const { return fair_.queues().leads(); }
    const std::vector<int64_t>& last_seen() const { return last_seen_.events(); }
    /// `phases`: as limit_phases(); `last`: as last_seen(), of the whole recording.
    void begin_with(const std::vector<int64_t>& leads, std::vector<Ns> phases, const std::vector<int64_t>& last) {
        fair_.begin_with(leads);
        phases_ = std::move(phases);
        gone_ = {last, static_cast<size_t>(topo_.n_cpus)};
    }
    /// Before run(), without arms: see Pooling. Without it there are no pools.
    void processes(const std::vector<int64_t>& of) { pooling_.processes(of); }
    /// `changes`: in order of time. Without them every task keeps the mask of the snapshot.
    void change_masks(std::vector<MaskChange> changes) { masks_.begin_with(std::move(changes)); }
    /// By task group: when a period of its quota begins, as inferred from when its throttled tasks ran again; negative: not
    /// known, none was seen throttled.
    std::vector<Ns> limit_phases() const;
    /// Scripts of the windows so far; kept for tests only.
    void keep_scripts() { keeps_ = true; }
    const std::vector<Script>& scripts() const { return scripts_; }

  private:
    struct Open {
        size_t window;
        Machine at;
        FairTree queues;
        std::optional<FairTree> fifo;
        IrqTicks irq;
        Paged<PolicyState::Task> remembered;
        ScriptBuilder builder;
    };
    /// Those of all arms; nullptr: the recorded placement is forced, or there are none.
    const SimOptions* free() const {
        return arms_.empty() || arms_.front().options.pinned ? nullptr : &arms_.front().options;
    }
    /// A sleeper that is on its run queue still (6.12+) and was woken: until its sched_wakeup.
    struct Coming {
        TaskId p;
        int16_t prio;
        Cpu on;
    };
    /// The machine, and these on their way to their run queues, too: as a window begins with it.
    Machine as_it_is() const;
    /// What one arm is told of the tasks, as all are.
    const SimOptions& told() const;
    void forget(int64_t event);
    void reach(Ns ts);
    void sample(Ns ts);
    void simulate(Open& w);
    Opening opening(const DecisionColumns& d, size_t row, Ns ts) const;
    void follow_interrupts(const Batch& b, Event e, size_t i);
    void survey(const Batch& b, Event e, size_t i);
    bool may_pull(Cpu to, size_t level, Has has, Ns now);
    void look_at_ticks(Ns now);
    void survey_pull(Cpu to, size_t until, Ns now);

    const Topology& topo_;
    const TaskTable& table_;
    std::vector<Arm> arms_;
    std::vector<WindowPlan> plan_;
    std::vector<std::shared_ptr<const Costs>> costs_;
    Interrupts interrupts_;
    IrqTicks irq_;  ///< for policies that read the load of interrupts
    SoftirqContext softirqs_;
    Machine machine_;
    Delays delays_;
    FairRecord& fair_;  ///< its
    EventOrder order_;
    std::deque<std::unique_ptr<Open>> open_;
    size_t next_ = 0;
    static constexpr Ns kLongest = 1'000'000'000;  ///< without an event, for which ticks are looked at
    Ns tick_at_ = 0;  ///< the next one to look at
    std::vector<Chance> chances_;  ///< since the first open window began
    Ns reach_at_ = std::numeric_limits<Ns>::min();  ///< no window begins or ends before
    Ns sample_at_ = std::numeric_limits<Ns>::max();  ///< no open window wants a sample before
    int64_t queued_time_ = 0;  ///< of all tasks on the recorded machine's run queues until then, ns
    Ns queued_since_ = 0;
    std::deque<Result> results_;
    Survey survey_;
    Remembered remembered_;
    LastSeen last_seen_;  ///< without arms only
    Gone gone_;
    Serving serving_;  ///< as the next three
    Reading reading_;
    Meeting meeting_;
    Pooling pooling_;
    Lockstep lockstep_;  ///< without arms only
    std::vector<Coming> coming_;
    std::vector<Ns> since_;  ///< by CPU: its last switch; negative: not yet
    std::vector<Ns> phases_;
    MaskChanges masks_;
    std::vector<std::vector<Ns>> refills_;  ///< by group, as seen
    Running running_;
    bool primed_ = false;
    Ns migration_cost_;
    unsigned threads_;
    bool keeps_ = false;
    std::vector<Script> scripts_;
    int64_t first_row_ = 0;
};

}  // namespace rewake::closed
