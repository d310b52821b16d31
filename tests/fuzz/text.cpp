// SPDX-License-Identifier: GPL-2.0-or-later
// ftrace text: tracefs, trace-cmd report, perf script and systrace, plain and within HTML.
#include "collectors/decode/text/decoder.hpp"
#include "tests/fuzz/target.hpp"

REWAKE_FUZZ_TARGET(rewake::decode::TextDecoder, rewake::fuzz::whole)
