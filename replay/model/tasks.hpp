// SPDX-License-Identifier: GPL-2.0-or-later
// What is known of each task beside the events: the snapshot's and the import's task tables.
#pragma once

#include <cstdint>
#include <vector>

#include "replay/model/groups.hpp"
#include "replay/model/ids.hpp"
#include "replay/model/mask.hpp"

namespace rewake {

/// Load weight of a fair task from its kernel priority (100..139); 1024 at nice 0. Others weigh as nice 0, and one of policy
/// SCHED_IDLE 3, whatever its priority (WEIGHT_IDLEPRIO, 2.6.30 to 7.2).
/// Source: the kernel's nice-to-weight table (policies.md C1, factor of about 1.25 per step).
inline constexpr int32_t kIdleWeight = 3;  ///< no nice value has it
int32_t weight_of(int prio, bool idle_policy);

/// Scheduling class by kernel priority (policies.md C1): below 0 deadline, 0-99 RT (and stop), 100-139 fair.
inline bool prio_is_dl(int prio) { return prio < 0; }
inline bool prio_is_rt(int prio) { return prio >= 0 && prio < 100; }
inline bool prio_is_fair(int prio) { return prio >= 100; }

/// How a task of the fair class competes: SCHED_OTHER, SCHED_BATCH or SCHED_IDLE.
enum class FairPolicy : uint8_t { normal, batch, idle };

struct TaskInfo {
    bool kthread = false;
    bool observer = false;       ///< belongs to the collector
    bool stopper = false;        ///< migration/N
    FairPolicy policy = FairPolicy::normal;
    bool ext = false;            ///< SCHED_EXT
    bool allowed_recorded = false;  ///< allowed comes from the snapshot or an event (else inferred)
    bool policy_recorded = false;
    bool idle_policy() const { return policy == FairPolicy::idle; }
    uint32_t allowed = 0;        ///< index into TaskTable::masks
    uint32_t cgroup = 0;
    uint16_t group = 0;  ///< index into TaskTable::groups
    bool has_cgroup = false;
};

/// Which wakeups the target's CPU queues itself, from its wake list (ttwu_queue_wakelist()); the waker queues the others.
enum class WakeLists : uint8_t {
    none,  ///< TTWU_QUEUE is off
    other_llc,  ///< those into another LLC (until 5.19)
    idle_too,  ///< and those to an idle CPU (6.0)
};

/// Indexed by task id; ids beyond the table are tasks about which nothing is known.
struct TaskTable {
    struct Allowed {
        CpuMask mask;
        int n = 0;
    };
    std::vector<Allowed> masks;  ///< masks[0]: every online CPU
    std::vector<TaskInfo> tasks;
    /// sched_wakeup was recorded. Without it (`perf sched record`) a task counts as queued from its decision on.
    bool wakeups = true;
    /// Throttling takes the tasks themselves off their queue (6.18), not only their group: util_est lets go of them.
    bool throttles_tasks = false;
    WakeLists wake_lists = WakeLists::idle_too;
    /// Who is preempted by a wakeup of the fair class goes on until the next tick or the way out of the kernel
    /// (TIF_NEED_RESCHED_LAZY, 6.13 and later with preempt=lazy).
    bool preempts_lazily = false;
    /// util_est falls whether or not the task got the time that it wanted (until 6.7).
    bool estimates_ignore_waits = false;
    /// What a new task's utilisation is (post_init_entity_util_avg) goes by its weight with the 10 bits more that 64-bit
    /// kernels keep of it, without them in the load that divides it (4.8 - 6.9): nearly always the most that it may be.
    bool forks_weigh_full = false;
    /// Who leaves an idle CPU decays by all of the time that its averages have not counted yet (migrate_se_pelt_lag, 6.0);
    /// before, it took along what it had when they were last updated.
    bool leavers_decay = true;
    /// Where a task leaves a run queue the sums behind its averages become what these show, which is as of the last period:
    /// what decayed since is undone (5.14 to 5.16, and stable 5.10; later they are only kept from what these cannot come
    /// from).
    bool sums_follow = false;
    GroupRules group_rules;
    std::vector<TaskGroup> groups;  ///< empty: there is only the root group

    /// The nearest group at or above `group` with a limit; 0: none.
    uint16_t limited(uint16_t group) const {
        while (group != 0 && groups[group].period == 0) group = groups[group].parent;
        return group;
    }
    /// Load weight of a fair task that has that priority.
    int32_t weight(TaskId t, int prio) const { return weight_of(prio, info(t).idle_policy()); }
    /// Whether it counts as of SCHED_IDLE on its CPU: it or a group of its is (idle_h_nr_running).
    bool counts_idle(TaskId t) const {
        const TaskInfo& x = info(t);
        bool idle = x.idle_policy();
        for (uint16_t g = x.group; g != 0 && !idle; g = groups[g].parent) idle = groups[g].idle;
        return idle;
    }
    const TaskInfo& info(TaskId t) const { return t.v < tasks.size() ? tasks[t.v] : unknown_; }
    const Allowed& allowed(TaskId t) const { return masks[info(t).allowed]; }

  private:
    TaskInfo unknown_;
};

}  // namespace rewake
