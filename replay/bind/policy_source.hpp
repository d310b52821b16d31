// SPDX-License-Identifier: GPL-2.0-or-later
// Where the engine gets a policy from that has no name in the registry.
#pragma once

#include <memory>

#include "replay/policies/policy.hpp"

namespace rewake::bind {

/// Makes a policy for one machine.
struct PolicySource {
    virtual ~PolicySource() = default;
    virtual std::unique_ptr<Policy> make(const Topology& topo, uint64_t seed) const = 0;
};

}  // namespace rewake::bind
