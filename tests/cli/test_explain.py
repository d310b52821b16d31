# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake explain`: golden texts of a hand-made trace with hostile names, and the errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tracedat

from rewake.analysis import explain
from rewake.analysis.text import columns
from rewake.forms import ENUMS, FAIR_CLASSES

Run = Callable[..., tuple[int, str, str]]

TOPOLOGY = "pack:1 l3:2 core:2 pu:2"
GOLDEN = Path(__file__).parent / "golden"
WAKER, HOG, WAKEE, RT, TIMER = (
    (b"</script>", 10), (b"=cmd()", 20), (b"\x1b[2Jgone", 30), (b"a|b", 40), (b"\xff\xfe", 50)
)  # fmt: skip


def switch(ts: int, cpu: int, prev: tuple[bytes, int], next_: tuple[bytes, int], state: int = 1) -> tracedat.Row:
    values = {
        "prev_comm": prev[0], "prev_pid": prev[1], "prev_prio": 120, "prev_state": state, "next_comm": next_[0],
        "next_pid": next_[1], "next_prio": 120, "common_pid": prev[1],
    }  # fmt: skip
    return ts, cpu, "sched_switch", values


def wake(
    ts: int, cpu: int, task: tuple[bytes, int], curr: int, prev: int, to: int, prio: int = 120
) -> list[tracedat.Row]:
    """sched_waking, sched_migrate_task where it moves, sched_wakeup; in a hardirq when `curr` is the idle task."""
    common = {"comm": task[0], "pid": task[1], "prio": prio, "common_pid": curr, "common_flags": 0 if curr else 8}
    rows: list[tracedat.Row] = [(ts, cpu, "sched_waking", {**common, "target_cpu": prev})]
    if to != prev:
        rows.append((ts + 200, cpu, "sched_migrate_task", {**common, "orig_cpu": prev, "dest_cpu": to}))
    return [*rows, (ts + 400, cpu, "sched_wakeup", {**common, "target_cpu": to})]


IDLE = (b"swapper/0", 0)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """8 CPUs (cores 0+1, 2+3, …), 2 LLCs. CPU 0 runs the waker, CPU 2 a hog; the wakee slept on CPU 2."""
    ms = 1_000_000
    rows = [
        switch(10 * ms, 0, IDLE, WAKER, 0),
        switch(10 * ms + 1000, 2, WAKEE, HOG),
        switch(10 * ms + 2000, 5, RT, IDLE),
        switch(10 * ms + 3000, 6, TIMER, IDLE),
        *wake(20 * ms, 0, WAKEE, WAKER[1], 2, 1),  # decision 0: away from the hog
        switch(20 * ms + 5000, 1, IDLE, WAKEE, 0),
        switch(21 * ms, 1, WAKEE, IDLE),
        *wake(22 * ms, 0, RT, WAKER[1], 5, 5, prio=50),  # decision 1: not fair
        *wake(23 * ms, 4, TIMER, 0, 6, 6),  # decision 2: from an interrupt on an idle CPU
        *wake(30 * ms, 0, WAKEE, WAKER[1], 1, 1),  # decision 3: back to its idle CPU
        switch(30 * ms + 5000, 1, IDLE, WAKEE, 0),
        switch(40 * ms, 0, WAKER, IDLE),
    ]
    path = tmp_path / "by-hand" / "trace.dat"
    path.parent.mkdir()
    machine = tracedat.Machine(8, uname="Linux x 6.1.0-test #1 SMP x86_64")
    tracedat.write(path, sorted(rows, key=lambda r: (r[0], r[1])), machine=machine)
    return path


def text(run: Run, *arguments: object) -> str:
    code, out, err = run("explain", *arguments)
    assert code == 0, err
    return out


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("moved", ("--decision", 0, "--policy", "prev", "--policy", "linux-6.1:WA_WEIGHT=0")),
        ("real-time", ("--decision", 1)),
        ("interrupt", ("--decision", 2, "--policy", "auto", "--policy", "linux-4.12.3")),
        ("buddy", ("--decision", 3, "--policy", "wakeup-buddy", "--assume", "sync=1")),
    ],
)
def test_golden(name: str, arguments: tuple[object, ...], trace: Path, run: Run) -> None:
    told = text(run, trace, "--topology", TOPOLOGY, *arguments)
    assert all(columns(line) <= 100 for line in told.splitlines())
    assert "\x1b" not in told
    golden = GOLDEN / f"explain-{name}.txt"
    assert told == golden.read_text(encoding="utf-8")


def test_every_seed_by_default_and_hostile_names_stay_harmless(trace: Path, run: Run) -> None:
    told = text(run, trace, "--topology", TOPOLOGY, "--decision", 0)
    for policy in ("linux-6.1 (", "prev:", "idle-thread-scan:", "wakeup-buddy:", "irq-aware:", "asym-prefer-prev:"):
        assert f"\n{policy}" in told
    assert r"\x1b[2Jgone/30" in told
    data = json.loads(text(run, trace, "--topology", TOPOLOGY, "--decision", 0, "--format", "json"))
    assert data["kind"] == "explain"
    assert data["decision"]["decision_id"] == 0
    assert data["policies"][0]["steps"][-1]["decided"] is True
    assert {row["llc"]: row["idle"] for row in data["machine"]} == {0: [1, 3], 4: [4, 5, 6, 7]}


@pytest.mark.parametrize(
    ("at", "decision"),
    [
        (None, 0), ("0.020000", 0), ("0.0200001", 3), ("0.02", 0), ("11ms", 3), ("0s", 0), ("10000us", 0), ("20ms", 3),
    ],
)  # fmt: skip
def test_pid_and_time(at: str | None, decision: int, trace: Path, run: Run) -> None:
    arguments = ["--pid", 30, *(["--at", at] if at else [])]
    data = json.loads(text(run, trace, "--topology", TOPOLOGY, "--policy", "prev", "--format", "json", *arguments))
    assert data["decision"]["decision_id"] == decision


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "either --decision ID or --pid PID is expected"),
        (("--decision", 1, "--pid", 3), "either --decision ID or --pid PID is expected"),
        (("--decision", 1, "--at", "1s"), "--at belongs to --pid"),
        (("--decision", 4), "has decisions 0 to 3"),
        (("--decision", -1), "has decisions 0 to 3"),
        (("--pid", 77), "no decision is about pid 77"),
        (("--pid", 30, "--at", "1s"), "pid 30 has no decision at or after 1s: its last is at 0.030000000, 20.000000ms"),
        (("--pid", 30, "--at", "soon"), "--at soon: seconds (12.345678) or an offset"),
        (("--decision", 0, "--policy", "nope"), "no policy 'nope'"),
        (("--decision", 0, "--policy", "linux-6.1:X=1"), "linux-6.1 has no parameter 'X'"),
        (("--decision", 0, "--assume", "sync=2"), "sync=0, sync=1, sync=auto or sync=causal expected"),
    ],
)
def test_errors(arguments: tuple[object, ...], told: str, trace: Path, run: Run) -> None:
    code, out, err = run("explain", trace, "--topology", TOPOLOGY, *arguments)
    assert (code, out) == (2, "")
    assert told in err and err.count("\n") == 1


def test_without_topology(trace: Path, run: Run) -> None:
    told = text(run, trace, "--decision", 0, "--policy", "prev")
    assert "topology unknown" in told
    assert "\n  CPUs cpu 0-7   idle: 1 3 4 5 6 7   nr: 0w:1 2p:1\n" in told.replace("1c", "1")


def test_every_class_that_no_policy_decides_has_its_reason() -> None:
    assert set(explain.UNDECIDED) == set(ENUMS["decision_class"]) - set(FAIR_CLASSES)


def test_help(run: Run) -> None:
    code, out, _ = run("explain", "--help")
    assert code == 0
    for word in ("--decision", "--pid", "--at", "--policy", "--assume", "--topology", "--format", "decision_id"):
        assert word in out
