// SPDX-License-Identifier: GPL-2.0-or-later
// Whom a CPU takes from another one, on one level of its domains and at one moment (load_balance() of 6.1): the group, the fullest
// queue there (find_busiest_queue()), and of those that wait in it who ran or came longest ago (detach_tasks()).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "replay/engine/closed/imbalance.hpp"
#include "replay/engine/closed/movable.hpp"

namespace rewake::closed {

/// The lowest level of the domains of `to` that has `from`: where it pulls from there. No value: none has.
std::optional<size_t> level_between(const Topology& topo, Cpu to, Cpu from);

/// Whether `c` balances for its group on that level (should_we_balance()); `cores`: CPUs of idle cores come first (6.6+).
bool balances_for_group(const Machine& m, Cpu c, const Domain& level, bool cores);

class Pulling {
  public:
    /// `failed`: times that `to` found nobody to take on that level, though the groups were uneven.
    Pulling(const FairTree& queues, const Machine& m, const Domain& level, Cpu to, Has has, int failed);
    /// Whether another group has tasks that `to` should have.
    bool uneven() const { return from_.has_value(); }
    /// f(task) of all that come, of those for which `may`(task) and which did not run a moment ago (task_hot()); passed(task) of
    /// those that were looked at and stay. A CPU with several tasks of which none may run on `to`, as goes(task) says, is left
    /// out, and the groups are looked at again (LBF_ALL_PINNED): that may end uneven(). uneven().
    template <class Goes, class May, class F, class Passed>
    void each(Ns now, Ns migration_cost, Goes goes, May may, F f, Passed passed) {
        while (uneven() && !from_fullest(now, migration_cost, goes, may, f, passed)) {
            groups_.leave_out(*from_);
            surplus_ = groups_.find();
            from_ = surplus_ ? fullest() : std::nullopt;
        }
    }

  private:
    static constexpr int kAtOnce = 32;  ///< sysctl_sched_nr_migrate
    /// Whether it has a task that may run on `to`, or has one task.
    template <class Goes, class May, class F, class Passed>
    bool from_fullest(Ns now, Ns migration_cost, Goes goes, May may, F f, Passed passed) {
        const bool any = failed_ > tries() || m_.topo().smt[to_.v].test(*from_);
        int looked = 0, left = m_.view().nr[from_->v];
        bool some = left <= 1;
        const int all = std::min(kAtOnce, left);
        movable_.any_on(*from_, [&](TaskId id) {
            if (left <= 1 && has_ != Has::tasks) return true;
            if (++looked > all) return true;
            some = some || (movable_.takes(id) && goes(id));
            const bool comes =
                movable_.takes(id) && (any || !queues_.hot(id, now, migration_cost)) && may(id) && fits(id);
            if (!comes) return passed(id), false;
            --left;
            f(id);
            return has_ == Has::none_now || surplus_->amount <= 0;
        });
        return some;
    }
    int tries() const { return level_.numa ? 2 : level_.share_core ? 0 : 1; }  ///< sched_domain::cache_nice_tries
    std::optional<Cpu> fullest() const;
    bool fits(TaskId id);
    const FairTree& queues_;
    const Machine& m_;
    const Domain& level_;
    Cpu to_;
    Has has_;
    int failed_;
    Movable movable_;
    Imbalance groups_;
    std::optional<Surplus> surplus_;
    std::optional<Cpu> from_;
};

}  // namespace rewake::closed
