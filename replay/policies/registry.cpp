// SPDX-License-Identifier: GPL-2.0-or-later
// The table of all policies. A mainline kernel is a row of columns.cpp; every other policy is a file with an entry
// here. A seed is an idea that can be put on any column: on its own it is the posting, elsewhere a hybrid.
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

struct Seed {
    const char* base;
    PolicyEntry (*on)(const Column&);
};
constexpr Seed kSeeds[] = {{"linux-4.5", idle_thread_scan_entry},
                           {"linux-3.8", wakeup_buddy_entry},
                           {"linux-4.12", irq_aware_entry},
                           {"linux-5.9", asym_prefer_prev_entry},
                           {"linux-6.0", userspace_hints_entry}};

const std::vector<PolicyEntry>& entries() {
    static const std::vector<PolicyEntry> table = [] {
        std::vector<PolicyEntry> e = reference_entries();
        for (const Column& c : columns()) e.push_back(column_entry(c));
        for (const Seed& s : kSeeds) e.push_back(s.on(column(s.base)));
        return e;
    }();
    return table;
}

const PolicyEntry& listed(const std::string& name) {
    std::string names;
    for (const PolicyEntry& e : entries()) {
        if (e.info.name == name) return e;
        names += (names.empty() ? "" : ", ") + e.info.name;
    }
    throw std::invalid_argument("no policy '" + name + "'; there are " + names);
}

PolicyEntry entry(const std::string& name) {
    const size_t at = name.find('@');
    const PolicyEntry& found = listed(name.substr(0, at));
    if (at == std::string::npos) return found;
    const Column& on = column(name.substr(at + 1));
    for (const Seed& s : kSeeds)
        if (found.info.base == s.base) return found.info.base == on.name ? found : s.on(on);
    std::string seeds;
    for (const PolicyEntry& e : entries())
        if (!e.info.base.empty()) seeds += (seeds.empty() ? "" : ", ") + e.info.name;
    throw std::invalid_argument(name + ": " + found.info.name + " is no seed; those that a column takes are " + seeds);
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

PolicyInfo policy_info(const std::string& name) { return entry(name).info; }

std::unique_ptr<Policy> make_policy(const std::string& name, const PolicyParams& params, const Topology& topo,
                                    uint64_t seed) {
    return entry(name).make(params, topo, seed);
}

std::string_view branch_name(Branch b) {
    static constexpr std::string_view names[] = {
        "recorded", "prev",     "waker",      "random-idle", "oracle-idle", "X0",     "X1",       "X2",   "X3",
        "X4",       "X5",       "X6",         "CORE",        "CPU",         "SMT",    "SCAN",     "RING", "LINEAR",
        "TARGET",   "PREV_AFF", "RECENT_AFF", "SLOW",        "NOSEARCH",    "PINNED", "FALLBACK", "WIDE"};
    static_assert(std::size(names) == static_cast<size_t>(Branch::count_));
    return names[static_cast<size_t>(b)];
}

}  // namespace rewake
