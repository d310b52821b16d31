// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/remembered.hpp"

#include <algorithm>
#include <utility>

#include "replay/policies/steps/wakee.hpp"

namespace rewake::closed {

namespace {
constexpr size_t kPage = Paged<PolicyState::Task>::kPage;
}

Remembered::Remembered(size_t tasks, const FlipHypothesis& first, uint32_t hz, bool recent)
    : first_(first), hz_(hz), recent_(recent), unborn_{.flips = first.all.flips} {
    state_.tasks.resize(tasks, unborn_);
}

void Remembered::begin(Ns ts, const std::vector<float>& rates) {
    const uint64_t now = jiffies_at(ts, hz_);
    for (size_t i = 0; i < state_.tasks.size(); ++i) {
        const TaskId t(static_cast<uint32_t>(i));
        const FirstFlips& first = first_.of(t);
        const float rate = i < rates.size() ? rates[i] : 0;
        state_.tasks[i].decay_ts = first.decayed(now, hz_);
        state_.tasks[i].flips = first.at_start(rate);
        if (rate > 0 || &first != &first_.all) touch(t);
    }
    unborn_ = {.flips = first_.all.at_start(0), .decay_ts = first_.all.decayed(now, hz_)};
}

void Remembered::decided(const Opening& o, Ns ts, bool busy) {
    if ((o.cls != DecisionClass::moved && o.cls != DecisionClass::stayed) || !o.waker_known) return;
    touch(o.curr), touch(o.p);
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
    touch(child);
}

Paged<PolicyState::Task> Remembered::tasks() const {
    Paged<PolicyState::Task> out(state_.tasks.size(), unborn_);
    for (size_t k = 0; k < there_.size(); ++k)
        for (size_t i = k * kPage; there_[k] && i < std::min((k + 1) * kPage, out.size()); ++i)
            out[i] = state_.tasks[i];
    return out;
}

void Remembered::touch(TaskId t) {
    if (t.v / kPage >= there_.size()) there_.resize(t.v / kPage + 1);
    there_[t.v / kPage] = true;
}

void remember(PolicyState& own, const Paged<PolicyState::Task>& tasks) {
    for (uint32_t i = 0; i < tasks.size(); ++i) {
        PolicyState::Task& t = own.task(TaskId(i));
        const PolicyState::Task before = std::exchange(t, tasks[i]);
        if (!t.has_recent) t.has_recent = before.has_recent, t.recent = before.recent;
    }
}

}  // namespace rewake::closed
