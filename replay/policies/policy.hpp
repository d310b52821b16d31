// SPDX-License-Identifier: GPL-2.0-or-later
// A policy is an ordered list of steps over the View and its own private state (policies.md A13).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "replay/model/view.hpp"
#include "replay/policies/irq_settings.hpp"

namespace rewake {

/// Which rule decided. The order is the code in the ledger; names in branch_name(). Codes only grow at the end.
enum class Branch : uint8_t {
    recorded,
    prev,
    waker,
    random_idle,
    oracle_idle,  // reference policies
    x0,
    x1,
    x2,
    x3,
    x4,
    x5,
    x6,  // early exits of select-idle-sibling (A6)
    core,
    cpu,
    smt,
    scan,
    ring,
    linear,
    target,
    prev_aff,
    recent_aff,  // the scan (A7)
    slow,
    nosearch,
    pinned,
    fallback,  // A8, A4, A2
    wide,      // the wide search that seed 5 proposes (B5)
    count_
};
std::string_view branch_name(Branch b);

/// Bits of inputs_assumed (forms/tables.py INPUTS), as the set of inputs that a decision looked at.
enum Input : uint32_t {
    kSync = 1u << 0,
    kAllowed = 1u << 1,
    kLoad = 1u << 2,
    kUtil = 1u << 3,
    kFlips = 1u << 4,
    kRecent = 1u << 5,
    kHasIdleCores = 1u << 6,
    kNrIdleScan = 1u << 7,
    kCfsNr = 1u << 8,
    kHotClock = 1u << 9,
    kIdlePolicy = 1u << 10,
    kNr = 1u << 11,
    kCapacity = 1u << 12,
    kDomains = 1u << 13,
    kIrqLoad = 1u << 14,
    kIdleState = 1u << 15,
};

class Reasons;

/// Task-indexed and LLC-indexed state that a policy owns (State ownership, A13). Vectors grow on demand.
struct PolicyState {
    struct Task {
        uint32_t flips = 0;
        TaskId last_wakee{};
        bool has_last_wakee = false;
        bool has_recent = false;
        Cpu recent{};
        uint64_t decay_ts = 0;  ///< jiffies
    };
    /// Whom a task woke last and who woke it, and how often in a row since (seed 2).
    struct Buddy {
        static constexpr TaskId kNobody{0xffffffff};
        TaskId waker = kNobody, wakee = kNobody;
        uint32_t waker_ref = 0, wakee_ref = 0;
    };
    uint32_t first_flips = 0;        ///< flips of a task that was there before the recording began
    std::vector<Task> tasks;         ///< by TaskId
    std::vector<Buddy> buddies;      ///< by TaskId; empty for policies without buddies
    std::vector<uint8_t> hic;        ///< by dense Llc: has_idle_cores
    /// By CPU that wakes, `clocks` of each (View::scan_clocks): avg_scan_cost of its LLC domain, ns.
    std::vector<int64_t> scan_cost;
    size_t clocks = 1;
    Task& task(TaskId t) {
        if (t.v >= tasks.size()) [[unlikely]]
            grow(t);
        return tasks[t.v];
    }
    /// Begins to fetch what task() will return.
    void fetch(TaskId t) const {
        if (t.v < tasks.size()) __builtin_prefetch(&tasks[t.v], 1);
    }
    [[gnu::noinline]] void grow(TaskId t) { tasks.resize(t.v + 1 + t.v / 2, Task{.flips = first_flips}); }
    Buddy& buddy(TaskId t) {
        if (t.v >= buddies.size()) buddies.resize(t.v + 1 + t.v / 2);
        return buddies[t.v];
    }
};

/// What one decision came to.
struct Decision {
    Cpu cpu{};        ///< after the core's validity check and fallback (A2)
    Cpu class_cpu{};  ///< what the fair class returned
    bool class_called = true;
    bool widened = false;  ///< no allowed CPU was online
    bool undecided = false;  ///< the policy has no answer (plugins only); the rest means nothing then
    Branch branch = Branch::target;
    uint16_t scanned = 0;  ///< CPUs examined by the idle search
    uint32_t looked = 0;   ///< Input bits that the decision looked at
    bool exposed = false;  ///< looked at a CPU in `dirty`
    /// With kNrIdleScan in `looked`: every nr_idle_scan from which it would have come to the same, as far as is known.
    int32_t same_from = 1, same_to = 0;
    uint32_t same_clocks = ~0u;  ///< View::scan_clocks with which it would have come to the same

    /// Whether it asked for what the wakee loads its queue with (task_h_load). Of a new task there is nothing that a search
    /// could take off a CPU (cpu_load_without(), 5.4 and later).
    bool asked_load_of_wakee(Kind kind) const { return kind != Kind::fork && (looked & kLoad) != 0; }
};

/// One policy instance: parameters fixed, private state inside. Not thread-safe; one instance per replay.
class Policy {
  public:
    virtual ~Policy() = default;
    /// Decides `w` against `v` and updates the private state. `dirty`: CPUs that this policy's own earlier picks
    /// changed (for Decision::exposed), or nullptr. `recorded` is the recorded choice (only the `recorded` policy may
    /// look at it).
    virtual Decision decide(const View& v, const Wakeup& w, const CpuMask* dirty, Cpu recorded) = 0;
    /// A CPU entered idle; `core_idle`: all *other* siblings are AVAIL at that moment (set side of has_idle_cores, A7).
    virtual void cpu_idle(const View&, Cpu, bool /*core_idle*/) {}
    /// Whether cpu_idle() does anything.
    virtual bool keeps_idle_cores() const { return false; }
    /// Whether cpu_idle() is also called where the core stays busy.
    virtual bool sees_every_idle() const { return false; }
    /// Whether wakeups on an energy-aware machine go by energy, which no policy here decides (policies.md A9).
    virtual bool energy_aware() const { return false; }
    /// Flips that make wake_wide() for this waker, where that test is all that flips matter to and PolicyState is all that
    /// is private; else nothing.
    virtual std::optional<int> wide_factor(Cpu /*waker*/) const { return std::nullopt; }
    /// Whether decisions leave something behind in memory(). Then remember() does that alone.
    virtual bool remembers() const { return false; }
    /// decide(), for what it leaves there: with other inferred values than those of the answer, after that was given and
    /// memory() was put back.
    virtual Decision remember(const View& v, const Wakeup& w) { return decide(v, w, nullptr, w.prev); }
    /// Whether it may look at what load tracking tells: loads, utilisation, nr_idle_scan.
    virtual bool reads_averages() const { return true; }
    /// What it reads in View::load, Wakeup::p_load and Wakeup::curr_load.
    virtual LoadKind load_kind() const { return LoadKind::average; }
    /// How View::irq is to be estimated for it; nullptr: it does not read it.
    virtual const IrqSettings* irq_settings() const { return nullptr; }
    /// Whether the balancer leaves a task with that Wakeup::hint in its LLC while that has no more tasks than CPUs (B5).
    virtual bool keeps_in_llc(uint8_t /*hint*/) const { return false; }
    /// `child` was forked by `parent` on `cpu` (state that fork copies or resets: A3, A6).
    virtual void fork(TaskId /*parent*/, TaskId /*child*/, Cpu /*cpu*/) {}
    /// The recorded kernel's own column learns what its kernel did of `w`, so that its state is that kernel's and not that of
    /// its own misses. `before`: recent_used_cpu and has_idle_cores as of the decision. `made`: its own decision.
    /// Whether placement ended before it set recent_used_cpu may be a guess: true.
    virtual bool follow(const View&, const Wakeup&, Cpu /*recorded*/, const Decision& /*made*/,
                        const PolicyState::Task& /*before*/, const std::vector<uint8_t>& /*hic*/) {
        return false;
    }
    /// Before the first decision: wakee_flips of the tasks that were there before the recording began.
    /// The private state that decides: that of the base where a policy asks another one's steps.
    virtual PolicyState& memory() { return state; }
    PolicyState state;
    Reasons* reasons = nullptr;  ///< where decide() tells its reasons (steps/reasons.hpp); nullptr: nowhere
};

/// Static description for `policies list | show`.
struct PolicyInfo {
    std::string name, summary;
    std::string author, date, posting;  ///< of a seed: who, when (ISO) and the posting's title
    std::string kernel;  ///< the release whose source was read; of a seed: of the column that it changes
    std::string oracle_column;  ///< "v6.1"; empty: no vectors
    bool reference = false;  ///< recorded, prev, waker, random-idle, oracle-idle
    struct Param {
        std::string name, value, meaning;
        bool constant = false;  ///< the kernel or the posting fixes it: another value is another policy
    };
    std::vector<Param> params;
    std::vector<std::string> steps;  ///< the composition, in order
    std::vector<std::string> quirks;  ///< what one would not expect of it, and what is kept
    std::vector<std::string> deviations;
    bool reads_irq = false;  ///< reads View::irq: replay has to follow the interrupts
    uint32_t inputs = 0;  ///< Input bits that its steps may look at
    std::string base;  ///< of a seed: the column that it changes; empty: not a seed
    bool hybrid = false;  ///< a seed on a column that is not its own: proven by nothing but its two halves
    uint8_t hints = 0;  ///< bits of Wakeup::hint that it acts on
};

using PolicyParams = std::map<std::string, std::string>;

/// All policies that exist, by name. One file per policy registers itself in registry.cpp's table.
std::span<const PolicyInfo> all_policies();
/// One of them, or SEED@COLUMN: the seed's change on another column. Throws std::invalid_argument (message for the user)
/// for an unknown name and for an idea that has no meaning on that column.
PolicyInfo policy_info(const std::string& name);
/// `name` as in policy_info. Throws std::invalid_argument (message for the user) for an unknown name, parameter or
/// value.
std::unique_ptr<Policy> make_policy(const std::string& name, const PolicyParams& params, const Topology& topo,
                                    uint64_t seed);

}  // namespace rewake
