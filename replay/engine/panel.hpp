// SPDX-License-Identifier: GPL-2.0-or-later
// One column under several assumptions, for the inference of what no event carries. At most decisions most of them see the
// same: then one is asked, and the others take over its answer and what it did to its private state.
#pragma once

#include <vector>

#include "replay/policies/policy.hpp"

namespace rewake {

class Panel {
  public:
    /// A decision begins; nobody has been asked.
    void begin() { n_ = 0; }
    /// As policy.decide(v, w, nullptr, recorded). All policies of a decision are of one column. `nr_idle_scan`: assumed of
    /// the LLCs of waker and prev; the same number for all where it is modelled.
    const Decision& decide(Policy& policy, const View& v, const Wakeup& w, int32_t nr_idle_scan, Cpu recorded);

  private:
    struct Asked {
        bool sync = false;
        int32_t nr_idle_scan = 0;
        bool wide = false;
        PolicyState::Task p, curr, curr_after;
        Cpu recent_after{};
        bool has_recent_after = false;
        std::vector<uint8_t> hic, hic_after;
        std::vector<int64_t> cost, cost_after;
        Decision made;
    };
    static bool same(const Asked& a, const PolicyState& s, const PolicyState::Task& p, const PolicyState::Task& curr,
                     const Wakeup& w, int32_t nr_idle_scan, int factor);
    Decision alone_;
    std::vector<Asked> asked_;
    size_t n_ = 0;
};

}  // namespace rewake
