// SPDX-License-Identifier: GPL-2.0-or-later
// From which group of a domain a CPU takes tasks, and how much (find_busiest_group() and calculate_imbalance() of 6.1, as far as
// they hang on how many tasks run and wait in the groups, on what these load their CPUs with, and how much of them they use).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>

#include "replay/model/fair/queues.hpp"
#include "replay/model/machine.hpp"
#include "replay/model/view.hpp"

namespace rewake::closed {

/// What a CPU has to do that looks for tasks: something, nothing, or nothing any more.
enum class Has : uint8_t { tasks, none, none_now };

/// What to take.
struct Surplus {
    enum class Of : uint8_t { tasks, load, util };
    const CpuMask* group = nullptr;  ///< from whom
    Of of = Of::tasks;
    int64_t amount = 0;  ///< tasks, or load or utilisation of those that are taken
};

/// By more than a twentieth (capacity_greater()).
inline bool greater(int64_t capacity, int64_t than) { return capacity * 1024 > than * 1078; }

/// Seen by `to` on one level, at one moment.
class Imbalance {
  public:
    Imbalance(const View& v, const Domain& level, Cpu to, Has has, const FairSettings& rules,
              std::function<Machine::Used(Cpu)> used)
        : view_(v), level_(level), to_(to), has_(has), rules_(rules), used_(std::move(used)) {}
    /// Fair tasks on the run queue of `c`, those that sleep and have not left it where balancing moves these (h_nr_running;
    /// h_nr_runnable of 6.14+).
    int on(Cpu c) const { return view_.fair[c.v] + (rules_.moves_late ? view_.delayed[c.v] : 0); }
    /// Of the group that has most. A group without a CPU for another task takes load from one with more tasks than CPUs, if that
    /// is more loaded by imbalance_pct, until one of them is as loaded as the mean. One with such a CPU takes half of what it has
    /// tasks less where the level evens out their numbers, or idle CPUs more where it does not, and in both cases two; of one
    /// with more tasks than CPUs and another LLC as much utilisation as it has room for. Nothing: the groups are even.
    std::optional<Surplus> find() const;
    /// From now on what `c` has does not count (lb_env::cpus).
    void leave_out(Cpu c) { left_out_.set(c), leaves_out_ = true; }
    bool left_out(Cpu c) const { return leaves_out_ && left_out_.test(c); }

  private:
    enum class Kind : uint8_t { has_room, full, shares_core, overloaded };
    struct Sum {
        int cpus = 0, idle = 0;
        int tasks = 0;  ///< on the run queues, of all classes, whoever sleeps there included (sum_nr_running),
        int movable = 0;  ///< and as on() counts them (sum_h_nr_running)
        Kind kind = Kind::has_room;
    };
    struct Load {
        int64_t load = 0, capacity = 0;
        int64_t mean() const { return load * 1024 / std::max<int64_t>(1, capacity); }
    };
    Sum sum(const CpuMask& group) const;
    Kind kind(const CpuMask& group, const Sum& s) const;
    Load load(const CpuMask& group) const;
    bool slower(const CpuMask& group) const;
    bool is_core(const CpuMask& group) const;
    bool busier(const Sum& s, const CpuMask& than, const Sum& most) const;
    int cores(const CpuMask& group) const;
    int more(const Sum& here, const CpuMask& own, const Sum& most, const CpuMask& from) const;
    std::optional<Surplus> fill(const Sum& here, const CpuMask& own, const Sum& most, const CpuMask& from) const;
    std::optional<Surplus> part(const Sum& here, const CpuMask& own, const Sum& most, const CpuMask& from) const;
    std::optional<Surplus> share(const Sum& here, const CpuMask& own, const CpuMask& from) const;
    const View& view_;
    const Domain& level_;
    Cpu to_;
    Has has_;
    const FairSettings& rules_;
    std::function<Machine::Used(Cpu)> used_;
    bool leaves_out_ = false;
    CpuMask left_out_;
};

}  // namespace rewake::closed
