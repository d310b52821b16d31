// SPDX-License-Identifier: GPL-2.0-or-later
// Group scheduling (CONFIG_FAIR_GROUP_SCHED, kernel/sched/fair.c of 6.1 - 7.2): each task group has a queue of its own on
// every CPU, and an entity that stands for that queue on the one above. What an entity weighs follows from the group's
// share and from where the group's load is (calc_group_shares), so loads of CPUs and tasks depend on it. Modelled from the
// same events as the root queues; a machine without groups has none of this.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/pelt.hpp"

namespace rewake {

/// A cgroup with a weight of its own. Number 0 is the root group; parents come before their children.
struct TaskGroup {
    uint16_t parent = 0;
    int64_t shares = 1024;  ///< cpu.weight, 1024 at the default of 100
    Ns quota = 0, period = 0;  ///< of its cpu.max; 0: it has none
    bool idle = false;  ///< cpu.idle (5.15+): it competes as a task of SCHED_IDLE does, and its tasks count as such
};

/// What kernels do differently; the defaults are those of 6.12 and later.
struct GroupRules {
    bool weigh_empty = false;  ///< until 6.11 a group whose last task sleeps is weighed by what it still averages
    Ns tell_every = 1'000'000;  ///< a queue tells its group of its load at most this often; until 6.6 nothing holds it
};

class GroupQueues {
  public:
    /// The run queue of the root group on a CPU, brought up to date by its owner before every call below.
    struct Root {
        QueuePelt& pelt;
        int64_t& weight;  ///< sum of the weights of the queued entities
        int32_t& entities;  ///< their number
    };
    /// Where and when: the CPU, its root queue, its PELT clock and the time.
    struct At {
        Cpu cpu;
        Root root;
        Ns clock, now;
    };

    GroupQueues(const std::vector<TaskGroup>& groups, int n_cpus, GroupRules rules = {});
    /// Whether there are any groups; without, nothing else is to be called.
    bool any() const { return groups_.size() > 1; }

    /// Averages of group `g` on a CPU, as of its last update.
    /// When some PELT period ends; not of groups that quotas hold back, whose clocks have stood still. Before any event.
    void set_edge(Ns edge) {
        for (size_t i = 0; i < cells_.size(); ++i)
            if (!limited(static_cast<uint16_t>(i / n_cpus_))) cells_[i].pelt.edge = cells_[i].edge = edge;
    }
    QueuePelt& queue(uint16_t g, Cpu c) { return cell(g, c).pelt; }
    const QueuePelt& queue(uint16_t g, Cpu c) const { return cell(g, c).pelt; }
    /// The PELT clock of a group: it stands still while the group is throttled there.
    Ns clock(uint16_t g, Cpu c, Ns root_clock) const {
        const Cell& x = cell(g, c);
        return (x.stops > 0 ? x.stopped_at : root_clock) - x.stopped_for;
    }

    /// The same on an idle CPU as of now, for a task that leaves it: what the group stood still since its queue there was
    /// last empty passes all the same (migrate_se_pelt_lag, 6.0+).
    Ns idle_clock(uint16_t g, Cpu c, Ns root_clock) const {
        const Cell& x = cell(g, c);
        return x.emptied_stopped ? x.pelt.at : root_clock - x.emptied;
    }
    /// The last task of `g` there sleeps or goes elsewhere.
    void emptied(uint16_t g, Cpu c) {
        Cell& x = cell(g, c);
        if (x.entities > 0) return;
        x.emptied_stopped = x.stops > 0;
        x.emptied = x.stopped_for;
    }

    /// Brings the queues of `g` and above up to date; `reweigh`: their entities get the weight that is due to them now.
    void update(uint16_t g, const At& at, bool reweigh);
    /// A tick of a busy CPU: the same for the group of the running task.
    void tick(const At& at);
    /// Before the first event, `at` of all CPUs: the entities get the weights that the attached tasks would have left them.
    void begin(const std::vector<At>& at);
    /// All groups there: what the balancer does.
    void update_all(const At& at);
    /// A task of weight `weight` that is attached there queues in `g`, or leaves that queue.
    void enqueue(uint16_t g, const At& at, int64_t weight);
    /// `taken`: averages of a task that moves to another CPU while it is queued.
    void dequeue(uint16_t g, const At& at, int64_t weight, const Pelt* taken = nullptr);
    /// A task brings its averages along, or takes them away at the next update of the queue.
    void attach(uint16_t g, const At& at, const Pelt& p, int64_t weight);
    /// A running task leaves the queue of `g` and joins it again (sched_move_task): the group is told of what is left without
    /// it, and mostly not within a millisecond of what it brings back. Nothing but its visible averages remains.
    void rejoin(uint16_t g, const At& at, int64_t weight, Pelt& p);
    void detach_later(uint16_t g, Cpu c, const Pelt& p) {
        wake(g, c);
        queue(g, c).detach_later(p);
    }
    /// The CPU runs a task of `g` from now on; 0: none, or one of the root group.
    void run(uint16_t g, const At& at);

    /// The clock of `g` and of the groups below it stops there, or goes on.
    void stop(uint16_t g, Cpu c, Ns root_clock);
    /// `forget`: as if it had not stopped.
    void start(uint16_t g, Cpu c, Ns root_clock, bool forget);
    bool stopped(uint16_t g, Cpu c) const { return cell(g, c).stops > 0; }
    /// Whether a task of `g` or below waits or runs there.
    bool queued(uint16_t g, Cpu c) const { return cell(g, c).tasks > 0; }
    /// The nearest group at or above `g` that has a limit; 0: none.
    uint16_t limited(uint16_t g) const {
        while (g != 0 && groups_[g].period == 0) g = groups_[g].parent;
        return g;
    }
    const TaskGroup& operator[](uint16_t g) const { return groups_[g]; }
    /// What the entity of `g` weighs there.
    int64_t share(uint16_t g, Cpu c) const { return cell(g, c).share; }
    /// From now on no group counts as limited: somebody else says when one is throttled.
    void forget_limits() {
        for (TaskGroup& g : groups_) g.quota = g.period = 0;
    }
    /// Whether `g` is `above` or a group below it.
    bool within(uint16_t g, uint16_t above) const {
        while (g > above) g = groups_[g].parent;
        return g == above;
    }

    /// h_load of policies.md A5 (task_h_load): what the load of `g` there counts on the root queue. `root`: that of the root
    /// queue. Within a jiffy it stays what asked() took.
    int64_t h_load(uint16_t g, Cpu c, Ns jiffy, int64_t root, int64_t root_load_avg) const;
    void asked(uint16_t g, Cpu c, Ns jiffy, int64_t root, int64_t root_load_avg);

  private:
    struct Cell {  // a group on a CPU
        QueuePelt pelt;
        int64_t weight = 0;  // of the queued entities
        int32_t entities = 0;  // their number
        int32_t tasks = 0;  // queued in this group and below
        bool runs = false;
        // Its entity on the queue above.
        bool queued = false;
        int64_t share = 2;  // what it weighs
        double runnable = 0;  // share of the time that it was queued, as an average
        int64_t load_avg = 0;  // share * runnable, as of its last period
        double util = 0, tasks_waiting = 0;  // 1024 while the group runs, and for each of its tasks there
        int32_t util_avg = 0, runnable_avg = 0;  // the same, as of its last period
        Ns at = 0, edge = 0;  // on the clock of the queue above
        // What came and went since the entity last told the queue above.
        double arrived = 0;
        bool news = false;
        // Its part of the group's load on all CPUs.
        int64_t told = 0;
        bool decayed = false;  // its averages are of a later period than at the last update
        bool changed = false;  // tasks came with averages of theirs, or took them away
        Ns told_at = -1'000'000;
        int64_t h_load = 0;
        Ns h_load_jiffy = -1;
        int32_t stops = 0;  // limits that hold it
        Ns stopped_at = 0, stopped_for = 0;
        Ns emptied = 0;  // `stopped_for` when its queue was last empty and not stopped
        bool emptied_stopped = false;  // or it was
    };
    struct Above {  // the queue that an entity is on
        QueuePelt& pelt;
        int64_t& weight;
        int32_t& entities;
    };
    Cell& cell(uint16_t g, Cpu c) { return cells_[g * n_cpus_ + c.v]; }
    const Cell& cell(uint16_t g, Cpu c) const { return cells_[g * n_cpus_ + c.v]; }
    /// update_all() keeps the queue of `g` there up to date.
    void wake(uint16_t g, Cpu c) { leaves_[c.v * words_ + g / 64] |= uint64_t{1} << (g % 64); }
    bool rests(uint16_t g, const Cell& x) const;
    Above above(uint16_t g, const At& at);
    void accrue(uint16_t g, const At& at);
    void accrue_chain(uint16_t g, const At& at);
    /// The averages of a task leave an up-to-date queue at once.
    static void detach(Cell& x, const Pelt& p, int64_t weight);
    void tell(uint16_t g, Cell& x, Ns now);
    void settle(uint16_t g, const At& at, bool reweigh);
    void weigh(Cell& x, uint16_t g, Above up);
    void reweigh(Cell& x, uint16_t g, Above up);

    std::vector<TaskGroup> groups_;
    GroupRules rules_;
    size_t n_cpus_;
    std::vector<Cell> cells_;
    std::vector<int64_t> total_;  // per group: load on all CPUs, as told
    std::vector<uint16_t> running_;  // per CPU: group of the running task
    size_t words_ = 0;
    std::vector<uint64_t> leaves_;  // per CPU, a bit for each group: its queue there is not at rest
};

}  // namespace rewake
