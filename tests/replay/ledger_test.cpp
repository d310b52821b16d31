// SPDX-License-Identifier: GPL-2.0-or-later
// From the answers of a block to the ledger columns and their counts.
#include "replay/engine/ledger.hpp"

#include <gtest/gtest.h>

namespace rewake {
namespace {

TEST(Ledger, BlockOfTwoPolicies) {
    LedgerBlock block(2);
    const uint32_t idle = block.add({.cpu = Cpu(3),
                                     .outcome = kTargetIdle,
                                     .known = true,
                                     .lo_null = false,
                                     .hi_null = false,
                                     .counts = true,
                                     .lo = 5,
                                     .hi = 7});
    const uint32_t busy = block.add({.cpu = Cpu(9), .outcome = kIdleMissedLlc, .lo_null = false, .lo = 4});
    Decision d;
    d.branch = Branch::cpu, d.scanned = 2;
    block.keep(0, 0, idle, d, false, 6);
    block.skip(0, 1);
    d.exposed = true;
    block.keep(1, 0, busy, d, true, 0);
    block.keep(1, 1, idle, d, false, 0);
    block.keep(LedgerBlock::kLate, 1, idle, d, true, 0);

    LedgerColumns out[2];
    LedgerCounts counts[2];
    for (size_t k : {0, 1}) {
        out[k].resize(4);
        block.write(k, 0, 2, out[k], 1, counts[k]);
    }
    EXPECT_FALSE(out[0].undecided[1] || out[0].undecided[2] || out[1].undecided[2]);
    EXPECT_TRUE(out[1].undecided[1] && out[1].lo_null[1] && out[1].hi_null[1]);
    EXPECT_EQ(out[0].cpu[1], 3);
    EXPECT_EQ(out[0].cpu[2], 9);
    EXPECT_EQ(out[0].cpus_scanned[1], 2);
    EXPECT_EQ(out[0].branch[1], static_cast<uint8_t>(Branch::cpu));
    EXPECT_EQ(out[0].inputs_assumed[1], 6u);
    EXPECT_TRUE(out[0].known[1] && !out[0].known[2]);
    EXPECT_EQ(out[0].outcome[1], kTargetIdle);
    EXPECT_EQ(out[0].outcome[2], kIdleMissedLlc | kExposed | kSelfCollision);
    EXPECT_EQ(out[0].lo[1], 5);
    EXPECT_EQ(out[0].hi[1], 7);
    EXPECT_TRUE(!out[0].lo_null[2] && out[0].hi_null[2]);
    EXPECT_EQ(counts[0].decided, 2);
    EXPECT_EQ(counts[0].exposed, 1);
    EXPECT_EQ(counts[0].self_collisions, 1);
    EXPECT_EQ(counts[0].lo.zero, 1);  // the other one is no wakeup
    EXPECT_EQ(counts[1].decided, 1);  // a row that is undecided counts nothing

    block.write(1, LedgerBlock::kLate, 1, out[1], 0, counts[1]);
    EXPECT_EQ(out[1].cpu[0], 3);
    EXPECT_EQ(counts[1].decided, 2);
    EXPECT_EQ(counts[1].self_collisions, 1);
}

}  // namespace
}  // namespace rewake
