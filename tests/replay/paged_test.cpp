// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/paged.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "replay/engine/closed/gone.hpp"

namespace rewake {
namespace {

constexpr size_t kPage = Paged<int>::kPage;

template <class T>
using InPages = Paged<T, 0>;

template <class T, size_t kWhole>
std::map<uint32_t, T> rows(const Paged<T, kWhole>& of) {
    std::map<uint32_t, T> out;
    of.each([&](uint32_t i, const T& row) { out[i] = row; });
    return out;
}

TEST(Paged, ReadingMakesNoRows) {
    const InPages<int> none(100, 7);
    EXPECT_EQ(none[0], 7);
    EXPECT_EQ(none[99], 7);
    EXPECT_TRUE(rows(none).empty());
}

TEST(Paged, WritingMakesThoseOfThePage) {
    InPages<int> some(kPage + 2, 7);
    some[kPage] = 1;
    EXPECT_FALSE(some.has_page(0));
    EXPECT_TRUE(some.has_page(1));
    EXPECT_EQ(rows(some), (std::map<uint32_t, int>{{kPage, 1}, {kPage + 1, 7}}));  // none beyond the last
}

TEST(Paged, ACopyIsItsOwn) {
    InPages<std::vector<int>> a(2 * kPage);
    a[3].push_back(1);
    InPages<std::vector<int>> b = a, c;
    b[3].push_back(2), b[kPage].push_back(3);
    EXPECT_EQ(a[3].size(), 1u);
    EXPECT_FALSE(a.has_page(1));
    c = b;
    EXPECT_EQ(c[3], (std::vector<int>{1, 2}));
}

TEST(Paged, DroppedRowsAreFresh) {
    InPages<int> a(kPage, 7);
    a[1] = 2;
    a.drop(0), a.drop(0), a.drop(5);
    EXPECT_FALSE(a.has_page(0));
    EXPECT_EQ(std::as_const(a)[1], 7);
    a[2] = 3;
    EXPECT_EQ(rows(a).at(1), 7);
}

TEST(Paged, FewRowsAreAllThere) {
    Paged<int, 40> a(3, 7);
    a[1] = 5;
    a.resize(40);
    EXPECT_EQ(rows(a).size(), 40u);
    Paged<int, 40> b = a;
    b[33] = 6;
    a.drop(0);
    EXPECT_EQ(a[1], 7);
    EXPECT_EQ(a[33], 7);
    EXPECT_EQ(b[1], 5);
}

TEST(Paged, WhenTheyBecomeManyOnlyThoseOfBeforeAre) {
    Paged<int, 40> a(40, 7);
    a[1] = 5;
    a.resize(100 * kPage);
    EXPECT_TRUE(a.has_page(0) && a.has_page(1));
    EXPECT_FALSE(a.has_page(2));
    EXPECT_EQ(a[1], 5);
    EXPECT_EQ(std::as_const(a)[99 * kPage], 7);
    a = Paged<int, 40>(2 * kPage, 8);
    EXPECT_EQ(a[1], 8);
}

std::vector<size_t> gone_before(closed::Gone& gone, int64_t event, std::vector<size_t> kept = {}) {
    std::vector<size_t> out;
    gone.before(event, [&](size_t page) {
        if (std::ranges::find(kept, page) != kept.end()) return false;
        out.push_back(page);
        return true;
    });
    return out;
}

TEST(Gone, APageGoesWithItsLastTask) {
    std::vector<int64_t> last(3 * kPage, -1);
    last[kPage] = 10, last[2 * kPage - 1] = 30, last[2 * kPage] = 20;
    closed::Gone gone(last, 4);  // the first page has the idle tasks of four CPUs
    EXPECT_TRUE(gone_before(gone, 20).empty());
    EXPECT_EQ(gone_before(gone, 21), (std::vector<size_t>{2}));
    EXPECT_TRUE(gone_before(gone, 30).empty());
    EXPECT_EQ(gone_before(gone, 31), (std::vector<size_t>{1}));
    EXPECT_TRUE(gone_before(gone, 1000).empty());
}

TEST(Gone, APageThatIsStillReferredToIsAskedAgain) {
    closed::Gone gone(std::vector<int64_t>(2 * kPage, 5), 1);
    EXPECT_TRUE(gone_before(gone, 6, {1}).empty());
    EXPECT_EQ(gone_before(gone, 6), (std::vector<size_t>{1}));
}

TEST(LastSeen, ByWhateverTableNamesATask) {
    const int64_t switches[] = {4, 9}, wakings[] = {2}, forks[] = {11}, of[] = {13};
    const uint32_t prev[] = {1, 2}, next[] = {2, 1}, curr[] = {3}, woken[] = {4}, parent[] = {3}, child[] = {5};
    const uint32_t decided[] = {6}, waker[] = {4};
    const bool no_waker[] = {true};
    Batch b;
    b.sw.n = 2, b.sw.id = switches, b.sw.prev_task = prev, b.sw.next_task = next;
    b.waking.n = 1, b.waking.id = wakings, b.waking.curr_task = curr, b.waking.task = woken;
    b.fork.n = 1, b.fork.id = forks, b.fork.task = parent, b.fork.child = child;
    DecisionColumns d;
    d.n = 1, d.event_id = of, d.task = decided, d.waker_task = waker, d.waker_task_null = no_waker;
    closed::LastSeen seen(8);
    seen.hear(b, d);
    EXPECT_EQ(seen.events(), (std::vector<int64_t>{-1, 9, 9, 11, 2, 11, 13, -1}));
}

}  // namespace
}  // namespace rewake
