// SPDX-License-Identifier: GPL-2.0-or-later
// The bound of SIS_UTIL by utilisation: the table of policies.md A7.
#include "replay/model/idle_scan.hpp"

#include <gtest/gtest.h>

namespace rewake {
namespace {

TEST(NrIdleScan, FallsWithTheUtilisation) {
    constexpr int kUtil[] = {0, 100, 256, 400, 512, 700, 800, 860, 874, 1024};
    constexpr struct {
        int size;
        int nr[10];
    } kRows[] = {{8, {8, 7, 7, 6, 5, 2, 1, 0, 0, 0}},
                 {16, {16, 15, 14, 12, 10, 5, 2, 0, 0, 0}},
                 {64, {64, 63, 58, 50, 42, 23, 10, 2, 0, 0}}};
    for (const auto& row : kRows)
        for (int i = 0; i < 10; ++i)
            EXPECT_EQ(nr_idle_scan_of(int64_t{kUtil[i]} * row.size, row.size), row.nr[i])
                << row.size << " " << kUtil[i];
}

}  // namespace
}  // namespace rewake
