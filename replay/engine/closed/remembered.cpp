// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/remembered.hpp"

#include <algorithm>
#include <utility>

#include "replay/policies/steps/wakee.hpp"

namespace rewake::closed {

Remembered::Remembered(size_t tasks, const FirstFlips& first, uint32_t hz, bool recent)
    : first_(first), hz_(hz), recent_(recent) {
    state_.tasks.resize(tasks, {.flips = first.flips});
}

void Remembered::begin(Ns ts, const std::vector<float>& rates) {
    const auto later = static_cast<uint64_t>(first_.halved_s * static_cast<float>(hz_));
    for (PolicyState::Task& t : state_.tasks) t.decay_ts = jiffies_at(ts, hz_) - hz_ - 1 + later;
    for (size_t i = 0; i < std::min(rates.size(), state_.tasks.size()); ++i)
        state_.tasks[i].flips += static_cast<uint32_t>(first_.grown_s * rates[i]);
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
