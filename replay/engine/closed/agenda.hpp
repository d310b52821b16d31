// SPDX-License-Identifier: GPL-2.0-or-later
// What will happen in a simulated window, in order. Most of it (interrupts, reservations, recorded moves) is known before
// the window begins: that is sorted once for all arms. Of what the window itself brings about the next few lie sorted, as most
// of what is added comes soon, and what comes after them in a heap, which only large machines need.
#pragma once

#include <algorithm>
#include <array>
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
        if (n_ == kNear) [[unlikely]]
            put_half_off();
        const auto key = e.key();
        if (!far_.empty() && far_.front().key() < key) return put_off(e);
        size_t at = n_++;
        for (; at > 0 && near_[at - 1].key() < key; --at) near_[at] = near_[at - 1];
        near_[at] = e;
    }
    bool empty() const { return next_ == planned_.size() && n_ == 0 && far_.empty(); }
    /// Of what is known beforehand the k-th that is still to come; nullptr: there are not so many.
    const Event* ahead(size_t k) const { return k < planned_.size() - next_ ? planned_.data() + next_ + k : nullptr; }
    /// The next one, which is taken off. Not of an empty one.
    Event pop() {
        if (n_ == 0 && !far_.empty()) come_near();
        if (next_ < planned_.size() && (n_ == 0 || planned_[next_].key() < near_[n_ - 1].key()))
            return planned_[next_++];
        return near_[--n_];
    }

    /// Calls `f` with the first of those known beforehand, while `soon` is true of them.
    template <class Soon, class F>
    void each_planned(Soon soon, F f) const {
        for (size_t i = next_; i < planned_.size() && soon(planned_[i]); ++i) f(planned_[i]);
    }

  private:
    static constexpr size_t kNear = 64;
    static bool later(const Event& a, const Event& b) { return b.key() < a.key(); }
    void put_off(const Event& e) {
        far_.push_back(e);
        std::push_heap(far_.begin(), far_.end(), later);
    }
    [[gnu::noinline]] void put_half_off() {
        constexpr size_t kHalf = kNear / 2;
        for (size_t i = 0; i < kHalf; ++i) put_off(near_[i]);
        std::copy(near_.begin() + kHalf, near_.end(), near_.begin());
        n_ = kNear - kHalf;
    }
    [[gnu::noinline]] void come_near() {
        n_ = std::min(kNear / 2, far_.size());
        for (size_t at = n_; at > 0; --at) {
            std::pop_heap(far_.begin(), far_.end(), later);
            near_[at - 1] = far_.back();
            far_.pop_back();
        }
    }

    const std::vector<Event>& planned_;
    size_t next_ = 0;
    std::array<Event, kNear> near_;  ///< the first `n_` are there, the next one last; all before those of far_
    size_t n_ = 0;
    std::vector<Event> far_;  ///< a heap
};

}  // namespace rewake::closed
