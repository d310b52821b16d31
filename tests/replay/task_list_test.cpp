// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/fair/task_list.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace rewake {
namespace {

TEST(TaskList, HoldsWhatAVectorHolds) {
    std::mt19937 rng(1);
    for (int round = 0; round < 200; ++round) {
        TaskList list;
        std::vector<TaskId> expected;
        for (uint32_t step = 0; step < 60; ++step) {
            const uint32_t what = rng() % 8;
            if (what < 5 || expected.empty()) {
                list.push_back(TaskId(step)), expected.push_back(TaskId(step));
            } else if (what < 7) {
                const auto at = static_cast<std::ptrdiff_t>(rng() % expected.size());
                list.erase(list.begin() + at), expected.erase(expected.begin() + at);
            } else {
                const auto odd = [](TaskId t) { return t.v % 2 == 1; };
                list.erase_if(odd), std::erase_if(expected, odd);
            }
            ASSERT_TRUE(list == expected);
            ASSERT_EQ(list.size(), expected.size());
            ASSERT_EQ(list.empty(), expected.empty());
            if (!expected.empty()) {
                ASSERT_EQ(list.front(), expected.front());
            }
        }
    }
}

TEST(TaskList, CopiesAreTheirOwn) {
    for (uint32_t n : {2u, 40u})
        for (uint32_t before : {0u, 3u, 60u}) {
            TaskList list, other;
            std::vector<TaskId> expected;
            for (uint32_t i = 0; i < n; ++i) list.push_back(TaskId(i)), expected.push_back(TaskId(i));
            for (uint32_t i = 0; i < before; ++i) other.push_back(TaskId(99));
            TaskList copy(list);
            other = list;
            list.erase(list.begin());
            EXPECT_TRUE(copy == expected);
            EXPECT_TRUE(other == expected);
            const TaskList moved(std::move(copy));
            EXPECT_TRUE(moved == expected);
            copy = std::move(other);
            EXPECT_TRUE(copy == expected);
            other.push_back(TaskId(7));
            EXPECT_TRUE(other == std::vector{TaskId(7)});
        }
}

}  // namespace
}  // namespace rewake
