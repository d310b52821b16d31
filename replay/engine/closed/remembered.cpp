// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/remembered.hpp"

#include <utility>

#include "replay/policies/steps/wakee.hpp"

namespace rewake::closed {

Remembered::Remembered(size_t tasks, const FirstFlips& first, uint32_t hz, bool recent)
    : first_(first), hz_(hz), recent_(recent) {
    state_.tasks.resize(tasks, {.flips = first.flips});
}

void Remembered::begin(Ns ts, const std::vector<float>& rates) {
    const uint64_t decayed = first_.decayed(jiffies_at(ts, hz_), hz_);
    for (size_t i = 0; i < state_.tasks.size(); ++i) {
        state_.tasks[i].decay_ts = decayed;
        state_.tasks[i].flips = first_.at_start(i < rates.size() ? rates[i] : 0);
    }
}

void Remembered::decided(const Opening& o, Ns ts, bool busy) {
    if ((o.cls != DecisionClass::moved && o.cls != DecisionClass::stayed) || !o.waker_known) return;
    if (o.kind == Kind::wake) record_wakee(state_, o.curr, o.p, jiffies_at(ts, hz_), hz_);
    const bool searched = busy || (o.chosen != o.prev && o.chosen != o.waker);
    if (!recent_ || !searched) return;
    PolicyState::Task& p = state_.task(o.p);
    p.has_recent = true;
    p.recent = o.prev;
}

void Remembered::fork(TaskId parent, TaskId child) {
    PolicyState::Task copy = state_.task(parent);  // flips, last wakee and decay stamp are inherited
    copy.has_recent = false;
    state_.task(child) = copy;
}

void remember(PolicyState& own, const std::vector<PolicyState::Task>& tasks) {
    for (uint32_t i = 0; i < tasks.size(); ++i) {
        PolicyState::Task& t = own.task(TaskId(i));
        const PolicyState::Task before = std::exchange(t, tasks[i]);
        if (!t.has_recent) t.has_recent = before.has_recent, t.recent = before.recent;
    }
}

}  // namespace rewake::closed
