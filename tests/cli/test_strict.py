# SPDX-License-Identifier: GPL-2.0-or-later
"""Streams that do not belong together: imported and told about, refused by --strict."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tracedat
from command import told

from rewake.forms import ENUMS, Recording
from rewake.streams import problems, silences, unrecorded, window

CPUS = 3
UNRECORDED = ENUMS["decision_class"].index("unrecorded")
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


def classes(path: Path) -> tuple[Any, Any]:
    """Times of the decisions that are not counted for lack of records, and of the others."""
    found = Recording(path.with_suffix(".rewake")).read("decision", ("ts_ns", "class"))
    ts, left_out = np.asarray(found["ts_ns"]), np.asarray(found["class"]) == UNRECORDED
    return ts[left_out], ts[~left_out]


def test_records_that_end_early(tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]) -> None:
    """Its last task goes on elsewhere: there was more. What is decided after its last record is not counted."""
    edge = at(events, 0.5, "next_pid")
    path = write(tmp_path / "t.dat", cut(events, lambda ts, cpu: (cpu != 1) | (ts <= edge)))
    manifest = check(path, "all CPUs' records cover 0.000s..", capsys)
    assert manifest["window"] == {"begin_ns": manifest["first_ns"], "end_ns": edge, "late": [], "cut": [1]}
    left_out, counted = classes(path)
    assert len(left_out) > 100 and left_out.min() > edge >= counted.max()
    card = told(capsys, "check", path.with_suffix(".rewake"), "--force")
    assert "decisions outside of the time that all CPUs' r" in card
    shown = told(capsys, "replay", path.with_suffix(".rewake"), "--policy", "prev", "--format", "json", "--force")
    rows = [r for r in json.loads(shown)["not_counted"] if r["class"] == "unrecorded"]
    assert sum(r["decisions"] for r in rows) == len(left_out)
    key = tmp_path / "key"
    key.write_bytes(bytes(range(64)))
    told(capsys, "slice", path.with_suffix(".rewake"), "--redact", key, "-o", tmp_path / "redacted.rewake")
    assert Recording(tmp_path / "redacted.rewake").manifest["window"] == manifest["window"]
    covered = edge - manifest["first_ns"]
    inside = sliced(path, f"..{covered}ns", capsys)
    assert (inside["window"], inside["problems"], inside["slice"]["damage"]) == (None, [], [])
    across = sliced(path, f"{covered // 2}ns..", capsys)
    assert across["window"] == manifest["window"] | {"begin_ns": across["first_ns"]} and len(across["problems"]) == 1
    behind = sliced(path, f"{covered + 1_000_000}ns..", capsys)
    assert behind["problems"] == ["there is no time that all CPUs' records cover: no decision is counted"]


def sliced(path: Path, window: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    out = path.with_name("slice.rewake")
    told(capsys, "slice", path.with_suffix(".rewake"), "--window", window, "-o", out)
    return Recording(out).manifest


def test_records_that_begin_late(tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]) -> None:
    """An overwritten buffer: losses before the CPU's first record."""
    edge = at(events, 0.5, "prev_pid")
    rows: list[tracedat.Row] = [(edge, 1, "loss", {"lost": 77})]
    for name, columns in cut(events, lambda ts, cpu: (cpu != 1) | (ts >= edge)).items():
        for values in zip(*(c.tolist() for c in columns.values()), strict=True):
            row = dict(zip(columns, values, strict=True))
            rows.append((row.pop("ts"), row.pop("cpu"), name, row))
    path = tmp_path / "t.dat"
    tracedat.write(path, rows, machine=tracedat.Machine(CPUS))
    manifest = check(path, "decisions before and after are not counted", capsys)
    assert manifest["window"] == {"begin_ns": edge, "end_ns": manifest["last_ns"], "late": [1], "cut": []}
    left_out, counted = classes(path)
    assert len(left_out) > 100 and left_out.max() < edge <= counted.min()
    assert manifest["replay"]["resync"] == 1  # the loss itself; what contradicts before is not counted


def test_a_file_that_is_cut_off(tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]) -> None:
    """trace.dat has one CPU after the other: of the last one nothing is left, so nothing can be counted."""
    path = write(tmp_path / "t.dat", events)
    data = path.read_bytes()
    whole = Recording(import_of(path, capsys)).manifest
    sizes = [sum(int((c["cpu"] == cpu).sum()) for c in events.values()) for cpu in range(CPUS)]
    path.write_bytes(data[: len(data) * (sizes[0] + sizes[1] // 2) // sum(sizes)])
    manifest = check(path, "there is no time that all CPUs' records cover: no decision is counted", capsys)
    assert manifest["window"]["cut"] == [1, 2]
    assert manifest["first_ns"] == whole["first_ns"]
    assert {c["cpu"] for c in manifest["loss"] if c["gaps"]} == {1, 2}
    assert len(classes(path)[1]) == 0


def import_of(path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    return Path(told(capsys, "import", path).strip())


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
    half = f"{manifest['span_ns'] // 2}ns"
    part = sliced(path, f"..{half}", capsys)  # where it steps back is not known: of the whole, and counted as such
    assert part["problems"] == [] and part["slice"]["damage"] == manifest["problems"]
    shown = told(capsys, "info", path.with_name("slice.rewake"))
    assert "in the recording that this is a slice of, here or elsewhere\n  " + manifest["problems"][0][:20] in shown
    assert "of damage in the recording that this is a slice of" in told(
        capsys, "check", path.with_name("slice.rewake"), "--force"
    ).replace("\n", " ")
    key = tmp_path / "key"
    key.write_bytes(bytes(range(64)))
    told(capsys, "slice", path.with_suffix(".rewake"), "--redact", key, "-o", tmp_path / "all.rewake")
    only = ("--window", f"..{half}", "--redact", key)
    told(capsys, "slice", path.with_suffix(".rewake"), *only, "-o", tmp_path / "r.rewake")
    redacted = Recording(tmp_path / "r.rewake").manifest["slice"]
    assert redacted["of"] == Recording(tmp_path / "all.rewake").manifest["id"] != manifest["id"]


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


def test_the_records_of_one_cpu_given_for_all(
    tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where the offsets of a file lead to one section. Only its wakeups that contradict each other told of it."""
    one = cut(events, lambda ts, cpu: cpu == 0)
    shared = {n: {k: np.tile(v, 2) for k, v in c.items()} for n, c in one.items()}
    for columns in shared.values():
        columns["cpu"] = np.repeat([0, 1], len(columns["cpu"]) // 2).astype(columns["cpu"].dtype)
    shared = {n: {k: v[np.argsort(c["ts"], kind="stable")] for k, v in c.items()} for n, c in shared.items()}
    manifest = check(write(tmp_path / "t.dat", shared), "2 CPUs, 0 among them, have the same", capsys)
    assert manifest["problems"][0].endswith("records: one CPU's, given for each")


def test_cpus_without_any_records_where_tasks_went(
    tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]
) -> None:
    """trace-cmd record -M is not in the file: only switches that contradict each other told of it."""
    path = write(tmp_path / "t.dat", cut(events, lambda ts, cpu: cpu == 0))
    (problem,) = check(path, "2 CPUs, 1 among them, have no records, and ", capsys)["problems"]
    assert problem.endswith(
        "times a task was put there: not recorded (trace-cmd record -M, tracing_cpumask); record all CPUs"
    )
    assert "1 kinds of damage in the trace" in told(capsys, "check", path, "--force")


def test_an_idle_cpu_and_one_that_was_not_asked_for_need_no_records() -> None:
    streams = [{"cpu": 0, "events": 10}]
    assert unrecorded(streams, {0: 10, 1: 9}, None) == [], "what it did next lies behind the end"
    assert unrecorded(streams, {0: 10, 1: 10}, [0]) == []
    (told_of,) = unrecorded(streams, {0: 10, 1: 10}, None)
    assert told_of.startswith("CPU 1 has no records, and 10 times")
    assert unrecorded([], {1: 10}, None) == [], "a format that does not tell of its streams"


def test_silence_of_an_idle_cpu_is_no_problem() -> None:
    one = {"cpu": 0, "events": 10_000, "first_ns": 0, "last_ns": 10**9, "steps_back": 0, "busy_first": True,
           "late": False, "cut": False}  # fmt: skip
    short = {**one, "cpu": 1, "events": 500, "last_ns": 10**8}
    for busy, told_of in ((True, 1), (False, 0), (None, 0)):
        streams = [{**one, "busy_last": True}, {**short, "busy_last": busy}]
        assert len(problems(streams)) == len(silences(streams)) == told_of
        assert window(streams) is None
    few = {**short, "events": 2, "busy_last": True}  # two records say nothing of its pauses
    assert problems([{**one, "busy_last": True}, few]) == []
    many = [{**short, "cpu": c, "busy_last": True} for c in range(1, 20)]
    assert problems([{**one, "busy_last": True}, *many])[-1] == "and 11 more of this kind"
    assert problems([]) == [] and window([]) is None


def test_decisions_during_a_silence_are_counted_and_told(
    tmp_path: Path, events: Columns, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task that stays on its CPU may have computed all the time: no evidence, so no decision is left out."""
    edge = at(events, 0.5, "next_pid")
    task = events["sched_switch"]
    last = (task["cpu"] == 1) & (task["ts"] == edge)
    tid = int(task["next_pid"][last][0])

    def keep(name: str, columns: dict[str, Any]) -> Any:
        of = [columns[f] == tid for f in ("pid", "prev_pid", "next_pid", "child_pid", "parent_pid") if f in columns]
        later = columns["ts"] > edge
        return ~(later & ((columns["cpu"] == 1) | np.logical_or.reduce([*of, np.zeros(len(later), np.bool_)])))

    kept = {n: {k: v[keep(n, c)] for k, v in c.items()} for n, c in events.items()}
    path = write(tmp_path / "t.dat", kept)
    manifest = check(path, "CPU 1: records end", capsys)
    assert manifest["window"] is None
    assert manifest["silences"] == [{"cpu": 1, "edge": "end", "at_ns": manifest["silences"][0]["at_ns"]}]
    left_out, counted = classes(path)
    assert len(left_out) == 0
    until = manifest["silences"][0]["at_ns"] - manifest["first_ns"]
    part = sliced(path, f"..{until / 1e9:.3f}s", capsys)
    assert part["silences"] == part["problems"] == part["slice"]["damage"] == []
    (problem,) = sliced(path, f"{until + 1_000_000}ns..", capsys)["problems"]
    assert problem == "CPU 1: no records and a task was running: not recorded there, or another clock"
    assert manifest["replay"]["silent"] == int((counted > manifest["silences"][0]["at_ns"]).sum()) > 100
    assert "decisions were made while CPU 1 had no records" in told(capsys, "check", path, "--force")


def test_starting_cpu_by_cpu_is_no_problem() -> None:
    """perf walks through the CPUs: microseconds, kept out of the figures but not worth a word."""
    one = {"events": 1000, "steps_back": 0, "busy_first": False, "busy_last": False, "late": False, "cut": False}
    streams = [{**one, "cpu": 0, "first_ns": 0, "last_ns": 10**9},
               {**one, "cpu": 1, "first_ns": 4000, "last_ns": 10**9, "late": True}]  # fmt: skip
    assert problems(streams) == []
    assert window(streams) == {"begin_ns": 4000, "end_ns": 10**9, "late": [1], "cut": []}
