#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Records one load on this machine three times, A and A' as it is and B with a scheduler feature toggled, and prints what
# rewake makes of them: fidelity, the spread between A and A', and B predicted from A beside what B was.
#   sudo sh validate-on-your-machine.sh FEATURE FOLDER CMD [ARGUMENT]...     such as NO_SIS_UTIL try1 hackbench -g 4 -l 500
set -eu
rewake=${REWAKE:-rewake}
say() { printf '\n== %s\n' "$*"; }
die() {
    printf 'validate: %s\n' "$*" >&2
    exit 1
}
[ $# -ge 3 ] || die "usage: sh $0 FEATURE FOLDER CMD [ARGUMENT]..."
feature=$1 folder=$2
shift 2
case $feature in
NO_*) back=${feature#NO_} ;;
*) back=NO_$feature ;;
esac
features=
for file in ${FEATURES_FILE:-/sys/kernel/debug/sched/features /sys/kernel/debug/sched_features}; do
    if cat "$file" >/dev/null 2>&1; then features=$file; fi
done
[ -n "$features" ] || die "the scheduler's features cannot be read: mount debugfs, as root, on a kernel that is not locked down"
tr ' ' '\n' <"$features" | grep -qx "$back" || die "$feature: is already so, or this kernel has no such feature ($features)"
[ ! -e "$folder" ] || die "$folder: exists already"
mkdir "$folder"
restore() { echo "$back" >"$features"; }

record() {
    say "recording $1: $2"
    shift 2
    "$rewake" record -o "$folder/$name.rewake" -- "$@"
}
for name in A A2; do record "$name" "as it is" "$@"; done
trap restore EXIT
trap 'exit 130' INT TERM HUP
echo "$feature" >"$features"
name=B
record B "$feature" "$@"
restore
trap - EXIT

for name in A A2 B; do
    say "$name: quality and fidelity"
    "$rewake" check "$folder/$name.rewake" || say "$name: the quality card refuses it: what follows may mean nothing"
    "$rewake" fidelity "$folder/$name.rewake" --force || say "$name: no fidelity"
done
for name in A A2 B; do
    say "$name: recorded wakeup latency"
    "$rewake" query "$folder/$name.rewake" latency/recorded
done
say "B predicted from A and A' alone, beside what B was, 'no change' and the one-step ratio"
"$rewake" validate "$folder/A.rewake" "$folder/B.rewake" --a "$folder/A2.rewake" --force || say "no prediction"
