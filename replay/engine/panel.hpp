// SPDX-License-Identifier: GPL-2.0-or-later
// One column asked under every value of what no event carries: WF_SYNC, wakee_flips at the start, nr_idle_scan. What it
// answers never depends on what was recorded of a wakeup: the outcomes are only compared with the answers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "replay/engine/flips.hpp"
#include "replay/engine/saved_state.hpp"
#include "replay/model/machine.hpp"
#include "replay/policies/policy.hpp"

namespace rewake {

/// What a panel answered, per decision of a part, to four askings, number 2 * wide + sync. Where flips do not matter, or all
/// are known, what is not asked holds what the other half does; where only tasks that began otherwise than all others lead
/// there (first_flips.py), it is asked with the modelled nr_idle_scan, and that answer stands for all values.
struct PanelAnswers {
    static constexpr size_t kAskings = 4;
    static constexpr size_t kMostScans = 31;
    static constexpr uint32_t kModelled = 1u << kMostScans;
    enum Searched : uint8_t { nowhere, at_prev, at_waker, unasked_prev, unasked_waker };
    enum Doubt : uint8_t { no_doubt, busy, idle };  ///< of the order of events: what prev is by their times

    std::vector<uint32_t>
        agreed;  ///< kAskings: bit i: as recorded under the i-th nr_idle_scan; kModelled: the modelled one
    /// kAskings: whose LLC's nr_idle_scan it looked at; waker and prev in one: at_prev. unasked_*: it did not with the
    /// modelled value, and with another one it did, because of what that has made of has_idle_cores.
    std::vector<uint8_t> searched;
    std::vector<int16_t>
        scanned;  ///< CPUs that the search examined that came to the recorded answer; negative: none did
    std::vector<uint32_t> wide;  ///< bit h: wake_wide() under the h-th hypothesis
    std::vector<uint8_t> doubt;  ///< Doubt
    std::vector<uint8_t> otherwise;  ///< where there is doubt: bit a: asking a, with prev the other way, agrees
    std::vector<uint8_t> decided;  ///< else the others hold nothing
    std::vector<int32_t> scan_prev, scan_waker;  ///< nr_idle_scan of their LLCs, as modelled
    std::vector<int32_t> chances_prev, chances_waker;  ///< how often the balancer may have written it so far,
    std::vector<int32_t> writes_prev, writes_waker;  ///< and how often it did, as modelled (Machine::LlcScan)
    void reset(size_t n);
};

class Panel {
  public:
    /// `scans`: values of nr_idle_scan that are tried, at most kMostScans; `clocks`: of View::scan_clock in its place, where
    /// the first stands for the modelled value. Throws std::invalid_argument.
    Panel(const std::vector<FlipHypothesis>& first_flips, uint32_t hz, std::vector<int32_t> scans, bool clocks = false);
    /// Asks `policy` about `w`, of which `chosen` is recorded, and fills `row`, counted from `first_row` of the
    /// recording, and has its Doubt. `told_sync`, `told_flips` (of the wakee): recorded, so that there is
    /// nothing to try. Returns what it answers under the first hypothesis, the flag clear; that is what stays in its state.
    Cpu ask(Policy& policy, Machine& machine, Wakeup w, std::optional<bool> told_sync,
            std::optional<uint32_t> told_flips, Cpu chosen, size_t row, PanelAnswers& out, int64_t first_row);
    FlipHypotheses flips;
    FlipCourse course;
    /// Loads that some asking compared, of the latest decision.
    bool load_of_prev = false, load_of_waker = false;

  private:
    Decision once(Policy& policy, const View& v, const Wakeup& w);
    void give_idle_cores(PolicyState& s, uint32_t member);
    void asking(Policy& policy, Machine& machine, const Wakeup& w, Cpu chosen, uint32_t members, bool keeps,
                const Decision* first, uint32_t& agreed, uint8_t& searched, int16_t& scanned, uint32_t& looked);
    uint8_t otherwise(Policy& policy, Machine& machine, Wakeup w, std::optional<bool> told_sync, Cpu chosen);
    void bound(Machine& machine, Llc llc, int32_t value) const;
    std::vector<int32_t> scans_;
    bool clocks_;
    uint32_t members_ = 0;  ///< bits of PanelAnswers::agreed that are asked for
    /// By LLC: has_idle_cores, had every search had that nr_idle_scan. With 0 none is ever made that clears it, and some core
    /// was idle before the recording began.
    std::vector<uint32_t> idle_cores_;
    uint32_t never_cleared_ = 0;
    std::array<uint32_t, 2> next_{};  ///< what becomes of it at prev's and the waker's LLC
    uint16_t prev_ = 0, waker_ = 0;  ///< LLCs of the decision
    SavedState before_, after_;
};

}  // namespace rewake
