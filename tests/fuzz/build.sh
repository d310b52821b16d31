#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# tests/fuzz/build.sh [TARGET...]: these libFuzzer targets, or all, with clang, in build/fuzz.
set -eu
cd "$(dirname "$0")/../.."
if ! [ -f build/fuzz/build.ninja ]; then
    cxx=$(command -v clang++ || command -v clang++-14) || { echo "build.sh: no clang++" >&2; exit 2; }
    launcher=$(command -v ccache || true)
    cmake -S . -B build/fuzz -G Ninja -DREWAKE_FUZZ=ON "-DCMAKE_CXX_COMPILER=$cxx" "-DCMAKE_CXX_COMPILER_LAUNCHER=$launcher"
fi
for target; do
    shift
    set -- "$@" "fuzz_$target"
done
[ $# -gt 0 ] || set -- all
cmake --build build/fuzz --target "$@"
