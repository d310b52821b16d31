// SPDX-License-Identifier: GPL-2.0-or-later
// The queues of the fair class as a recording leads them: who competes where, with which vruntimes, lags and deadlines. No
// event tells these; they follow from the recorded kernel's rules (queues.hpp) and from what it did. Modelled.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "replay/model/events.hpp"
#include "replay/model/fair/tree.hpp"
#include "replay/model/fair/yielding.hpp"
#include "replay/model/machine.hpp"
#include "replay/model/tasks.hpp"

namespace rewake {

class FairRecord {
  public:
    /// How well the queues foretell what was recorded: whom the kernel takes when a task sleeps and several wait, and whether a
    /// wakeup onto a busy CPU takes it.
    struct Survey {
        int64_t picks = 0, picks_right = 0;
        int64_t preempts[2][2] = {};  ///< [modelled][recorded]
    };

    /// `machine` follows the same events. `yielders`: who yields, by TaskId (empty: nobody); nullopt: it is found out, task by
    /// task. `with_fifo`: a second set of queues, first come, first served, follows, too.
    FairRecord(const TaskTable& tasks, FairSettings settings, const Machine& machine,
               std::optional<std::vector<bool>> yielders, bool with_fifo = false);
    // Its queues may refer to it: listen().
    FairRecord(const FairRecord&) = delete;
    FairRecord& operator=(const FairRecord&) = delete;

    const FairTree& queues() const { return fair_; }
    FairTree& queues() { return fair_; }
    const std::optional<FairTree>& fifo() const { return fifo_; }
    const Survey& survey() const { return survey_; }
    const Yielding& yielding() const { return yielding_; }

    /// An event of `t` comes soon, and of what is on `c`.
    void expect(TaskId t) const { fair_.expect(t); }
    void expect(Cpu c) const {
        fair_.expect(c);
        __builtin_prefetch(&rivals_[c.v]);
    }
    /// Row `i` of the event's table, in event order.
    void follow(const Batch& b, Event e, size_t i);
    /// Somebody is sent to `c`.
    void sent(Cpu c, Ns ts) {
        if (sees_yields_) yielding_.sent(c, ts);
    }
    /// `p`, which fell asleep at `slept`, is off its queue at `ts`, whatever the queues say.
    void left(TaskId p, Ns slept, Ns ts);
    /// The wakeup of `p` was placed, on `chosen`.
    void placed(TaskId p, Cpu chosen, Ns ts);
    /// Groups that the recorded kernel throttled or let go on, as the machine has it.
    void limits(const Machine::LimitNews& news, Ns ts);
    /// Before the first event: FairQueues::begin_with().
    void begin_with(const std::vector<int64_t>& leads);

    /// From now on gone() is kept.
    void listen() { fair_.tell_gone(&gone_); }
    /// Tasks of which the dequeue was delayed and that have left their queue since forget_gone(), in order; and such entities
    /// of groups, which are no tasks.
    const std::vector<TaskId>& gone() const { return gone_; }
    void forget_gone() { gone_.clear(); }

    /// What nothing later names can be forgotten.
    bool done_with(TaskId t) const { return fair_.done_with(t) && (!fifo_ || fifo_->done_with(t)); }
    template <class F>
    void each_named(F f) const {
        fair_.each_named(f);
        if (fifo_) fifo_->each_named(f);
    }
    void forget(size_t page) {
        fair_.forget(page);
        if (fifo_) fifo_->forget(page);
    }

  private:
    /// The first wakeup onto a busy CPU since it last switched.
    struct Rival {
        TaskId curr{}, woken{};
        Ns ts = 0;
        int64_t behind = 0;
        bool expected = false;
        bool known = false;
    };
    /// The clock of a queue was read so long before sched_wakeup, and before the sched_switch from who sleeps or from another.
    static constexpr Ns kWoken = 700, kSlept = 700, kSwitched = 350;
    static constexpr Ns kPromptly = 100'000;  ///< a wakee that takes the CPU does so within that,
    static constexpr Ns kTakes = 8'000;  ///< and as a rule within this
    static constexpr Ns kAtOnce = 100'000;  ///< so soon a CPU that switched hardly ever picks again
    static constexpr int64_t kLeastOwed = 20'000;  ///< who went against that once; within kOften again, twice as much
    static constexpr Ns kOften = 1'000'000;
    struct Owed {
        int64_t lag = kLeastOwed;
        Ns at = -2 * kOften;
    };

    template <class F>
    void both(F f) {
        f(fair_);
        if (fifo_) f(*fifo_);
    }
    bool idle(TaskId t) const { return machine_.is_idle_task(t); }
    bool yields(TaskId t) const {
        return yielders_ ? t.v < yielders_->size() && (*yielders_)[t.v] : yielding_.yields(t);
    }
    void learn(Cpu c, TaskId next, bool preempted, Ns ts);
    void on_switch(const SwitchColumns& s, size_t i);
    void on_wakeup(const WakeupColumns& w, size_t i);
    void on_migrate(const MigrateColumns& m, size_t i);

    const TaskTable& table_;
    const Machine& machine_;
    FairTree fair_;
    std::optional<FairTree> fifo_;
    std::vector<Rival> rivals_;  ///< by CPU
    /// CPUs on which what runs was woken: it was about to sleep, so it calls schedule() by itself, as one that can run.
    CpuMask woken_running_;
    std::optional<std::vector<bool>> yielders_;
    bool sees_yields_;
    Ns takes_;  ///< a later switch to a wakee tells nothing
    Yielding yielding_;
    Survey survey_;
    std::vector<TaskId> gone_;
    std::vector<Owed> owed_;  ///< by TaskId: as left() found
};

}  // namespace rewake
