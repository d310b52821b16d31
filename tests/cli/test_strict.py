# SPDX-License-Identifier: GPL-2.0-or-later
"""Streams that do not belong together: imported and told about, refused by --strict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tracedat
from command import told

from rewake.forms import Recording
from rewake.streams import problems

CPUS = 3
Columns = dict[str, dict[str, Any]]


def cut(events: Columns, keep: Callable[[Any, Any], Any]) -> Columns:
    return {name: {k: v[keep(c["ts"], c["cpu"])] for k, v in c.items()} for name, c in events.items()}


def at(events: Columns, part: float, field: str, cpu: int = 1) -> int:
    """Time of the first switch of a CPU after `part` of the span that leaves (enters) a task, not the idle task."""
    switch = events["sched_switch"]
    ts = np.concatenate([c["ts"] for c in events.values()])
    after = ts.min() + part * (ts.max() - ts.min())
    return int(switch["ts"][(switch["cpu"] == cpu) & (switch["ts"] > after) & (switch[field] != 0)][0])


def write(path: Path, events: Columns) -> Path:
    tracedat.write(path, events, machine=tracedat.Machine(CPUS))
    return path


@pytest.fixture(scope="module")
def events() -> Columns:
    return {name: dict(columns) for name, columns in tracedat.schedule(12_000, CPUS).items()}


def check(path: Path, why: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    out = path.with_suffix(".rewake")
    message = told(capsys, "import", path, "--strict", "-o", out, code=1)
    assert "refused by --strict: " in message and why in message and not out.exists()
    told(capsys, "import", path, "-o", out)
    return Recording(out).manifest


def test_a_whole_trace_is_not_refused(tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.rewake"
    told(capsys, "import", write(tmp_path / "t.dat", events), "--strict", "-o", out)
    assert Recording(out).manifest["problems"] == []


def test_records_that_end_early(tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]) -> None:
    edge = at(events, 0.5, "next_pid")
    path = write(tmp_path / "t.dat", cut(events, lambda ts, cpu: (cpu != 1) | (ts <= edge)))
    (problem,) = check(path, "CPU 1: records end", capsys)["problems"]
    window = problem.split("--window ")[1].split()[0]
    told(capsys, "slice", path.with_suffix(".rewake"), "--window", window, "-o", tmp_path / "s.rewake")
    last = Recording(tmp_path / "s.rewake").manifest["last_ns"]
    assert abs(last - edge) < 2_000_000  # the advice is in milliseconds


def test_records_that_begin_late(tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]) -> None:
    edge = at(events, 0.5, "prev_pid")
    path = write(tmp_path / "t.dat", cut(events, lambda ts, cpu: (cpu != 1) | (ts >= edge)))
    (problem,) = check(path, "CPU 1: records begin", capsys)["problems"]
    assert "a task was running" in problem


def test_another_clock(tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]) -> None:
    """A CPU whose clock is ahead: tasks run before they are woken."""
    moved = {n: {**c, "ts": c["ts"] + np.where(c["cpu"] == 1, 3_000_000, 0)} for n, c in events.items()}
    manifest = check(write(tmp_path / "t.dat", moved), "the CPUs' clocks differ", capsys)
    assert manifest["replay"]["resync"] > 12


def test_pages_in_another_order(tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "t.dat", events)
    data = path.read_bytes()
    path.write_bytes(data[:-16384] + data[-12288:-8192] + data[-16384:-12288] + data[-8192:])
    manifest = check(path, "its own time steps back 1 times", capsys)
    assert manifest["steps_back"] >= 1


def test_a_page_twice(tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]) -> None:
    """Overlapping streams: the same page once more."""
    path = write(tmp_path / "t.dat", events)
    data = path.read_bytes()
    path.write_bytes(data[:-8192] + data[-12288:-8192] + data[-4096:])
    check(path, "pages misordered or overlapping", capsys)


def test_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[tracedat.Row] = [(i * 1000, 0, "cpu_idle", {"state": 1}) for i in range(1, 9)]
    rows.insert(5, (6000, 0, "loss", {"lost": 7}))
    tracedat.write(tmp_path / "t.dat", rows)
    assert check(tmp_path / "t.dat", "7 events lost in 1 gaps", capsys)["lost"] == 7


def test_silence_of_an_idle_cpu_is_no_problem() -> None:
    one = {"cpu": 0, "events": 10_000, "first_ns": 0, "last_ns": 10**9, "steps_back": 0, "busy_first": True}
    short = {**one, "cpu": 1, "events": 500, "last_ns": 10**8}
    for busy, told_of in ((True, 1), (False, 0), (None, 0)):
        assert len(problems([{**one, "busy_last": True}, {**short, "busy_last": busy}])) == told_of
    few = {**short, "events": 2, "busy_last": True}  # two records say nothing of its pauses
    assert problems([{**one, "busy_last": True}, few]) == []
    many = [{**short, "cpu": c, "busy_last": True} for c in range(1, 20)]
    assert problems([{**one, "busy_last": True}, *many])[-1] == "and 11 more of this kind"
    assert problems([]) == []
