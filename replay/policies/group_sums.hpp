// SPDX-License-Identifier: GPL-2.0-or-later
// What the searches of forks and execs add up of a group of CPUs (policies.md A8), shared by the policies that are asked about
// the same wakeup.
#pragma once

#include <array>
#include <cstdint>

#include "replay/model/mask.hpp"

namespace rewake {

/// Sums over the CPUs of a group, of which a rule uses some.
struct GroupSums {
    int64_t cap = 0, load = 0, blocked_load = 0, util = 0, runnable = 0;
    int32_t weight = 0, idle = 0, nr = 0;
};

/// Sums by group and rule. Of one wakeup, one state of the machine and one kind of load: forget() before another.
class GroupSumCache {
  public:
    void forget() { ++round_; }
    /// The sums of `group` under `rule`, which `make()` works out where nobody asked before.
    template <class Make>
    GroupSums get(const CpuMask& group, uint8_t rule, Make make) {
        Entry& e = entries_[(reinterpret_cast<uintptr_t>(&group) / sizeof(CpuMask) + rule * 31u) % entries_.size()];
        if (e.round != round_ || e.group != &group || e.rule != rule) e = {round_, &group, rule, make()};
        return e.sums;
    }

  private:
    struct Entry {
        uint64_t round = 0;
        const CpuMask* group = nullptr;
        uint8_t rule = 0;
        GroupSums sums{};
    };
    uint64_t round_ = 1;
    std::array<Entry, 128> entries_{};  ///< a domain's groups lie in a row, so they seldom meet
};

}  // namespace rewake
