// SPDX-License-Identifier: GPL-2.0-or-later
// What will happen in a simulated window, in order. Most of it (interrupts, reservations, recorded moves) is known before
// the window begins: that is sorted once, and only what the window itself brings about goes through a heap, which so
// stays as small as the machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <vector>

namespace rewake::closed {

/// `Event` is ordered by `>`, a total order.
template <class Event>
class Agenda {
  public:
    void push(const Event& e) {
        if (begun_)
            later_.push(e);
        else
            planned_.push_back(e);
    }
    /// All that is known beforehand has been pushed.
    void begin() {
        std::sort(planned_.begin(), planned_.end(), [](const Event& a, const Event& b) { return b > a; });
        begun_ = true;
    }
    bool empty() const { return next_ == planned_.size() && later_.empty(); }
    /// Not of an empty one. After begin().
    const Event& top() const { return from_plan() ? planned_[next_] : later_.top(); }
    void pop() {
        if (from_plan())
            ++next_;
        else
            later_.pop();
    }

  private:
    bool from_plan() const { return next_ < planned_.size() && (later_.empty() || later_.top() > planned_[next_]); }

    std::vector<Event> planned_;
    size_t next_ = 0;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> later_;
    bool begun_ = false;
};

}  // namespace rewake::closed
