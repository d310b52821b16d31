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
        if (hole_) {  // most of what is pushed comes soon: it stays near the top
            hole_ = false;
            return sink(e);
        }
        size_t at = later_.size();
        later_.push_back(e);
        while (at > 0) {
            const size_t parent = (at - 1) / kWays;
            if (later_[parent].key() < e.key()) break;
            later_[at] = later_[parent];
            at = parent;
        }
        later_[at] = e;
    }
    bool empty() const { return next_ == planned_.size() && later_.size() == size_t{hole_}; }
    /// Of what is known beforehand the k-th that is still to come; nullptr: there are not so many.
    const Event* ahead(size_t k) const { return k < planned_.size() - next_ ? planned_.data() + next_ + k : nullptr; }
    /// The next one, which is taken off. Not of an empty one.
    Event pop() {
        if (hole_) close();
        if (next_ < planned_.size() && (later_.empty() || planned_[next_].key() < later_.front().key()))
            return planned_[next_++];
        hole_ = true;
        return later_.front();
    }

    /// Calls `f` with the first of those known beforehand, while `soon` is true of them.
    template <class Soon, class F>
    void each_planned(Soon soon, F f) const {
        for (size_t i = next_; i < planned_.size() && soon(planned_[i]); ++i) f(planned_[i]);
    }

  private:
    static constexpr size_t kWays = 4;  ///< children of a node: half the levels of a binary heap
    void close() {
        hole_ = false;
        const Event last = later_.back();
        later_.pop_back();
        if (!later_.empty()) sink(last);
    }
    /// Puts `e` at the top, or below it.
    void sink(const Event& e) {
        Event* const of = later_.data();
        const size_t n = later_.size();
        const auto key = e.key();
        size_t at = 0;
        for (size_t first; (first = at * kWays + 1) < n;) {
            size_t least = first;
            auto its = of[first].key();
            for (size_t i = first + 1, end = std::min(first + kWays, n); i < end; ++i) {
                const auto other = of[i].key();
                least = other < its ? i : least;
                its = other < its ? other : its;
            }
            if (key < its) break;
            of[at] = of[least];
            at = least;
        }
        of[at] = e;
    }

    const std::vector<Event>& planned_;
    size_t next_ = 0;
    std::vector<Event> later_;  ///< a heap
    bool hole_ = false;  ///< its first was taken off
};

}  // namespace rewake::closed
