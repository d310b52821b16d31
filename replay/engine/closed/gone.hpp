// SPDX-License-Identifier: GPL-2.0-or-later
// Tasks of which no later event tells: of these a simulation keeps nothing, so that what it holds does not grow with all the
// tasks that a recording ever had.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "replay/engine/open_loop.hpp"
#include "replay/model/paged.hpp"

namespace rewake::closed {

/// By TaskId: number of the last event that names it.
class LastSeen {
  public:
    explicit LastSeen(size_t tasks) : last_(tasks, -1) {}
    void hear(const Batch& b, const DecisionColumns& d);
    const std::vector<int64_t>& events() const { return last_; }

  private:
    void hear(const uint32_t* task, const bool* null, const int64_t* id, size_t n);
    std::vector<int64_t> last_;
};

/// Pages of tasks (model/paged.hpp) as they become gone.
class Gone {
  public:
    static constexpr size_t kPage = Paged<int>::kPage;

    Gone() = default;
    /// `last`: as LastSeen::events(). The idle tasks, the first `n_cpus`, stay.
    Gone(const std::vector<int64_t>& last, size_t n_cpus);
    /// let_go(page) for those of which no event from `event` on tells; where it says no, it is asked again.
    template <class F>
    void before(int64_t event, F let_go) {
        while (next_ < pages_.size() && pages_[next_].first < event) waiting_.push_back(pages_[next_++].second);
        std::erase_if(waiting_, let_go);
    }

  private:
    std::vector<std::pair<int64_t, size_t>> pages_;  ///< by the last event of their tasks
    size_t next_ = 0;
    std::vector<size_t> waiting_;
};

}  // namespace rewake::closed
