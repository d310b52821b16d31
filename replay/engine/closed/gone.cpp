// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/gone.hpp"

namespace rewake::closed {

void LastSeen::hear(const uint32_t* task, const bool* null, const int64_t* id, size_t n) {
    for (size_t i = 0; i < n; ++i)
        if (!(null && null[i]) && task[i] < last_.size()) last_[task[i]] = std::max(last_[task[i]], id[i]);
}

void LastSeen::hear(const Batch& b, const DecisionColumns& d) {
    const auto all = [this](const HeadColumns& events, std::initializer_list<const uint32_t*> tasks) {
        for (const uint32_t* task : tasks) hear(task, nullptr, events.id, events.n);
    };
    all(b.sw, {b.sw.prev_task, b.sw.next_task});
    all(b.waking, {b.waking.curr_task, b.waking.task});
    all(b.wakeup, {b.wakeup.curr_task, b.wakeup.task});
    all(b.migrate, {b.migrate.curr_task, b.migrate.task});
    all(b.fork, {b.fork.task, b.fork.child});
    all(b.exec, {b.exec.task});
    all(b.exit, {b.exit.task});
    hear(d.task, nullptr, d.event_id, d.n);
    hear(d.waker_task, d.waker_task_null, d.event_id, d.n);
}

Gone::Gone(const std::vector<int64_t>& last, size_t n_cpus) {
    for (size_t first = (n_cpus + kPage - 1) / kPage * kPage; first < last.size(); first += kPage) {
        const auto end = last.begin() + static_cast<std::ptrdiff_t>(std::min(first + kPage, last.size()));
        pages_.emplace_back(*std::max_element(last.begin() + static_cast<std::ptrdiff_t>(first), end), first / kPage);
    }
    std::ranges::sort(pages_);
}

}  // namespace rewake::closed
