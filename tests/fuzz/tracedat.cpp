// SPDX-License-Identifier: GPL-2.0-or-later
// The trace.dat container, versions 6 and 7, plain and zstd: headers, format texts, options, sections and pages.
#include "collectors/decode/tracedat/tracedat.hpp"
#include "tests/fuzz/target.hpp"

REWAKE_FUZZ_TARGET(rewake::decode::TraceDat, rewake::fuzz::whole)
