// SPDX-License-Identifier: GPL-2.0-or-later
// Why a task left its CPU: sched_switch.prev_state by the letters of the event's own print format. The bits changed
// between kernels (3.8: Z 16, X 32; now: X 16, Z 32, P 64, I 128; "+" above them), so none is written down here.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rewake::decode {

/// Codes: index into forms ENUMS["prev_state"].
enum class PrevState : uint8_t {
    running,
    preempted,
    sleeping,
    disk,
    stopped,
    traced,
    dead,
    zombie,
    parked,
    idle,
    other,
};
[[nodiscard]] constexpr bool is_dead(PrevState s) { return s == PrevState::dead || s == PrevState::zombie; }

class PrevStates {
  public:
    PrevStates() = default;
    /// Reads the print format of a sched_switch format text. `known()` is false when it has no flags for prev_state.
    explicit PrevStates(const std::string& format_text);

    [[nodiscard]] bool known() const { return known_; }
    [[nodiscard]] PrevState operator[](int64_t value) const {
        const auto v = static_cast<uint64_t>(value);
        return v < table_.size() ? table_[v] : slow(v);
    }

  private:
    [[nodiscard]] PrevState slow(uint64_t v) const;

    bool known_ = false;
    uint64_t mask_ = ~uint64_t{0}, preempted_ = 0;  // bits with letters; bit that prints "+"
    std::vector<std::pair<uint64_t, PrevState>> letters_;  // in the order of the format
    std::array<PrevState, 4096> table_{};
};

}  // namespace rewake::decode
