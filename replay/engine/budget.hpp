// SPDX-License-Identifier: GPL-2.0-or-later
// Error budget: why the recorded kernel's own column missed a decision. Inputs are replaced one at a time and the decision
// is taken again: by its probed value (a cause is proven when the answer becomes the recorded one), or by another value
// (possible). The same against a random other CPU is the placebo. State is put back after every try.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "replay/engine/probed.hpp"
#include "replay/policies/policy.hpp"

namespace rewake {

/// What may be wrong of a decision's inputs, as bits.
enum Suspect : uint16_t {
    kWasSync = 1,
    kWasRecent = 2,
    kWasFlips = 4,
    kWasLoad = 8,
    kWasNrIdleScan = 16,
    kWasIdleCores = 32,
    kWasIdle = 64,  ///< whether the recorded or the chosen CPU was idle
    kWasSeveral = 128,  ///< all probed values together
    kWasAllowed = 256,  ///< whether the wakee may use the chosen CPU, or the recorded one
    kWasUtil = 512,  ///< of the wakee
};

/// A CPU that became idle or busy, and the decision that made it so (-1: none).
struct Flip {
    Ns ts = 0;
    Cpu cpu{};
    int64_t decision = -1;
};

/// What the budget says of one decision.
struct Blame {
    uint16_t proven = 0, possible = 0;  ///< Suspect bits; 0 for a hit
    uint16_t placebo_proven = 0, placebo_possible = 0;  ///< the same with the placebo CPU as the recorded one
    uint8_t answers = 1;  ///< different answers over the admissible orders of events near the decision
    bool among = false;  ///< the recorded CPU is one of them
    bool equivalent = false;  ///< a miss that chose another CPU, as idle, in the same LLC, in a core as idle
};

class Budget {
  public:
    /// `window`: events less than this apart on two CPUs have no known order.
    Budget(std::vector<Flip> flips, Ns window) : flips_(std::move(flips)), window_(window) {}

    /// What became of `w`, which `policy` is about to decide. `number`: of the decision, as in Flip::decision.
    Blame blame(Policy& policy, const View& v, const Wakeup& w, Cpu recorded, const Probed& truth, int64_t number);

  private:
    static constexpr size_t kMostFlips = 6;  ///< nearest CPUs with a flip that are tried, 2^6 states
    Cpu ask(Policy& policy, const View& v, const Wakeup& w);
    uint16_t proven(Policy& policy, View& v, const Wakeup& w, Cpu goal, const Probed& truth);
    uint16_t possible(Policy& policy, View& v, const Wakeup& w, Cpu made, Cpu goal);
    void orders(Policy& policy, View& v, const Wakeup& w, Cpu recorded, int64_t number, Blame& out);

    std::vector<Flip> flips_;  ///< in order of time
    size_t first_ = 0;  ///< first flip of the window
    Ns window_;
    View scratch_;
};

}  // namespace rewake
