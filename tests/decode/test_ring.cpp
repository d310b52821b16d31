// SPDX-License-Identifier: GPL-2.0-or-later
// The page walk, the merge and the format check, without a file around them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "collectors/decode/format/prev_state.hpp"
#include "collectors/decode/format/text.hpp"
#include "collectors/decode/merge.hpp"
#include "collectors/decode/ring/stream.hpp"
#include "collectors/decode/tasks.hpp"

namespace rewake::decode {
namespace {

/// Pages from memory, little-endian, 64-bit.
struct Pages {
    using Page = PageSource::Page;
    std::vector<std::vector<uint8_t>> pages;
    size_t at = 0;

    Page next() {
        return at < pages.size() ? Page{pages[at].data(), pages[at++].size(), 0, false} : Page{nullptr, 0, 0, false};
    }
    [[nodiscard]] uint32_t cpu() const { return 3; }
};

/// A page of the given words of data; `flags` go above the size.
std::vector<uint8_t> page(uint64_t stamp, const std::vector<uint32_t>& words, uint32_t flags = 0, size_t size = 256) {
    std::vector<uint8_t> out(size);
    const uint64_t commit = words.size() * 4 | flags;
    std::memcpy(out.data(), &stamp, 8);
    std::memcpy(out.data() + 8, &commit, 8);
    std::memcpy(out.data() + 16, words.data(), words.size() * 4);
    return out;
}
constexpr uint32_t head(uint32_t type_len, uint32_t delta) { return delta << 5 | type_len; }
constexpr uint32_t kMissed = 1U << 31, kStored = 1U << 30;

using S = Stream<false, Pages>;

struct Seen {
    uint64_t ts;
    uint32_t first, length;  // first word of the record
    friend bool operator==(const Seen&, const Seen&) = default;
};

std::vector<Seen> walk(S& s) {
    std::vector<Seen> out;
    while (s.next()) {
        out.push_back({s.ts(), s.record() == nullptr ? 0 : load<uint32_t, false>(s.record()), s.length()});
    }
    return out;
}

TEST(Walk, RecordsExtensionsPaddingAndLongRecords) {
    Problems problems;
    S s(Pages{{page(1000, {head(1, 5), 71,                    // 4 bytes at 1005
                           head(30, 1), 1,                    // + 1 + 2^27
                           head(0, 2), 12, 72, 73,            // 8 bytes, length in a word
                           head(29, 3), 8, 0,                 // discarded, its time counts
                           head(1, 4), 74}),                  //
               page(5000, {head(31, 9), 100, head(1, 1), 75,  // absolute time
                           head(29, 0), 4, 76})}},            // rest of the page empty
        {}, 0, 4, problems);
    const uint64_t far = 1005 + 1 + (1ULL << 27);
    EXPECT_EQ(walk(s),
              (std::vector<Seen>{{1005, 71, 4}, {far + 2, 72, 8}, {far + 9, 74, 4}, {(100ULL << 27) + 10, 75, 4}}));
    EXPECT_TRUE(problems.lines().empty());
}

TEST(Walk, Losses) {
    Problems problems;
    auto counted = page(2, {head(1, 0), 2}, kMissed | kStored);
    const uint64_t n = 17;
    std::memcpy(counted.data() + 16 + 8, &n, 8);
    S s(Pages{{page(1, {head(1, 0), 1}), counted, page(3, {}, kMissed), page(4, {head(1, 0), 4}),
               page(5, {}, kMissed)}},
        {}, 0, 4, problems);
    ASSERT_TRUE(s.next());
    EXPECT_EQ(s.loss(), S::Loss::none);
    ASSERT_TRUE(s.next());
    EXPECT_EQ(s.loss(), S::Loss::counted);
    EXPECT_EQ(s.lost(), 17U);
    ASSERT_TRUE(s.next()) << "an empty page's mark belongs to the next record";
    EXPECT_EQ(s.loss(), S::Loss::unknown);
    EXPECT_EQ(s.ts(), 4U);
    ASSERT_TRUE(s.next()) << "a mark after the last record";
    EXPECT_EQ(s.record(), nullptr);
    EXPECT_EQ(s.loss(), S::Loss::unknown);
    EXPECT_FALSE(s.next());
}

TEST(Walk, DamageEndsThePageAndIsAGap) {
    for (const std::vector<uint32_t>& bad : {std::vector<uint32_t>{head(28, 1), 0},
                                             {head(0, 1), 3},
                                             {head(0, 1), 400},
                                             {head(29, 1), 4000},
                                             {head(30, 1)}}) {
        Problems problems;
        S s(Pages{{page(1, bad), page(9, {head(1, 0), 9})}}, {}, 0, 4, problems);
        ASSERT_TRUE(s.next());
        EXPECT_EQ(s.ts(), 9U);
        EXPECT_EQ(s.loss(), S::Loss::unknown);
        EXPECT_FALSE(s.next());
        EXPECT_EQ(problems.lines().size(), 1U);
    }
}

/// A stream of given times.
struct Times {
    std::vector<uint64_t> times;
    uint32_t cpu;
    size_t at = 0;
    uint64_t now = 0;
    bool next() {
        if (at == times.size()) {
            return false;
        }
        now = times[at++];
        return true;
    }
    [[nodiscard]] uint64_t ts() const { return now; }
};

TEST(Merge, IsAStableSortAtAnyNumberOfStreamsAndStops) {
    std::mt19937 random(1);
    for (uint32_t k = 0; k < 40; ++k) {
        std::vector<Times> streams;
        std::vector<std::tuple<uint64_t, uint32_t, size_t>> want;
        for (uint32_t cpu = 0; cpu < k; ++cpu) {
            Times t{{}, cpu};
            uint64_t now = random() % 5;
            for (size_t i = random() % 30; i > 0; --i) {
                want.emplace_back(now, cpu, t.times.size());
                t.times.push_back(now);
                now += random() % 3;
            }
            streams.push_back(t);
        }
        std::sort(want.begin(), want.end());
        std::vector<std::tuple<uint64_t, uint32_t, size_t>> got;
        Merge<Times> merge(streams);
        bool more = true;
        while (more) {
            size_t left = 7;
            more = merge.run([&](const Times& t) {
                got.emplace_back(t.now, t.cpu, t.at - 1);
                return --left > 0;
            });
        }
        EXPECT_EQ(got, want) << k << " streams";
    }
}

TEST(Format, DamagedTextIsRefused) {
    const std::string good =
        "name: e\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
        "\tfield:char comm[TASK_COMM_LEN];\toffset:8;\tsize:16;\tsigned:1;\n"
        "\tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:1;\n"
        "\tfield:const struct foo * p;\toffset:32;\tsize:8;\tsigned:0;\n\nprint fmt: \"%s\", REC->comm\n";
    const auto f = check_format(good);
    ASSERT_TRUE(f && f->fields_ok);
    EXPECT_EQ(f->name, "e");
    EXPECT_EQ(f->id, 7);
    EXPECT_EQ(f->text.substr(0, f->text.find("print fmt")), good.substr(0, good.find("print fmt")));
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        return check_format(text.replace(text.find(from), from.size(), to));
    };
    EXPECT_FALSE(with("name: e", "name: "));
    EXPECT_FALSE(with("ID: 7", "ID: 70000"));
    EXPECT_FALSE(with("ID: 7", "ID: x"));
    for (const auto& [from, to] : {std::pair{"char comm[", "char comm{"},
                                   {"char comm", "comm"},
                                   {"offset:8", "offset:-8"},
                                   {"size:16;", "size:16"},
                                   {"signed:1", "signed:9"},
                                   {"* p;", "* ;"},
                                   {"print fmt", "qrint fmt"},
                                   {"] name", "] 7name"}}) {
        const auto damaged = with(from, to);
        ASSERT_TRUE(damaged) << from;
        EXPECT_FALSE(damaged->fields_ok) << from;
    }
}

TEST(Tasks, AnEmptyNameIsAName) {
    Tasks tasks(2);
    const uint8_t none[16] = {};
    const uint32_t task = tasks.see(5, 0, 10);
    tasks.name(task, none, 16, 10);
    ASSERT_EQ(tasks.names().size(), 1U);
    EXPECT_EQ(tasks.comms().names().at(0), "");
    tasks.name(task, reinterpret_cast<const uint8_t*>("sh\0garbage after"), 16, 20);
    tasks.name(task, reinterpret_cast<const uint8_t*>("sh\0other garbage"), 16, 30);
    EXPECT_EQ(tasks.names().size(), 2U) << "what follows the NUL is not part of the name";
}

TEST(PrevStates, ConstantsOfThePrintFormat) {
    const PrevStates s(
        "print fmt: \"%s\", REC->prev_state & (1024-1) ? __print_flags(REC->prev_state & (1024-1), \"|\", "
        "{ 0x1, \"S\"} , { 2UL, \"D\" }, { (1 << 4), \"Z\" }) : \"R\", REC->prev_state & ((0x01ff | 1) + 1) << 1 ? "
        "\"+\" : \"\"");
    ASSERT_TRUE(s.known());
    EXPECT_EQ(s[0], PrevState::running);
    EXPECT_EQ(s[1], PrevState::sleeping);
    EXPECT_EQ(s[2], PrevState::disk);
    EXPECT_EQ(s[18], PrevState::zombie);
    EXPECT_EQ(s[4], PrevState::other);
    EXPECT_EQ(s[0x400], PrevState::preempted);
    EXPECT_EQ(s[4096 + 1], PrevState::sleeping);
}

}  // namespace
}  // namespace rewake::decode
