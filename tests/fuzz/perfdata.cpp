// SPDX-License-Identifier: GPL-2.0-or-later
// perf.data, files and pipes, plain and zstd: headers, attrs, features, tracing data and records.
#include "collectors/decode/perfdata/perfdata.hpp"
#include "tests/fuzz/target.hpp"

REWAKE_FUZZ_TARGET(rewake::decode::perf::PerfData, rewake::fuzz::whole)
