// SPDX-License-Identifier: GPL-2.0-or-later
// What a plugin can call (struct rewake_host of rewake_policy.h). No argument of a plugin can crash these functions, and
// whatever input a decision looks at is noted as the built-in policies note it.
#pragma once

#include "replay/plugin/rewake_policy.h"
#include "replay/policies/composed.hpp"

/// The decision that a plugin is asked about.
struct rewake_decision {
    rewake::Composed& base;
    rewake::Ctx& x;
    rewake_wakeup wakeup{};
    int branches = 0;  ///< names that the plugin brought
    bool chosen = false;  ///< x.d holds a choice
    bool checked = false;  ///< the core's check has seen it
    std::optional<int32_t> absent{};  ///< the choice, when it is a CPU that does not exist
};

namespace rewake {

/// The table for plugins on `topo`, which must outlive it.
rewake_host host_of(const Topology& topo, uint64_t seed);
/// `w` as a plugin sees it.
rewake_wakeup wakeup_of(const View& v, const Wakeup& w);

}  // namespace rewake
