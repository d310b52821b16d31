// SPDX-License-Identifier: GPL-2.0-or-later
// What a wakeup costs, as recorded: samples drawn by where the wakee goes and from where it is woken (policies.md D2.4, D2.7).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "replay/model/ids.hpp"
#include "replay/model/topology.hpp"

namespace rewake::closed {

/// Where the wakee goes, seen from the waker.
enum class Relation : uint8_t { same_cpu, same_llc, cross_llc };
/// How it gets there.
enum class Path : uint8_t {
    idle,  ///< onto an idle CPU: `queue` until it is on the run queue, `run` from there until it runs
    busy,  ///< onto a busy one: `queue`
    preempt,  ///< and it takes the CPU from what runs there: `run`
    fork,  ///< as idle, of a new task
    on_cpu,  ///< as idle, of a task that had not quite left the CPU that it goes back to
    in_call,  ///< as preempt, from what was waking somebody itself: `run` from when it had queued that wakee
};
inline constexpr size_t kPaths = 6, kRelations = 3, kContexts = 2, kTargets = 32;

/// Bit of a target: placement was not asked (or may not have been).
constexpr uint8_t kBypassed = 1 << 4;

/// What the target is to the wakee: `state` the cpuidle state of an idle CPU plus one, at most 3 (0: not known), where the wakee
/// has not quite left it 1 if it was woken before its switch-out, plus 1 if the CPU runs another; slower than three quarters of
/// the biggest; another CPU than the previous one; kBypassed.
constexpr uint8_t target_of(uint32_t state, int capacity, bool moves, bool bypassed) {
    return static_cast<uint8_t>((state < 3 ? state : 3) | (capacity < 768) << 2 | moves << 3 |
                                (bypassed ? kBypassed : 0));
}

constexpr bool bypasses(uint8_t target) { return (target & kBypassed) != 0; }
/// The same with placement asked where it was not, or not where it was.
constexpr uint8_t other_way(uint8_t target) { return target ^ kBypassed; }

struct Cost {
    Ns queue = 0, run = 0;
    Ns leave = 0;  ///< of `queue`, until the wakee had left its CPU
};

/// A recorded wakeup of which the costs are taken.
struct CostSample {
    Path path = Path::idle;
    Relation relation = Relation::same_cpu;
    bool in_task = true;
    uint8_t target = 0;  ///< see target_of()
    Cost cost;
};

class Costs {
  public:
    /// A group with fewer samples than `fewest` is joined with its like of other targets, contexts and relations.
    explicit Costs(const std::vector<CostSample>& samples, size_t fewest = 30);
    /// `draw` in [0, 1): which of the samples, in order of their size. Of a path without samples: see stand_in().
    Cost draw(Path path, Relation relation, bool in_task, uint8_t target, double draw) const {
        const Group g = group(path, relation, in_task, target);
        if (g.n == 0) [[unlikely]]
            return stand_in(path, relation, in_task, draw);
        return cost(samples_[at(g, draw)]);
    }
    /// Whether any sample is of that path.
    bool has(Path path) const { return group(path, Relation::same_cpu, true, 0).n > 0; }
    /// That draw comes soon.
    [[gnu::always_inline]] void expect(Path path, Relation relation, bool in_task, uint8_t target, double draw) const {
        const Group g = group(path, relation, in_task, target);
        if (g.n > 0) __builtin_prefetch(samples_.data() + at(g, draw));
    }

  private:
    /// A sample as it is kept: a draw is a look at any of them, which the cache should hold.
    struct Kept {
        uint32_t queue = 0, run = 0, leave = 0;
    };
    static constexpr uint32_t kLong = 0xffffffff;  ///< instead of `queue`: `run` is the number of one of `long_`
    struct Group {
        uint32_t first = 0, n = 0;
    };
    static size_t index(Path p, Relation r, bool in_task, uint8_t target) {
        return ((static_cast<size_t>(p) * kRelations + static_cast<size_t>(r)) * kContexts + in_task) * kTargets +
               target;
    }
    Kept keep(const Cost& c);
    /// What a path costs that was never recorded, by those that were: onto an idle CPU as onto a busy one, and as it takes to
    /// preempt there; onto a busy one, and to preempt, as onto an idle one.
    Cost stand_in(Path path, Relation relation, bool in_task, double draw) const;
    Cost cost(const Kept& s) const {
        if (s.queue == kLong) [[unlikely]]
            return long_[s.run];
        return {s.queue, s.run, s.leave};
    }
    Group group(Path path, Relation relation, bool in_task, uint8_t target) const {
        return of_[index(path, relation, in_task, std::min<uint8_t>(target, kTargets - 1))];
    }
    static size_t at(Group g, double draw) {
        return g.first + std::min(g.n - 1, static_cast<uint32_t>(draw * static_cast<double>(g.n)));
    }
    static constexpr size_t kNowhere = static_cast<size_t>(-1);
    std::vector<Kept> samples_;  ///< of each group in order of their size
    std::vector<Cost> long_;  ///< those of more than four seconds
    std::array<Group, kPaths * kRelations * kContexts * kTargets> of_{};
};

/// Uniform in [0, 1) from numbers that name what is drawn: the same for every policy, in whatever order they draw.
double uniform(uint64_t seed, uint64_t a, uint64_t b);

inline Relation relation_of(const Topology& topo, Cpu waker, Cpu chosen) {
    if (waker == chosen) return Relation::same_cpu;
    return topo.share_cache(waker, chosen) ? Relation::same_llc : Relation::cross_llc;
}

/// Penalty of running elsewhere, by distance (policies.md D2.7), ns at `factor` 1.
inline Ns move_cost(const Topology& topo, Cpu from, Cpu to, double factor) {
    if (topo.core[from.v] == topo.core[to.v]) return 0;
    const Ns base = topo.share_cache(from, to) ? 2'000 : topo.node[from.v] == topo.node[to.v] ? 20'000 : 50'000;
    return static_cast<Ns>(static_cast<double>(base) * factor);
}

}  // namespace rewake::closed
