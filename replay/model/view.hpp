// SPDX-License-Identifier: GPL-2.0-or-later
// What every policy may look at when it decides: the recorded machine at the decision, and the decision's own inputs.
// Read-only for policies and shared by all of them; policy-private state lives in policies/policy.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/mask.hpp"
#include "replay/model/topology.hpp"

namespace rewake {

/// What only the fork and exec path reads (policies.md A8), per CPU.
struct SlowInputs {
    CpuMask pending;                    ///< a remote wakeup is pending
    std::vector<int64_t> blocked_load;  ///< cfs load_avg, blocked tasks included (4.12 - 5.4)
    std::vector<int32_t> util, util_est, runnable;
    std::vector<int32_t> exit_latency;  ///< of the cpuidle state; negative: not known
    std::vector<Ns> idle_stamp;
};

/// Hardirq load of each CPU as seed 3 estimates it (policies.md B3).
struct IrqLoad {
    std::vector<int32_t> intrload;  ///< per CPU, 0..93
    int32_t threshold = 1000;
};

/// CPUs that turn idle or busy while a placement looks at one after the other.
struct Turns {
    struct Turn {
        Cpu cpu{};
        Ns at = 0;  ///< as other CPUs see it
        bool idle = false;  ///< from then on
    };
    std::vector<Turn> since;  ///< of all that it looks at, in order of time
    Ns from = 0;  ///< when it looks at the first CPU,
    Ns step = 0;  ///< and so much later at each that its search examines
    bool any() const { return !since.empty(); }
    /// Whether `c`, which turned, was idle at that time.
    bool idle(Cpu c, Ns at) const {
        bool now = false, met = false;
        for (const Turn& t : since) {
            if (t.cpu != c) continue;
            if (t.at > at) return met ? now : !t.idle;
            now = t.idle, met = true;
        }
        return now;
    }
    /// From now on `c` is what the masks of the View say.
    void forget(Cpu c) {
        std::erase_if(since, [c](const Turn& t) { return t.cpu == c; });
    }
};

/// Model of the clock with which kernels measure an idle scan (SIS_PROP, policies.md C1): ns a scan and a CPU examined. So
/// much the emulated machines of docs/fidelity.md take, by probes on 5.4 and 5.10 (avg_scan_cost of 8 CPUs: 384 and 402).
struct ScanClock {
    Ns base = 200, per_cpu = 50;
};

/// The machine immediately before a decision, all earlier decisions applied (policies.md C3).
struct View {
    const Topology* topo = nullptr;
    Ns now = 0;

    CpuMask idle;   ///< IDLE: curr is the idle task, nr == 0, no pending remote wakeup
    CpuMask avail;  ///< AVAIL: idle and the vCPU is not preempted
    CpuMask sidle;  ///< SIDLE: nr > 0 and every queued task is of idle policy
    Turns turns;    ///< what of `idle` and `avail` was otherwise when the placement looked there; empty: nothing

    // Per CPU, length topo->n_cpus.
    std::vector<int32_t> nr;        ///< nr_running, all classes, curr included, idle task not
    std::vector<int32_t> fair;      ///< of those the fair tasks, whatever their groups, delayed dequeues left out
    std::vector<int32_t> cfs_nr;    ///< entities on the root cfs queue
    std::vector<int32_t> delayed;   ///< delayed-dequeue tasks counted in nr (6.12+)
    std::vector<int64_t> load;      ///< L(c) of policies.md A5 in the deciding policy's LoadKind, NICE_0 = 1024
    std::vector<int32_t> cap;       ///< capacity_of
    std::vector<int32_t> thermal;   ///< thermal/hw pressure
    std::vector<Ns> clock_task;     ///< rq clock_task as of the CPU's last scheduler event (the stale clock of B1)
    std::vector<int64_t> avg_idle;  ///< rq avg_idle, ns

    std::vector<ScanClock> scan_clocks{{}};  ///< not empty, at most 32
    uint8_t scan_clock = 0;  ///< which of them measures; what each would have made of all scans is kept

    /// Tasks that run or wait, delayed dequeues left out.
    int32_t runnable(Cpu c) const { return nr[c.v] - delayed[c.v]; }

    // Per dense LLC.
    std::vector<int32_t> nr_idle_scan;  ///< as the balancer last wrote it (SIS_UTIL)

    const SlowInputs* slow = nullptr;  ///< up to date for forks, execs and BALANCE_WAKE only
    const IrqLoad* irq = nullptr;      ///< nullptr: not known
    /// Whether interrupts take more of `c` than the threshold allows (seed 3).
    bool heavy(Cpu c) const { return irq->intrload[c.v] > irq->threshold; }
};

class GroupSumCache;

enum class Kind : uint8_t { wake, fork, exec };

/// What a kernel calls the load of a CPU, and of a task (policies.md A5).
enum class LoadKind : uint8_t {
    weight,    ///< sum of the queued weights (3.8)
    runnable,  ///< runnable_load_avg: averages of the queued tasks (4.5 - 5.4)
    average,   ///< load_avg: blocked tasks included (5.9+)
};

/// Inputs of one decision that belong to the wakee and the waker.
struct Wakeup {
    int64_t id = 0;  ///< decision_id
    Kind kind = Kind::wake;
    TaskId p{}, curr{};
    Cpu waker{}, prev{}, task_cpu{};
    // Where several policies are asked: what they work out once.
    std::optional<int> common{};  ///< Topology::common(waker, prev)
    GroupSumCache* sums = nullptr;
    const CpuMask* allowed = nullptr;  ///< cpus_ptr of p, in force
    int n_allowed = 0;
    bool sync = false;           ///< WF_SYNC as passed by the caller
    bool in_task = true;         ///< waker in task context (not in an interrupt)
    bool curr_is_idle = false;   ///< curr is the waker CPU's idle task
    bool curr_kthread = false;
    bool curr_one_cpu = false;   ///< curr has exactly one allowed CPU
    bool curr_exiting = false;
    bool migration_disabled = false;
    bool p_idle_policy = false;
    int64_t p_load_avg = 1024;  ///< load_avg of p, of which p_load is what counts in its group
    int64_t p_load = 1024, curr_load = 1024;  ///< w(p), w(curr)
    int32_t p_util = 0, p_util_est = 0;
    int32_t p_runnable = 0;
    int16_t numa_preferred = -1;  ///< preferred node of p; -1: none
    uint8_t hint = 0;             ///< bits that p got by prctl (seed 5)
    bool uclamp_used = false;
    int32_t uclamp_min = 0, uclamp_max = 1024;
    uint64_t jiffies = 0;
    uint32_t hz = 250;
    Ns p_exec_start = 0;           ///< task_hot input of B1
    int64_t migration_cost = 500000;  ///< ns; -1 and 0 are the kernel's special values
};

}  // namespace rewake
