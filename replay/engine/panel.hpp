// SPDX-License-Identifier: GPL-2.0-or-later
// One column under several assumptions, for the inference of what no event carries. At most decisions most of them see the
// same: then one is asked, and the others take over its answer and what it did to its private state.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "replay/policies/policy.hpp"

namespace rewake {

/// What a panel answered, per decision of a part.
struct PanelAnswers {
    static constexpr size_t kMost = 64;
    std::vector<uint64_t> agreed;  ///< by policy, a bit: it decided, and as recorded
    std::vector<uint8_t> decided;  ///< else the next two hold nothing
    std::vector<uint16_t> cpu;  ///< of the first policy
    std::vector<uint32_t> looked;  ///< Input bits that the first policy looked at
    std::vector<int32_t> nr_idle_scan;  ///< of prev's LLC, as modelled
    void reset(size_t n) {
        auto clear = [n](auto&... column) { (column.assign(n, 0), ...); };
        clear(agreed, decided, cpu, looked, nr_idle_scan);
    }
};

class Panel {
  public:
    /// A decision begins, and nobody has been asked; all policies of it are of one column, as `any` is.
    void begin(const Policy& any, const Wakeup& w);
    /// As policy.decide(v, w, nullptr, recorded) and policy.follow(). `nr_idle_scan`: assumed of the LLCs of waker and
    /// prev; the same number for all policies where it is modelled.
    const Decision& decide(Policy& policy, const View& v, const Wakeup& w, int32_t nr_idle_scan, Cpu recorded);

  private:
    struct Asked {
        bool sync = false, wide = false;
        bool decayed = false, switched = false;  ///< what record_wakee() did
        bool new_hic = false, new_cost = false;
        int32_t nr_idle_scan = 0;
        Decision made;
        PolicyState::Task p, curr, curr_after;
        Cpu recent_after{};
        bool has_recent_after = false;
        std::vector<uint8_t> hic, hic_after;
        std::vector<int64_t> cost, cost_after;
        uint32_t flips_after(uint32_t before) const { return (decayed ? before >> 1 : before) + switched; }
    };
    bool same(const Asked& a, const PolicyState& s, const PolicyState::Task& p, const PolicyState::Task& curr,
              const Wakeup& w, int32_t nr_idle_scan) const;
    Asked& ask(Policy& policy, const View& v, const Wakeup& w, int32_t nr_idle_scan, Cpu recorded);
    bool shared_ = false;  ///< one may answer for another
    int factor_ = 0;  ///< flips that make wake_wide()
    std::vector<Asked> asked_;
    size_t n_ = 0;
};

}  // namespace rewake
