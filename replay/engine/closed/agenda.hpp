// SPDX-License-Identifier: GPL-2.0-or-later
// What will happen in a simulated window, in order. Most of it (interrupts, reservations, recorded moves) is known before
// the window begins: that is sorted once for all arms, and only what the window itself brings about goes through a heap,
// which so stays as small as the machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace rewake::closed {

/// `Event` has a key(), a number that orders events; no two have the same.
template <class Event>
class Agenda {
  public:
    /// `planned`: what is known beforehand, in order; stays where it is.
    explicit Agenda(const std::vector<Event>& planned) : planned_(planned) {}
    void push(const Event& e) {
        size_t hole = later_.size();
        later_.push_back(e);
        for (const auto key = e.key(); hole > 0;) {
            const size_t parent = (hole - 1) / kWays;
            if (later_[parent].key() < key) break;
            later_[hole] = later_[parent];
            hole = parent;
        }
        later_[hole] = e;
    }
    bool empty() const { return next_ == planned_.size() && later_.empty(); }
    /// Not of an empty one.
    const Event& top() const { return from_plan() ? planned_[next_] : later_.front(); }
    void pop() {
        if (from_plan())
            ++next_;
        else
            pop_later();
    }

  private:
    static constexpr size_t kWays = 4;  ///< children of a node: half the levels of a binary heap, and they share a line or two
    bool from_plan() const {
        return next_ < planned_.size() && (later_.empty() || planned_[next_].key() < later_.front().key());
    }
    void pop_later() {
        const Event last = later_.back();
        const auto key = last.key();
        later_.pop_back();
        const size_t n = later_.size();
        if (n == 0) return;
        size_t hole = 0;
        for (size_t first; (first = hole * kWays + 1) < n;) {
            size_t least = first;
            auto its = later_[first].key();
            for (size_t i = first + 1, end = std::min(first + kWays, n); i < end; ++i) {
                const auto other = later_[i].key();
                least = other < its ? i : least;
                its = other < its ? other : its;
            }
            if (key < its) break;
            later_[hole] = later_[least];
            hole = least;
        }
        later_[hole] = last;
    }

    const std::vector<Event>& planned_;
    size_t next_ = 0;
    std::vector<Event> later_;  ///< a heap
};

}  // namespace rewake::closed
