// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/tasks.hpp"

#include <array>

namespace rewake {

int32_t weight_of(int prio, bool idle_policy) {
    // Nice -20 .. 19. Facts of the scheduler's ABI (the weights appear in cgroup and schedstat values).
    static constexpr std::array<int32_t, 40> kWeight = {
        88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
        3906,  3121,  2501,  1991,  1586,  1277,  1024,  820,   655,   526,   423,  335,  272,  215,
        172,   137,   110,   87,    70,    56,    45,    36,    29,    23,    18,   15};
    if (idle_policy) return kIdleWeight;
    if (prio < 100 || prio > 139) return 1024;
    return kWeight[static_cast<size_t>(prio - 100)];
}

}  // namespace rewake
