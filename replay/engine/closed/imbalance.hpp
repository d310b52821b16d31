// SPDX-License-Identifier: GPL-2.0-or-later
// From which groups of a domain a CPU may pull (find_busiest_group(), 6.1), and how much at once (calculate_imbalance()), by how
// many tasks run and wait in them.
#pragma once

#include <optional>

#include "replay/model/view.hpp"

namespace rewake::closed {

/// For pulls of `to` on one level, at one moment.
class Imbalance {
  public:
    /// `newidle`: it is about to go idle. `with_late`: who sleeps and has not left its run queue counts (6.12, 6.13).
    Imbalance(const View& v, const Domain& level, Cpu to, bool newidle, bool with_late = false)
        : view_(v), level_(level), to_(to), late_(with_late), newidle_(newidle), idle_(newidle || on(to) == 0) {}
    /// Tasks on the run queue of `c`, as far as they count.
    int on(Cpu c) const { return late_ ? view_.nr[c.v] : view_.runnable(c); }
    /// `from` is in its own group; or, where `to` is idle, in one that has at least two tasks more than its own, on a level that
    /// evens out their numbers, or else two idle CPUs less (`to` is none before it is idle). One without a CPU for another task
    /// takes only from one that has more tasks than CPUs, and more for each than its own. So does a busy CPU.
    bool may_pull(Cpu from);
    /// So many tasks: an idle CPU takes half of what `from` has, a busy one so many that neither gets beyond the mean of the level.
    int tasks(Cpu from) const;

  private:
    struct Sum {
        int cpus = 0, idle = 0, tasks = 0;
        bool overloaded() const { return tasks > cpus; }
    };
    Sum sum(const CpuMask& group) const;
    const CpuMask* group(Cpu c) const;
    bool busier(const Sum& there) const;
    const View& view_;
    const Domain& level_;
    Cpu to_;
    bool late_, newidle_, idle_;
    const CpuMask* own_ = nullptr;
    std::optional<Sum> here_;
    CpuMask yes_, no_;  ///< of groups that were asked about
};

}  // namespace rewake::closed
