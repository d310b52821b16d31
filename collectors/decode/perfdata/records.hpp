// SPDX-License-Identifier: GPL-2.0-or-later
// Record types and sizes of perf.data (enum perf_event_type, and perf's own from 64 on).
#pragma once

#include <cstdint>

namespace rewake::decode::perf {

inline constexpr uint64_t kPipeHeader = 16, kFileHeader = 104;
inline constexpr uint32_t kMostRecord = 65536;  // the size is 16 bits wide

enum RecordType : uint32_t {
    kMmap = 1,
    kLost = 2,
    kComm = 3,
    kExit = 4,
    kFork = 7,
    kSample = 9,
    kLostSamples = 13,
    kUserTypes = 64,
    kHeaderAttr = 64,
    kTracingData = 66,
    kFinishedRound = 68,
    kIdIndex = 69,
    kAuxtrace = 71,
    kThreadMap = 73,
    kHeaderFeature = 80,
    kCompressed = 81,
    kCompressed2 = 83,
    kMostTypes = 128,  // above: damage
};

}  // namespace rewake::decode::perf
