// SPDX-License-Identifier: GPL-2.0-or-later
// The tasks of one run queue, in order of arrival. Few wait on most: these lie in the queue itself, not behind a pointer to
// memory of their own, which on large machines is a wait for every look at a queue and an allocation for every copy.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "replay/model/ids.hpp"

namespace rewake {

class TaskList {
  public:
    TaskList() = default;
    TaskList(const TaskList& o) { assign(o); }
    TaskList& operator=(const TaskList& o) {
        if (this != &o) assign(o);
        return *this;
    }
    TaskList(TaskList&& o) noexcept : size_(std::exchange(o.size_, 0)), room_(std::exchange(o.room_, kNear)) {
        far_ = std::move(o.far_);
        std::copy_n(o.near_, kNear, near_);
    }
    TaskList& operator=(TaskList&& o) noexcept {
        size_ = std::exchange(o.size_, 0), room_ = std::exchange(o.room_, kNear);
        far_ = std::move(o.far_);
        std::copy_n(o.near_, kNear, near_);
        return *this;
    }

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    TaskId front() const { return *begin(); }
    const TaskId* begin() const { return far_ ? far_.get() : near_; }
    const TaskId* end() const { return begin() + size_; }
    void push_back(TaskId t) {
        if (size_ == room_) grow(2 * room_);
        place()[size_++] = t;
    }
    /// Puts one before that one.
    void insert(const TaskId* at, TaskId t) {
        const auto index = at - begin();
        push_back(t);
        std::rotate(place() + index, place() + size_ - 1, place() + size_);
    }
    /// Takes one off; those behind it close up.
    void erase(const TaskId* at) {
        TaskId* const to = place() + (at - begin());
        std::move(to + 1, place() + size_, to);
        --size_;
    }
    /// Puts one behind all others, if it is there.
    void to_back(TaskId t) {
        TaskId *const end = place() + size_, *const at = std::find(place(), end, t);
        if (at != end) std::rotate(at, at + 1, end);
    }
    template <class F>
    void erase_if(F f) {
        size_ = static_cast<uint32_t>(std::remove_if(place(), place() + size_, f) - place());
    }
    friend bool operator==(const TaskList& a, const std::vector<TaskId>& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

  private:
    static constexpr uint32_t kNear = 6;
    TaskId* place() { return far_ ? far_.get() : near_; }
    void grow(uint32_t room) {
        auto more = std::make_unique<TaskId[]>(room);
        std::copy(begin(), end(), more.get());
        far_ = std::move(more);
        room_ = room;
    }
    void assign(const TaskList& o) {
        size_ = 0;
        if (o.size_ > room_) grow(o.room_);
        std::copy(o.begin(), o.end(), place());
        size_ = o.size_;
    }

    uint32_t size_ = 0, room_ = kNear;
    std::unique_ptr<TaskId[]> far_;  ///< where there are more than that
    TaskId near_[kNear]{};
};

}  // namespace rewake
