// SPDX-License-Identifier: GPL-2.0-or-later
// What will happen in a simulated window, in order. Most of it (interrupts, reservations, recorded moves) is known before
// the window begins: that is sorted once for all arms. What the window itself brings about is as much as the machine is large.
// Where that is little it lies sorted, too, as most of what is added comes soon; on a large machine it is a heap.
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
    explicit Agenda(const std::vector<Event>& planned) : planned_(planned) { later_.reserve(kSorted); }
    /// `of`: what an Event is made of. They come in registers: an event in memory would be read before it has got there.
    template <class... Of>
    [[gnu::noinline]] void push(Of... of) {
        const Event e{of...};
        if (sorted_) {
            if (later_.size() < kSorted) return insert(e);
            std::ranges::reverse(later_);  // what is in order is a heap
            sorted_ = false;
        }
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
        if (next_ < planned_.size() &&
            (later_.empty() || planned_[next_].key() < (sorted_ ? later_.back() : later_.front()).key()))
            return planned_[next_++];
        if (!sorted_) {
            hole_ = true;
            return later_.front();
        }
        const Event e = later_.back();
        later_.pop_back();
        return e;
    }

    /// Calls `f` with the first of those known beforehand, while `soon` is true of them.
    template <class Soon, class F>
    void each_planned(Soon soon, F f) const {
        for (size_t i = next_; i < planned_.size() && soon(planned_[i]); ++i) f(planned_[i]);
    }

  private:
    static constexpr size_t kSorted = 64;  ///< so many are sorted sooner than sifted
    static constexpr size_t kWays = 4;  ///< children of a node: half the levels of a binary heap
    [[gnu::always_inline]] void insert(const Event& e) {
        size_t at = later_.size();
        later_.emplace_back();
        Event* const of = later_.data();
        const auto key = e.key();
        for (; at > 0 && of[at - 1].key() < key; --at) of[at] = of[at - 1];
        of[at] = e;
    }
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
    std::vector<Event> later_;  ///< the next one last, or a heap with the next one first
    bool sorted_ = true;  ///< it is not a heap yet
    bool hole_ = false;  ///< the first of the heap was taken off
};

}  // namespace rewake::closed
