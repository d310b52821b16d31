// SPDX-License-Identifier: GPL-2.0-or-later
// nr_idle_scan of one LLC as a step function of time, from the wakeups whose search it bounded: a hidden Markov chain whose
// state can jump only where the balancer may have run, smoothed forward and backward without a wakeup's own outcome.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "replay/model/ids.hpp"

namespace rewake {

struct StepRules {
    std::vector<int32_t> values;  ///< those that it may have, ascending, at most 31
    float stays = 0.95f;  ///< that it stays where the balancer may have run, but did not according to the model
    float kept = 0.5f;  ///< and where it did
    float doubt = 0.2f;  ///< weight of a value under which a wakeup does not come out as recorded, against 1
    float hint = 0.8f;  ///< the same of one that the modelled value did not lead to look (unasked_*): has_idle_cores,
    ///< which hangs on earlier values, too, kept it from that
    float reach = 2.0f;  ///< a jump lands further from the modelled value with weight exp(-distance / reach)
    Ns block = 1'000'000;  ///< wakeups hear only those of other blocks of time of this length,
    bool causal = false;  ///< or all those before them, and none behind
};

/// What the wakeups of a recording say, in order of time; arrays of `n`. LLCs below `n_llcs`.
struct StepVotes {
    size_t n = 0;
    int32_t n_llcs = 0;
    const Ns* ts = nullptr;
    const uint32_t* agreed = nullptr;  ///< bit i: as recorded under values[i]
    const uint8_t* searched = nullptr;  ///< PanelAnswers::Searched: whose LLC's bound was looked at
    const uint16_t *llc_prev = nullptr, *llc_waker = nullptr;
    const int32_t *model_prev = nullptr, *model_waker = nullptr;  ///< their nr_idle_scan, as modelled
    const int32_t *chances_prev = nullptr, *chances_waker = nullptr;  ///< Machine::LlcScan: so far
    const int32_t *writes_prev = nullptr, *writes_waker = nullptr;
};

struct LlcSteps {
    std::vector<int32_t> prev, waker;
};

/// The likeliest value at each wakeup of the LLCs of prev and of the waker, by the votes that it hears. Between equals the nearest to the modelled one; it, where nobody voted. Throws std::invalid_argument.
LlcSteps steps_in_time(const StepRules& rules, const StepVotes& votes);

}  // namespace rewake
