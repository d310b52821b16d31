# SPDX-License-Identifier: GPL-2.0-or-later
"""The flight recorder: which waits end it, what of the buffers is kept, and a real one."""

from __future__ import annotations

import json
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tracedat
from tracing import PING_PONG, Machine

from rewake.collectors.capture.flight import clip
from rewake.collectors.capture.watch import Happened, Looks, Sample
from rewake.forms import ENUMS, Recording

STATE = {name: code for code, name in enumerate(ENUMS["prev_state"])}
IDLE = 0


def waits(*events: tuple[int, str, Any], last: int = 1000) -> dict[int, int]:
    """{task: ns} of `(ts, "waking", task)` and `(ts, "switch", (prev, state, next))`."""
    rows = [(i, ts, what, arg) for i, (ts, what, arg) in enumerate(events)]
    wakings = [(i, ts, arg) for i, ts, what, arg in rows if what == "waking"]
    switches = [(i, ts, *arg) for i, ts, what, arg in rows if what == "switch"]
    waking = dict(zip(("id", "ts_ns", "task"), np.array(wakings, np.int64).reshape(-1, 3).T, strict=True))
    names = ("id", "ts_ns", "prev_task", "prev_state", "next_task")
    columns = [(i, ts, p, STATE[s], n) for i, ts, p, s, n in switches]
    switch = dict(zip(names, np.array(columns, np.int64).reshape(-1, 5).T, strict=True))
    ns, task = Happened.of(waking, switch).waits(last)
    return dict(zip(task.tolist(), ns.tolist(), strict=True))


def test_a_sleeper_waits_until_it_gets_a_cpu() -> None:
    assert waits((10, "switch", (7, "S", IDLE)), (20, "waking", 7), (50, "switch", (IDLE, "R", 7))) == {7: 30}


def test_a_sleeper_that_never_runs_waits_to_the_end() -> None:
    assert waits((10, "switch", (7, "D", IDLE)), (20, "waking", 7), (25, "switch", (IDLE, "R", 8)), last=90) == {7: 70}


def test_the_first_of_several_wakings_counts() -> None:
    assert waits(
        (10, "switch", (7, "S", IDLE)), (20, "waking", 7), (30, "waking", 7), (50, "switch", (IDLE, "R", 7))
    ) == {7: 30}


def test_a_running_or_preempted_task_does_not_wait() -> None:
    running = [(10, "switch", (IDLE, "R", 7)), (20, "waking", 7), (40, "switch", (7, "S", IDLE))]
    assert waits(*running) == {}
    assert waits((10, "switch", (7, "R+", 8)), (20, "waking", 7), (50, "switch", (8, "S", 7))) == {}
    assert waits((20, "waking", 7), (40, "switch", (7, "R", 8)), (60, "switch", (8, "S", 7))) == {}


def test_an_unknown_past_counts_when_the_task_runs_next() -> None:
    assert waits((20, "waking", 7), (50, "switch", (IDLE, "R", 7)), (60, "waking", 9)) == {7: 30}


def test_tasks_do_not_mix() -> None:
    assert waits(
        (5, "switch", (8, "S", IDLE)), (10, "switch", (7, "S", IDLE)), (20, "waking", 7), (22, "waking", 8),
        (50, "switch", (IDLE, "R", 8)), (70, "switch", (8, "R", 7)),
    ) == {7: 50, 8: 28}  # fmt: skip
    assert waits() == {}


def woken(ts: int, tid: int) -> tracedat.Row:
    return ts, 0, "sched_waking", {"comm": "x", "pid": tid, "prio": 120, "target_cpu": 0}


def switched(ts: int, prev: int, state: int, to: int) -> tracedat.Row:
    names = {"prev_comm": "x", "next_comm": "x", "prev_prio": 120, "next_prio": 120}
    return ts, 0, "sched_switch", {**names, "prev_pid": prev, "prev_state": state, "next_pid": to}


def test_a_wait_may_be_longer_than_what_a_look_holds(tmp_path: Path) -> None:
    """Task 7 sleeps in one look, is woken in the next and gets its CPU in the fourth; of those without a past that is
    known, and of one that was preempted (8), nothing is said. Numbers of tasks differ from look to look."""
    s = 10**9
    looks = Looks()

    def look(*rows: tracedat.Row) -> Sample | None:
        tracedat.write(tmp_path / "trace.dat", rows, machine=tracedat.Machine(1))
        return looks.worst(tmp_path / "trace.dat")

    assert look(switched(1 * s, 7, 1, 8), switched(2 * s, 8, 0, 9)) is None
    assert look(woken(3 * s, 8), woken(4 * s, 7), woken(5 * s, 7), woken(6 * s, 9)) == Sample(2 * s, 7)
    assert look(switched(9 * s, 9, 1, 11)) == Sample(5 * s, 7), "still"
    assert look(switched(12 * s, 11, 1, 8), switched(13 * s, 8, 1, 7)) == Sample(9 * s, 7)
    assert look(woken(14 * s, 11), switched(15 * s, 7, 0, 11)) == Sample(1 * s, 11)
    assert look(woken(16 * s, 8)) == Sample(0, 8)
    looks.forget()
    assert look(switched(60 * s, 11, 0, 9)) is None, "events were lost: 8 may have run meanwhile"


def page(ts: int, marked: bool = False) -> bytes:
    return struct.pack("=QQ", ts, 100 | (3 << 30 if marked else 0)).ljust(256, b"x")


def test_the_common_window(tmp_path: Path) -> None:
    """CPU 0 overwrote what came before 300, CPU 1 before 200, CPU 2 nothing."""
    files = {cpu: tmp_path / str(cpu) for cpu in range(3)}
    files[0].write_bytes(page(300, True) + page(400))
    files[1].write_bytes(page(200, True) + page(290) + page(310))
    files[2].write_bytes(page(10) + page(350))
    clip(files, 256)
    assert files[0].read_bytes() == page(300) + page(400)
    assert files[1].read_bytes() == page(290) + page(310), "the page that was being written at 300 stays"
    assert files[2].read_bytes() == page(10) + page(350)


def test_without_overwriting_everything_stays(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(page(10) + page(20))
    clip({0: tmp_path / "0"}, 256)
    assert (tmp_path / "0").read_bytes() == page(10) + page(20)


def test_it_keeps_the_last_of_the_recording(tracing: Machine, work: Path) -> None:
    before = tracing.settings()
    done = tracing.rewake("record", "--flight-recorder", "--buffer", "64K", "--format", "json", "-o", work / "a.rewake",
                          "--", sys.executable, "-c", PING_PONG, "0.8")  # fmt: skip
    told = json.loads(done.stdout)
    assert told["capture"]["mode"] == "flight" and told["stopped_by"] == "command" and tracing.settings() == before
    manifest = Recording(work / "a.rewake").manifest
    overrun = sum(c["overrun"] for c in manifest["capture"]["kernel"])
    assert overrun > 1000, "64 KiB do not hold all of it"
    assert manifest["lost"] == 0 and all(c["gaps"] == 0 for c in manifest["loss"]), "the window itself is whole"
    assert 0 < manifest["span_ns"] < 0.8e9 and manifest["events_total"] > 100


def test_a_long_wait_ends_it(tracing: Machine, work: Path) -> None:
    """Six loops on one CPU make a seventh task wait for milliseconds."""
    if shutil.which("taskset") is None:
        pytest.skip("taskset is not installed")
    loops = "for i in 1 2 3 4 5 6; do timeout 6 sh -c 'while :; do :; done' & done"
    load = f"{loops}; for i in $(seq 250); do sleep 0.02; done; wait"
    done = tracing.rewake(
        "record", "--flight-recorder", "--stop-on", "wakeup-latency=2ms", "--format", "json", "-o", work / "a.rewake",
        "--", "setsid", "-w", "taskset", "-c", "0", "sh", "-c", load,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["stopped_by"] == "latency" and told["seconds"] < 8
    limit = told["capture"]["stop_latency_ns"]
    assert limit >= 2_000_000
    # The wait that ended it is in the recording: a switch to the thread that long after its waking.
    con = Recording(work / "a.rewake").connect(("waking", "switch", "task"))
    found = con.execute(
        "SELECT max(s.ts_ns - w.ts_ns) FROM waking w JOIN task ON w.task = task_id ASOF JOIN switch s"
        " ON s.next_task = w.task AND s.ts_ns >= w.ts_ns WHERE tid = ?", [told["capture"]["stop_tid"]]
    ).fetchone()  # fmt: skip
    assert found is not None and (found[0] is None or found[0] >= 1_900_000)


def test_usage(work: Path) -> None:
    done = Machine([]).rewake("record", "--stop-on", "wakeup-latency=5ms", ok=False)
    assert done.returncode == 2 and "needs --flight-recorder" in done.stderr
    done = Machine([]).rewake("record", "--flight-recorder", "--stop-on", "load=5", ok=False)
    assert done.returncode == 2 and "only wakeup-latency=TIME is known" in done.stderr
    done = Machine([]).rewake("record", "--flight-recorder", "--stop-on", "wakeup-latency=0.1ns", ok=False)
    assert done.returncode == 2 and "expected a duration above 0" in done.stderr, "it was 0, which any wakeup takes"
