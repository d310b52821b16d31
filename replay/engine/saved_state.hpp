// SPDX-License-Identifier: GPL-2.0-or-later
// The private state of a policy before or after one decision, so that it can be asked again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/policies/policy.hpp"

namespace rewake {

/// What one decision can change.
struct SavedState {
    PolicyState::Task p, curr;
    PolicyState::Buddy buddy_p, buddy_curr;
    std::vector<uint8_t> hic;
    std::vector<int64_t> cost;  ///< of the waker's CPU
    /// `s` has the tasks of `w`.
    void take(const PolicyState& s, const Wakeup& w) {
        p = s.tasks[w.p.v], curr = s.tasks[w.curr.v];
        if (!s.buddies.empty()) buddy_p = s.buddies[w.p.v], buddy_curr = s.buddies[w.curr.v];
        hic = s.hic;
        cost.resize(s.scan_cost.empty() ? 0 : s.clocks);
        std::copy_n(s.scan_cost.begin() + first(s, w), cost.size(), cost.begin());
    }
    void put(PolicyState& s, const Wakeup& w) const {
        s.tasks[w.curr.v] = curr, s.tasks[w.p.v] = p;
        if (!s.buddies.empty()) s.buddies[w.curr.v] = buddy_curr, s.buddies[w.p.v] = buddy_p;
        s.hic = hic;
        if (cost.size() == s.clocks) std::copy(cost.begin(), cost.end(), s.scan_cost.begin() + first(s, w));
    }

  private:
    static ptrdiff_t first(const PolicyState& s, const Wakeup& w) {
        return s.scan_cost.empty() ? 0 : static_cast<ptrdiff_t>(w.waker.v * s.clocks);
    }
};

}  // namespace rewake
