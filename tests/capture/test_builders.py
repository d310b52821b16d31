# SPDX-License-Identifier: GPL-2.0-or-later
"""What is asked of the tools and what is computed from the kernel's counters: pure, no rights needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rewake.collectors.capture import events, overhead, perf, perfetto, sizing, trace_cmd
from rewake.collectors.capture.session import Request, cpu_mask
from rewake.collectors.capture.sizing import Rate
from rewake.collectors.snapshot.cpulist import parse_mask
from rewake.errors import UsageError

OPTIONS = trace_cmd.Options(
    "rewake-7", ("sched:sched_switch", "sched:sched_waking"), "mono", 8192, Path("/r/trace.dat")
)


def test_trace_cmd_arguments() -> None:
    assert " ".join(trace_cmd.arguments(OPTIONS)) == (
        "trace-cmd record -o /r/trace.dat --compression none -B rewake-7 -d -k --no-filter -C mono -b 8192"
        " -e sched:sched_switch -e sched:sched_waking"
    )
    assert "--compression" not in trace_cmd.arguments(OPTIONS, (2, 9))


def test_perf_arguments() -> None:
    o = perf.Options(OPTIONS.events, "mono", 6000, Path("/r/perf.data"), Path("/r/control"), Path("/r/ack"))
    assert " ".join(perf.arguments(o)) == (
        "perf record -q -o /r/perf.data -a -k CLOCK_MONOTONIC -R -c 1 --no-buildid --no-buildid-cache -m 8192K -D -1"
        " --control=fifo:/r/control,/r/ack -e sched:sched_switch,sched:sched_waking"
    )
    some = perf.arguments(replace(o, cpus=frozenset({0, 1, 2, 5}), clock="local", buffer_kb=4096))
    assert " ".join(some[4:11]) == "/r/perf.data -C 0-2,5 -R -c 1 --no-buildid" and "4096K" in some


def test_perfetto_config() -> None:
    assert perfetto.config(perfetto.Options(OPTIONS.events, 8192, 2.5, 1 << 20)) == (
        "write_into_file: true\nfile_write_period_ms: 1000\nduration_ms: 2500\nmax_file_size_bytes: 1048576\n"
        "buffers { size_kb: 32768 fill_policy: RING_BUFFER }\n"
        'data_sources { config { name: "linux.ftrace" ftrace_config {\n'
        "  buffer_size_kb: 8192\n  drain_period_ms: 250\n  compact_sched { enabled: true }\n"
        '  ftrace_events: "sched/sched_switch"\n  ftrace_events: "sched/sched_waking"\n'
        "} } }\n"
    )
    endless = perfetto.config(perfetto.Options(OPTIONS.events, 8192))
    assert "duration" not in endless and "max_file" not in endless


def test_trace_cmd_version() -> None:
    assert trace_cmd.parse_version("\ntrace-cmd version 3.1.6 (not-a-git-repo)\n") == (3, 1)
    assert trace_cmd.parse_version("usage") is None


def test_a_buffer_that_perf_would_not_fill_is_refused(tmp_path: Path) -> None:
    """Of 4 GiB per CPU perf 6.1 takes none, in silence."""
    assert perf.Perf(Request(OPTIONS.events, tmp_path, 1 << 20)).name == "perf"
    with pytest.raises(UsageError, match="--buffer is 1G at most"):
        perf.Perf(Request(OPTIONS.events, tmp_path, 4 << 20))


def test_the_shortest_recording_of_traced_has_an_end() -> None:
    """duration_ms: 0 is without end."""
    assert "duration_ms: 1\n" in perfetto.config(perfetto.Options(("sched:sched_switch",), 2048, 1e-4))


def test_events_are_named_and_never_a_whole_system() -> None:
    assert len(set(events.ALL)) == len(events.ALL)
    assert all(e.count(":") == 1 and not e.endswith((":", "*")) for e in events.ALL)
    assert events.ALL[: len(events.SCHED)] == events.SCHED


def test_choice_keeps_the_order_and_names_what_is_absent() -> None:
    have = {"sched:sched_wakeup", "sched:sched_switch", "power:cpu_idle", "other:thing"}
    choice = events.choose(have)
    assert choice.events == ("sched:sched_switch", "sched:sched_wakeup", "power:cpu_idle")
    assert "sched:sched_waking" in choice.absent and "other:thing" not in choice.absent
    assert events.choose(have, "sched").events == ("sched:sched_switch", "sched:sched_wakeup")
    with pytest.raises(UsageError, match="no event sched:sched_wakeup"):
        events.choose({"sched:sched_switch"})


@pytest.mark.parametrize(
    ("cpus", "mask"),
    [({0}, "00000001"), ({0, 3}, "00000009"), ({32}, "00000001,00000000"), (set(range(40)), "000000ff,ffffffff")],
)
def test_cpu_mask(cpus: set[int], mask: str) -> None:
    assert cpu_mask(frozenset(cpus)) == mask
    assert parse_mask(mask) == cpus


def test_rates_count_what_was_lost_with_the_mean_size() -> None:
    stats = {0: {"entries": 100, "bytes": 4000, "overrun": 50, "read": 50}, 1: {"entries": 0, "bytes": 0}}
    assert sizing.rates(stats, 2.0) == {0: Rate(100.0, 4000.0), 1: Rate(0.0, 0.0)}


def test_plan() -> None:
    """10 MB/s on the busiest of 4 CPUs: 2 s are 20 MB, the next power of two 32 MiB; disk for 10 s is 130 MB."""
    rates = {0: Rate(3e5, 10e6), 1: Rate(3e4, 1e6), 2: Rate(3e4, 1e6), 3: Rate(3e4, 1e6)}
    plan = sizing.plan(rates, 64 << 30, 10.0)
    assert (plan.buffer_kb, plan.disk, plan.short) == (32 << 10, 130e6, False)
    assert plan.events_per_s == 3.9e5 and plan.bytes_per_s == 13e6
    # A quarter of 64 MiB over four CPUs is 4 MiB each.
    poor = sizing.plan(rates, 64 << 20, None)
    assert (poor.buffer_kb, poor.disk, poor.short) == (4 << 10, None, True)


def test_available_memory() -> None:
    assert sizing.available_memory("MemTotal: 9 kB\nMemFree: 2 kB\nMemAvailable:    5 kB\n") == 5 << 10
    assert sizing.available_memory("MemTotal: 9 kB\nMemFree: 2 kB\n") == 2 << 10
    assert sizing.available_memory("") == 0


def test_a_loss_names_the_buffer_that_would_have_held_it() -> None:
    """1,000 events of 40 bytes are 40,000 bytes: 40 KiB on top of 16."""
    stats = {0: {"overrun": 0}, 1: {"overrun": 600, "dropped": 300, "commit_overrun": 100}}
    assert sizing.losses(stats, 40.0, 16) == [sizing.Loss(1, 1000, 16 + 40)]


def test_overhead_is_the_median_over_pairs() -> None:
    assert overhead.percent([1.0, 2.0], [1.1, 2.4]) == pytest.approx(15.0)
    assert overhead.percent([0.0], [1.0]) == 0.0
