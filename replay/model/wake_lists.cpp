// SPDX-License-Identifier: GPL-2.0-or-later
// Tasks that are placed and not queued yet, and who sees them (ttwu_queue_wakelist, sched_ttwu_pending).
#include <algorithm>
#include <utility>

#include "replay/model/machine.hpp"

namespace rewake {

/// It is on its way to `c`.
void Machine::expect(TaskId id, Task& t, Cpu c, std::optional<Cpu> by) {
    const bool moves = std::exchange(t.cpu, c) != c;
    t.pending = true;
    if (by && !lists(*by, c)) return;
    const ListedAfter after = by && by->v < listing_.size() ? listing_[by->v] : ListedAfter{};
    const Ns ns = moves ? after.migrate : after.stay;
    if (ns == 0)
        list(t, c, now_);
    else if (!moves || !migrations_)  // else moved() will
        unlisted_.push_back({id, c, now_ + ns});
}

/// From `at` on the others see it in the wake list of `c`.
void Machine::list(Task& t, Cpu c, Ns at) {
    t.listed = true;
    cpus_[c.v].pending += 1;
    show_list(c, at);
    refresh(c);
}

/// `by` has recorded that it moves to its CPU: next it puts it on the wake list there.
void Machine::moved(TaskId id, Task& t, Cpu by, Ns ts) {
    if (!t.pending || by.v >= listing_.size() || !lists(by, t.cpu)) return;
    unlist(t);
    std::erase_if(unlisted_, [&](const Listing& x) { return x.p == id; });
    unlisted_.push_back({id, t.cpu, ts + listing_[by.v].migrate});
}

void Machine::list_due(Ns now) {
    const Ns seen = turn_at_;
    std::erase_if(unlisted_, [&](const Listing& x) {
        Task& t = tasks_[x.p.v];
        if (!t.pending || t.cpu != x.to || t.listed) return true;
        if (now < x.at) return false;
        turn_at_ = x.at;
        list(t, x.to, x.at);
        return true;
    });
    turn_at_ = seen;
}

void Machine::unlist(Task& t) {
    if (unlist_unseen(t)) refresh(t.cpu);
}

/// Where refresh() of its CPU follows; whether it has to.
bool Machine::unlist_unseen(Task& t) {
    if (!std::exchange(t.listed, false)) return false;
    cpus_[t.cpu.v].pending -= 1;
    return true;
}

void Machine::drop_pending(Task& t) {
    t.pending = false;
    unlist(t);
}

/// A task that `by` wakes goes to `c` by its wake list (ttwu_queue_cond); else `by` queues it there.
bool Machine::lists(Cpu by, Cpu c) const {
    if (table_.wake_lists == WakeLists::none) return false;
    return !topo_.share_cache(by, c) || (table_.wake_lists == WakeLists::idle_too && by != c);
}

void Machine::on_wake_list(Cpu c, Ns ts) {
    if (c.v < clearing_.size() && clearing_[c.v] > 0) cleared_.push_back({c, ts + clearing_[c.v]});
}

void Machine::look_at_cleared(Ns now) {
    const Ns seen = turn_at_;
    std::erase_if(cleared_, [&](const Clearing& x) {
        if (now < x.at) return false;
        turn_at_ = x.at;
        cpus_[x.c.v].hides = cpus_[x.c.v].pending > 0;
        refresh(x.c);
        return true;
    });
    turn_at_ = seen;
}

void Machine::seen_at(Ns ts) {
    turn_at_ = ts;
    if (!unlisted_.empty()) list_due(ts);
    if (!cleared_.empty()) look_at_cleared(ts);
}

/// Others may see it before what was noted earlier.
void Machine::note_turn(Cpu c, bool idle) {
    auto at = turns_.end();
    while (at != turns_.begin() && (at - 1)->at > turn_at_) --at;
    turns_.insert(at, {c, turn_at_, idle});
}

void Machine::look_from(Ns from, Ns step) {
    view_.turns.from = from, view_.turns.step = step;
    auto first = turns_.end();
    while (step > 0 && first != turns_.begin() && (first - 1)->at > from) --first;
    view_.turns.since.assign(first, turns_.end());
    constexpr std::ptrdiff_t kMost = 4096, kLate = 64;  // a placement may have begun before others that ended earlier
    if (std::ssize(turns_) > kMost) turns_.erase(turns_.begin(), std::min(first, turns_.end() - kLate));
}

/// Who is put on a list while it is being emptied is seen there, and the others with it.
void Machine::show_list(Cpu c, Ns at) {
    std::erase_if(cleared_, [&](const Clearing& x) { return x.c == c && x.at <= at; });
    cpus_[c.v].hides = false;
}

}  // namespace rewake
