// SPDX-License-Identifier: GPL-2.0-or-later
// What no event carries of a decision, as inferred for it (unseen.py).
#pragma once

#include <cstddef>
#include <cstdint>

namespace rewake {

/// Of one decision.
struct Inferred {
    bool sync = false;  ///< WF_SYNC
    bool turned = false;  ///< the previous CPU had gone idle, or not yet, whatever the times say
    uint8_t flips = 0;  ///< which of ReplayOptions::first_flips
    uint8_t clock = 0;  ///< View::scan_clock
    int32_t scan_waker = 0, scan_prev = 0;  ///< nr_idle_scan of the LLCs of the waker's and of the previous CPU
    bool operator==(const Inferred&) const = default;
};

/// Per decision.
struct InferredColumns {
    const bool* sync = nullptr;  ///< nullptr: as assumed
    const int32_t* scan_waker = nullptr;  ///< nullptr: as modelled
    const int32_t* scan_prev = nullptr;  ///< both or none
    const bool* turned = nullptr;  ///< nullptr: nowhere
    const uint8_t* flips = nullptr;  ///< nullptr: the first
    const uint8_t* clock = nullptr;  ///< nullptr: the first
    bool any() const { return sync || scan_prev || turned || flips || clock; }
    /// `assumed`: what holds where there is no column.
    Inferred at(size_t row, const Inferred& assumed) const {
        return {.sync = sync ? sync[row] : assumed.sync,
                .turned = turned && turned[row],
                .flips = flips ? flips[row] : uint8_t{0},
                .clock = clock ? clock[row] : uint8_t{0},
                .scan_waker = scan_prev ? scan_waker[row] : assumed.scan_waker,
                .scan_prev = scan_prev ? scan_prev[row] : assumed.scan_prev};
    }
};

}  // namespace rewake
