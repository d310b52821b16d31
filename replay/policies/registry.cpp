// SPDX-License-Identifier: GPL-2.0-or-later
// The table of all policies. A mainline kernel is a row of columns.cpp; every other policy is a file with an entry
// here.
#include <algorithm>
#include <stdexcept>

#include "replay/policies/asym_prefer_prev.hpp"
#include "replay/policies/columns.hpp"
#include "replay/policies/idle_thread_scan.hpp"
#include "replay/policies/irq_aware.hpp"
#include "replay/policies/reference.hpp"
#include "replay/policies/userspace_hints.hpp"
#include "replay/policies/wakeup_buddy.hpp"

namespace rewake {
namespace {

const std::vector<PolicyEntry>& entries() {
    static const std::vector<PolicyEntry> table = [] {
        std::vector<PolicyEntry> e = reference_entries();
        for (const Column& c : columns()) e.push_back(column_entry(c));
        e.push_back(idle_thread_scan_entry());
        e.push_back(wakeup_buddy_entry());
        e.push_back(irq_aware_entry());
        e.push_back(asym_prefer_prev_entry());
        e.push_back(userspace_hints_entry());
        return e;
    }();
    return table;
}

}  // namespace

std::span<const PolicyInfo> all_policies() {
    static const std::vector<PolicyInfo> infos = [] {
        std::vector<PolicyInfo> v;
        for (const PolicyEntry& e : entries()) v.push_back(e.info);
        return v;
    }();
    return infos;
}

std::unique_ptr<Policy> make_policy(const std::string& name, const PolicyParams& params, const Topology& topo,
                                    uint64_t seed) {
    std::string names;
    for (const PolicyEntry& e : entries()) {
        if (e.info.name == name) return e.make(params, topo, seed);
        names += (names.empty() ? "" : ", ") + e.info.name;
    }
    throw std::invalid_argument("no policy '" + name + "'; there are " + names);
}

std::string_view branch_name(Branch b) {
    static constexpr std::string_view names[] = {
        "recorded", "prev",     "waker",      "random-idle", "oracle-idle", "X0",     "X1",      "X2",   "X3",
        "X4",       "X5",       "X6",         "CORE",        "CPU",         "SMT",    "SCAN",    "RING", "LINEAR",
        "TARGET",   "PREV_AFF", "RECENT_AFF", "SLOW",        "NOSEARCH",    "PINNED", "FALLBACK"};
    static_assert(std::size(names) == static_cast<size_t>(Branch::count_));
    return names[static_cast<size_t>(b)];
}

}  // namespace rewake
