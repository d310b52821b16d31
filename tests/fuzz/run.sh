#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# tests/fuzz/run.sh SECONDS TARGET...: builds the libFuzzer targets with clang and runs each for SECONDS, one after the
# other. New inputs stay in build/fuzz/corpus/TARGET, findings in build/fuzz/findings/TARGET-*; exit 1 at a finding.
# NO_BUILD=1: run what is built. FUZZ_FLAGS: more flags for libFuzzer.
set -eu
cd "$(dirname "$0")/../.."
[ $# -ge 2 ] || { echo "usage: tests/fuzz/run.sh SECONDS TARGET...  (targets: fixtures/fuzz)" >&2; exit 2; }
seconds=$1
shift
[ -n "${NO_BUILD:-}" ] || tests/fuzz/build.sh "$@" >&2
mkdir -p build/fuzz/findings
for target; do
    mkdir -p "build/fuzz/corpus/$target"
    # shellcheck disable=SC2086 # FUZZ_FLAGS is a list
    build/fuzz/tests/fuzz/fuzz_"$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=20000 \
        -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$target-" ${FUZZ_FLAGS:-} \
        "build/fuzz/corpus/$target" "fixtures/fuzz/$target"
done
