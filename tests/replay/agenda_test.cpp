// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/agenda.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace rewake::closed {
namespace {

struct Number {
    int v = 0;
    int key() const { return v; }
};

TEST(Agenda, TakesTheLeastOfWhatIsThere) {
    std::mt19937 rng(1);
    for (int round = 0; round < 200; ++round) {
        std::vector<int> left(500);
        for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<int>(i);
        std::shuffle(left.begin(), left.end(), rng);
        std::vector<Number> planned;
        for (int i = 0; i < 20; ++i) planned.push_back({left.back()}), left.pop_back();
        std::ranges::sort(planned, {}, &Number::v);
        Agenda<Number> agenda(planned);
        std::vector<int> there;
        for (const Number& n : planned) there.push_back(n.v);
        while (!agenda.empty()) {
            // Few at a time, or more than lie sorted.
            for (auto n = rng() % (round % 2 ? 3 : 200); n > 0 && !left.empty(); --n) {
                agenda.push(left.back()), there.push_back(left.back()), left.pop_back();
            }
            const int popped = agenda.pop().v;
            EXPECT_EQ(popped, *std::ranges::min_element(there));
            std::erase(there, popped);
            std::vector<int> soon, expected;
            agenda.each_planned([&](const Number& n) { return n.v < popped + 30; },
                                [&](const Number& n) { soon.push_back(n.v); });
            for (const Number& n : planned)
                if (n.v < popped + 30 && std::ranges::count(there, n.v)) expected.push_back(n.v);
            EXPECT_EQ(soon, expected);
        }
        EXPECT_TRUE(there.empty());
    }
}

}  // namespace
}  // namespace rewake::closed
