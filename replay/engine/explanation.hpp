// SPDX-License-Identifier: GPL-2.0-or-later
// One decision of the open loop as it was made: the View, the inputs, and what every policy's steps told.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "replay/model/topology.hpp"
#include "replay/model/view.hpp"
#include "replay/policies/policy.hpp"
#include "replay/policies/steps/reasons.hpp"

namespace rewake {

struct Explanation {
    /// One policy's decision. Private state is as it was before.
    struct Instance {
        bool has_path = false;  ///< it decides that kind; nothing below is set otherwise
        std::optional<Decision> decision;  ///< nothing: booked only, as for a task with one allowed CPU
        uint32_t assumed = 0;   ///< Input bits that it looked at and that were inferred or modelled
        int64_t waker_load = 0, prev_load = 0, p_load = 0, curr_load = 0;  ///< L(waker CPU), L(prev), w(p), w(curr)
        std::optional<uint32_t> p_flips, curr_flips;
        std::optional<Cpu> recent;
        std::vector<uint8_t> hic;  ///< has_idle_cores by dense LLC; empty where it is not kept
        std::vector<Reasons::Step> steps;
    };
    int64_t event_id = 0;
    View view;       ///< load and irq are not to be used
    Wakeup w;        ///< `allowed` is not to be used
    CpuMask allowed;
    std::optional<IrqLoad> irq;
    std::vector<Instance> policies;
};

/// An explanation whose policies are still to decide.
Explanation begin_explanation(int64_t event_id, const View& v, const Wakeup& w);
/// Notes what policy `p` is about to decide with, and makes it tell its reasons to `listener`.
Explanation::Instance begin_instance(Policy& p, const View& v, const Wakeup& w, Reasons& listener);

}  // namespace rewake
