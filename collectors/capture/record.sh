#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# Records the scheduler's events of this machine, with a snapshot of it, into one tar for `rewake import`.
# Made by rewake @VERSION@ record --emit-script. Run it as root; it installs nothing and puts everything back.
#   sh THIS [--dry-run] [--no-trace-cmd] [FILE.tar]
set -eu
umask 077
LC_ALL=C
export LC_ALL

seconds=@SECONDS@
events=@EVENTS@
buffer_kb=@BUFFER_KB@
max_kb=@MAX_KB@
output=@OUTPUT@
probes=@PROBES@

say() { printf 'rewake: %s\n' "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

dry_run=
tool=auto
for argument; do
    case $argument in
    --dry-run) dry_run=yes ;;
    --no-trace-cmd) tool=raw ;;
    -*)
        say "usage: sh $0 [--dry-run] [--no-trace-cmd] [FILE.tar]"
        exit 2
        ;;
    *) output=$argument ;;
    esac
done
if [ "$tool" = auto ]; then
    if command -v trace-cmd >/dev/null 2>&1; then tool=trace-cmd; else tool=raw; fi
fi

tracing=
for place in @PLACES@; do
    if [ -d "$place/events/sched" ]; then
        tracing=$place
        break
    fi
done
[ -n "$tracing" ] || die "tracefs is not mounted or not allowed: as root, mount -t tracefs nodev /sys/kernel/tracing"
[ -w "$tracing/instances" ] || die "$tracing: no right to trace: run as root"
case $output in /*) ;; *) output=$(pwd)/$output ;; esac
[ ! -e "$output" ] || die "$output: exists already"
[ -d "$(dirname "$output")" ] || die "$(dirname "$output"): no such directory"
# Made by mkdir, which follows no link that somebody put there; everything is written inside, and renamed at the end.
stage=$output.$$.part
work=$stage/data
instance=$tracing/instances/rewake-$$
free() { df -Pk "$(dirname "$output")" | awk 'NR == 2 { print $4 }'; }
free_kb=$(free)

present=
for event in $events; do
    [ ! -d "$tracing/events/${event%%:*}/${event#*:}" ] || present="$present $event"
done
for event in @REQUIRED@; do
    case "$present " in *" $event "*) ;; *) die "this kernel has no event $event" ;; esac
done
if [ -n "$probes" ]; then
    grep -q '^[[:space:]]*f\[:' "$tracing/README" 2>/dev/null ||
        die "--probes: the kernel has no function probes (CONFIG_FPROBE_EVENTS): it needs @PROBES_NEED@"
    { [ -e @BTF@ ] && grep -q -e '->field' "$tracing/README"; } ||
        die "--probes: the kernel has no BTF types for probe arguments: it needs @PROBES_NEED@"
fi
clock=local
for candidate in global mono; do
    ! grep -qw "$candidate" "$tracing/trace_clock" || clock=$candidate
done
# Bytes of a sub-buffer: header and data.
page=$(awk -F'[:;]' '/char data/ { print $4 + $6 }' "$tracing/events/header_page")
cpus=$(find "$tracing/per_cpu" -type d -name 'cpu*' | wc -l)
if [ "$tool" = raw ]; then
    buffer_kb=$((max_kb / cpus))
    [ "$buffer_kb" -gt 0 ] ||
        die "$max_kb KiB of trace are too little for $cpus CPUs: give a --max-size of at least ${cpus}K"
fi

if [ -n "$dry_run" ]; then
    say "dry run: nothing is recorded"
    say "would record $seconds s with $tool into $output, $(echo "$present" | wc -w) events, clock $clock"
    say "buffer $buffer_kb KiB on each of $cpus CPUs; at most $max_kb KiB of trace; $free_kb KiB free on the disk"
    exit 0
fi
# Trace and tar are on the disk at the same time.
[ "$free_kb" -gt $((2 * max_kb)) ] || die "$(dirname "$output"): $free_kb KiB free, $((2 * max_kb)) KiB are needed"

verbose=
recorder=
workload=
began=
installed=
remove_instance() {
    [ -d "$1" ] || return 0
    echo 0 >"$1/tracing_on" 2>/dev/null || :
    rmdir "$1" 2>/dev/null || say "cannot remove $1: a reader still has it open; rmdir it later"
}
remove_probes() {
    for probe in select_in select_out; do
        if grep -q "^[a-z]*[0-9]*:rewake/$probe " "$tracing/dynamic_events" 2>/dev/null; then
            echo "-:rewake/$probe" >>"$tracing/dynamic_events" || say "cannot remove probe $probe: somebody uses it"
        fi
    done
}
restore() {
    status=$?
    trap - EXIT
    trap '' INT TERM HUP # a second Ctrl-C must not leave half of it
    [ -z "$verbose" ] || echo N >"$verbose" || :
    if [ -d "$instance" ]; then echo 0 >"$instance/tracing_on" || :; fi
    if [ -n "$recorder" ]; then
        : >"$work/stop" || :
        wait "$recorder" 2>/dev/null || :
    fi
    remove_instance "$instance"
    [ -z "$installed" ] || remove_probes
    rm -rf "$stage"
    [ "$status" = 0 ] || [ -z "$began" ] || say "nothing was kept; $(free) KiB were free on the disk"
    exit "$status"
}
stopped_by=
trap restore EXIT
trap 'stopped_by=signal' INT TERM HUP

# What a killed run left behind. Probes in use the kernel keeps, but not those of a recording that only begins: its
# instance is there and not on yet.
begins=
for old in "$tracing"/instances/rewake-*; do
    pid=${old##*/rewake-}
    pid=${pid%-watch}
    case $pid in *[!0-9]*) continue ;; esac
    if [ ! -d "/proc/$pid" ]; then
        remove_instance "$old"
    elif [ "$(cat "$old/tracing_on" 2>/dev/null || :)" = 0 ]; then
        begins=yes
    fi
done
[ -n "$begins" ] || remove_probes
for old in "$output".*.part; do
    pid=${old%.part}
    pid=${pid##*.}
    case $pid in *[!0-9]*) continue ;; esac
    [ -d "/proc/$pid" ] || [ -L "$old" ] || [ ! -d "$old/data" ] || rm -rf "$old"
done

mkdir "$stage"
began=yes
mkdir "$work"

# --- snapshot

# copy_to FILE COPY
copy_to() {
    [ -d "${2%/*}" ] || mkdir -p "${2%/*}"
    cat "$1" >"$2" 2>/dev/null || rm -f "$2"
}
copy() {
    for file; do
        [ ! -r "$file" ] || copy_to "$file" "$target$file"
    done
}
copy_trees() {
    for tree; do
        if [ -d "$tree" ]; then
            mkdir -p "$target${tree%/*}"
            cp -RP "$tree" "$target$tree" 2>/dev/null || :
            find "$target$tree" -type l -exec rm -f {} +
        fi
    done
}
copy_cgroups() {
    while read -r _ top kind options _; do
        top=$(printf '%b' "$top") # blanks are \040 there
        case $kind,$options, in
            cgroup2,*) controllers=$(cat "$top/cgroup.controllers" 2>/dev/null || :) ;;
            cgroup,*,cpu,* | cgroup,cpu,*) controllers=cpu ;;
            *) controllers= ;;
        esac
        if echo "$controllers" | grep -qw cpu; then
            find "$top" -type f \( @CGROUP_FILES@ \) | while read -r file; do
                copy_to "$file" "$target/sys/fs/cgroup${file#"$top"}"
            done
            break # what is mounted once more may be a part of it
        fi
    done </proc/mounts
}
threads() {
    for process in /proc/[0-9]*; do
        echo process
        if [ -r "$process/autogroup" ]; then echo "/autogroup-0 nice 0"; fi
        cat "$process"/autogroup "$process"/task/*/status "$process"/task/*/stat 2>/dev/null || :
    done | awk '
        /^process$/ { session = ""; next }
        /^\/autogroup-[0-9]+ nice / { session = " autogroup=" substr($1, 12) ":" $3; next }
        /^Name:\t/ { name = substr($0, 7); next }
        /^Tgid:/ { tgid = $2 }
        /^Pid:/ { pid = $2 }
        /^PPid:/ { ppid = $2 }
        /^Cpus_allowed:/ { mask = $2 }
        /^Cpus_allowed_list:/ {
            said[pid] = "Name=" name " Tgid=" tgid " Pid=" pid " PPid=" ppid " Cpus_allowed=" mask \
                " Cpus_allowed_list=" $2
        }
        /^[0-9]+ \(/ {
            pid = $1
            sub(/^.*\) /, "")
            split($0, f, " ")
            if (pid in said)
                print said[pid] " flags=" f[7] " prio=" f[16] " nice=" f[17] " cpu=" f[37] " rtprio=" f[38] " policy=" f[39] session
            delete said[pid]
        }'
}
snapshot_moving() {
    target=$1
    mkdir -p "$target"
    copy @MOVING@
    threads >"$target/threads"
}
snapshot() {
    target=$1
    switch=@VERBOSE@
    copy_trees @TREES@
    # Another recording that began before us switches the domains off at its own time: then once more.
    for _ in @SCHED_TRIES@; do
        found=$(cat "$switch" 2>/dev/null || :)
        if [ "$found" = N ] && echo Y >"$switch"; then verbose=$switch; fi
        rm -rf "$target"@SCHED@
        copy_trees @SCHED@
        listed=$(cat "$switch" 2>/dev/null || :)
        if [ -n "$verbose" ]; then
            echo N >"$verbose"
            verbose=
        elif [ "$found" = N ]; then
            break
        fi
        [ "$listed" = N ] || break
    done
    copy @FILES@ /proc/sys/kernel/sched_* /proc/irq/*/smp_affinity_list /proc/irq/*/effective_affinity_list
    copy_cgroups
    uname -a >"$target/uname"
    snapshot_moving "$target"
}

# --- probes on the placement function

# How far the LLC's domain is above the lowest one of a CPU; nothing where CPUs differ or have none.
llc_level() {
    find "$work@DOMAINS@" -name flags -exec awk '
        /@SHARE_LLC@/ { n = split(FILENAME, part, "/"); sub(/cpu/, "", part[n - 2]); sub(/domain/, "", part[n - 1])
            print part[n - 2], part[n - 1] }' {} + 2>/dev/null | awk '
        !($1 in top) || $2 > top[$1] { top[$1] = $2 }
        END { for (cpu in top) { level = top[cpu]; seen[level] = 1 }
            for (l in seen) kinds++
            if (kinds == 1) print level }'
}
# add_probe LINE
add_probe() {
    echo "$1" >>"$tracing/dynamic_events" || {
        tail -n 3 "$tracing/error_log" >&2 || :
        die "--probes: the kernel refuses ${1%% *}"
    }
}
install_probes() {
    ! grep -q '^[a-z]*[0-9]*:rewake/' "$tracing/dynamic_events" ||
        die "--probes: another recording uses them: wait for its end"
    level=$(llc_level)
    llc=
    if [ -n "$level" ]; then
        chain=@DOMAIN@
        while [ "$level" -gt 0 ]; do
            chain="$chain->parent"
            level=$((level - 1))
        done
        llc=$(printf '%s' @PROBE_LLC@ | sed "s/DOMAIN/$chain/g")
    else
        say "the LLC's domain is not the same on all CPUs: its fields are left out"
    fi
    installed=yes
    # The $ in them is for the kernel.
    # shellcheck disable=SC2016
    add_probe @PROBE_IN@"$llc"@PROBE_QUEUE@
    # shellcheck disable=SC2016
    add_probe @PROBE_OUT@
    present="$present rewake:select_in rewake:select_out"
}

# --- recording

observers() {
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v root=$$ '
        { pid = $1; sub(/^.*\) /, ""); parent[pid] = $2 }
        END {
            member[root] = 1
            do {
                more = 0
                for (p in parent) if (!(p in member) && parent[p] in member) { member[p] = 1; more = 1 }
            } while (more)
            for (p in member) printf "%s ", p
        }' || :
}
counter() { awk -F': *' -v name="$2" '$1 == name { print $2 }' "$instance/per_cpu/$1/stats"; }
# Says yes when a buffer is nearly full: what comes after would be lost.
nearly_full() {
    awk -F': *' -v most=$((buffer_kb * 922)) '
        $1 == "bytes" && $2 > most { full = 1 }
        $1 == "dropped events" && $2 > 0 { full = 1 }
        END { exit !full }' "$instance"/per_cpu/cpu*/stats
}
wait_for_the_end() {
    left=$seconds
    while [ -z "$stopped_by" ]; do
        if [ -n "$workload" ] && ! kill -0 "$workload" 2>/dev/null; then stopped_by='command'; fi
        if [ "$left" -le 0 ] && [ -z "$workload" ]; then stopped_by=duration; fi
        [ -z "$stopped_by" ] || break
        sleep 1 || :
        left=$((left - 1))
        if [ "$tool" = raw ]; then
            ! nearly_full || stopped_by=size
        else
            kill -0 "$recorder" 2>/dev/null || stopped_by=tool
            [ "$(du -sk "$work" | awk '{ print $1 }')" -lt "$max_kb" ] || stopped_by=size
        fi
    done
}
start_raw() {
    echo 0 >"$instance/options/overwrite"
    echo "$buffer_kb" >"$instance/buffer_size_kb" || die "no memory for $buffer_kb KiB on each of $cpus CPUs"
    for event in $present; do echo 1 >"$instance/events/${event%%:*}/${event#*:}/enable"; done
    echo 1 >"$instance/tracing_on"
}
# The pages of each CPU. Reading more than there is would wait for ever: what the counters say is there for certain, then
# page by page while there are events.
finish_raw() {
    mkdir -p "$work/raw" "$work/formats"
    for event in header_page header_event; do cat "$tracing/events/$event" >"$work/formats/$event"; done
    for event in $present; do
        mkdir -p "$work/formats/${event%%:*}/${event#*:}"
        cat "$tracing/events/${event%%:*}/${event#*:}/format" >"$work/formats/${event%%:*}/${event#*:}/format"
    done
    for folder in "$instance"/per_cpu/cpu*; do
        cpu=${folder##*/}
        pages=$(($(counter "$cpu" bytes) / page))
        while [ "$(counter "$cpu" entries)" -gt 0 ]; do
            [ "$pages" -gt 0 ] || pages=1
            dd if="$folder/trace_pipe_raw" bs="$page" count="$pages" 2>/dev/null >>"$work/raw/$cpu"
            pages=1
        done
    done
}
start_trace_cmd() {
    set --
    for event in $present; do set -- "$@" -e "$event"; done
    if trace-cmd record --help 2>&1 | grep -q -- --compression; then set -- --compression none "$@"; fi
    # trace-cmd ends with its command, and that ends with us, whatever becomes of us. A signal that timeout, systemd or a
    # closed terminal sends to all of us is for us alone.
    # shellcheck disable=SC2016
    (trap '' INT TERM HUP && exec trace-cmd record -o "$work/trace.dat" -B "rewake-$$" -d -k --no-filter -C "$clock" -b "$buffer_kb" "$@" \
        sh -c 'while [ ! -e "$2" ] && kill -0 "$1" 2>/dev/null; do sleep 1; done' sh "$$" "$work/stop" \
        >"$work/trace-cmd.log" 2>&1) &
    recorder=$!
    tries=0
    until [ "$(cat "$instance/tracing_on")" = 1 ]; do
        kill -0 "$recorder" 2>/dev/null || die "trace-cmd ended: $(tail -n 3 "$work/trace-cmd.log")"
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || die "trace-cmd did not begin within a minute"
        sleep 1 || :
    done
}
finish_trace_cmd() {
    : >"$work/stop"
    wait "$recorder" || die "trace-cmd failed: $(tail -n 3 "$work/trace-cmd.log")"
    recorder=
    rm -f "$work/stop" "$work/trace-cmd.log"
    [ -s "$work/trace.dat" ] || die "trace-cmd left no trace"
}

say "snapshot"
snapshot "$work"
snapshot_moving "$work/before"
mkdir "$instance"
echo 0 >"$instance/tracing_on"
[ -z "$probes" ] || install_probes
echo "$clock" >"$instance/trace_clock"
if [ "$tool" = raw ]; then start_raw; else start_trace_cmd; fi
say "recording with $tool, $seconds s"
who=$(observers)
@COMMAND@
wait_for_the_end
trap '' INT TERM HUP # for what collects, too: it would end with what there is to collect
echo 0 >"$instance/tracing_on"
# A shell has its children in the background ignore Ctrl-C.
if [ -n "$workload" ] && kill -0 "$workload" 2>/dev/null; then
    if [ "$stopped_by" = signal ]; then kill "$workload" || :; else say "the command still runs, process $workload"; fi
fi
snapshot_moving "$work/after"
say "stopped by $stopped_by; collecting"
if [ "$tool" = raw ]; then finish_raw; else finish_trace_cmd; fi
mkdir "$work/stats"
for folder in "$instance"/per_cpu/cpu*; do cat "$folder/stats" >"$work/stats/${folder##*/}"; done
remove_instance "$instance"
[ -z "$installed" ] || remove_probes
echo "[$clock]" >"$work/trace_clock"
mode=stream
[ "$tool" = trace-cmd ] || mode=raw
order=little
[ "$(printf '\001\000' | od -An -tu2 | tr -d ' ')" = 1 ] || order=big
printf '%s\n' "tool=$tool" "mode=$mode" "events=${present# }" "buffer_kb=$buffer_kb" "page_bytes=$page" \
    "stopped_by=$stopped_by" "byte_order=$order" "observers=$who" >"$work/capture"
cd "$work"
# Its first member says what the archive is.
set -- capture
for name in *; do [ "$name" = capture ] || set -- "$@" "$name"; done
tar cf "$stage/tar" "$@"
mv "$stage/tar" "$output"
cd /
say "left $output; rewake import reads it"
printf '%s\n' "$output"
