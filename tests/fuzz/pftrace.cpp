// SPDX-License-Identifier: GPL-2.0-or-later
// A Perfetto trace without compressed packets: packets, bundles, full and compact events, counters.
#include "collectors/decode/pftrace/decoder.hpp"
#include "tests/fuzz/target.hpp"

REWAKE_FUZZ_TARGET(rewake::decode::PftraceDecoder, rewake::fuzz::whole)
