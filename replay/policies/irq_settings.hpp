// SPDX-License-Identifier: GPL-2.0-or-later
// Constants of seed 3's estimator (policies.md B3). The engine keeps one estimator for each distinct setting.
#pragma once

#include <cstdint>
#include <optional>

#include "replay/model/ids.hpp"

namespace rewake {

struct IrqSettings {
    std::optional<int32_t> fixed;  ///< threshold; nothing: computed
    int32_t initial = 1000;        ///< threshold before it is computed for the first time
    bool warm = false;             ///< computed at every tick until then
    int share = 800;               ///< per mille of the CPUs that the threshold leaves below
    int decay = 4;                 ///< part of the difference by which a load falls in a tick
    Ns entry_overhead = 0;         ///< time of an interrupt outside its recorded handler (model)
    bool operator==(const IrqSettings&) const = default;
};

}  // namespace rewake
