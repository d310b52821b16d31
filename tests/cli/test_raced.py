# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels 5.8 to 5.17 print a sleeper that is being woken as runnable (raced.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tracedat
from command import told

from rewake import raced
from rewake.forms import ENUMS, EVENT_TABLES, Recording, RecordingWriter, dtype_of

STATES = ENUMS["prev_state"]
R, PREEMPTED, S, OTHER = (STATES.index(name) for name in ("R", "R+", "S", "other"))


def imported(folder: Path, events: Any, release: str, capsys: pytest.CaptureFixture[str]) -> Recording:
    machine = tracedat.Machine(3, uname=f"Linux box {release}-1 x86_64")
    tracedat.write(folder / "t.dat", events, machine=machine)
    told(capsys, "import", folder / "t.dat", "-o", folder / f"{release}.rewake")
    return Recording(folder / f"{release}.rewake")


def is_woken_next(events: Any, pid: int, ts: int) -> bool:
    """Before it runs again; some are seen to run first, by the clock of another CPU."""
    switch, wakeup = events["sched_switch"], events["sched_wakeup"]
    runs = switch["ts"][(switch["next_pid"] == pid) & (switch["ts"] > ts)]
    woken = wakeup["ts"][(wakeup["pid"] == pid) & (wakeup["ts"] > ts)]
    return len(woken) > 0 and (len(runs) == 0 or bool(woken.min() < runs.min()))


def test_a_sleeper_that_the_switch_calls_runnable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = {name: dict(columns) for name, columns in tracedat.schedule(12_000, 3).items()}
    as_decided = imported(tmp_path, events, "5.15.0", capsys)
    state = np.asarray(as_decided.read("switch", ("prev_state",))["prev_state"])
    switch = events["sched_switch"]
    sleeps = np.flatnonzero((switch["prev_state"] == 1) & (switch["prev_pid"] != 0))[::5]
    sleeps = sleeps[[is_woken_next(events, switch["prev_pid"][k], switch["ts"][k]) for k in sleeps]]
    assert len(sleeps) > 400
    switch["prev_state"] = switch["prev_state"].copy()
    switch["prev_state"][sleeps] = 0
    found = {v: imported(tmp_path, events, v, capsys) for v in ("5.7.0", "5.10.0", "5.17.9", "5.18.0")}
    for version in ("5.10.0", "5.17.9"):
        mended = np.asarray(found[version].read("switch", ("prev_state",))["prev_state"])
        changed = mended != state
        assert changed.sum() == len(sleeps) and (state[changed] == S).all() and (mended[changed] == OTHER).all()
        note = next(n for n in found[version].manifest["notes"] if "it slept" in n)
        assert note.startswith(f"{len(sleeps):,} switches say R of a task ")
        assert found[version].manifest["replay"]["resync"] == as_decided.manifest["replay"]["resync"] == 0
    for version in ("5.7.0", "5.18.0"):
        assert not any("it slept" in n for n in found[version].manifest["notes"])
        assert found[version].manifest["replay"]["resync"] > 0
    assert not any("it slept" in n for n in as_decided.manifest["notes"])


def columns(table: str, rows: list[dict[str, int]]) -> dict[str, Any]:
    return {c.name: np.array([row.get(c.name, 0) for row in rows], dtype_of(c)) for c in EVENT_TABLES[table].columns}


# (part, event): `out` state, `in`, `wakeup`, of task 7 -> what its switches out are then
CASES = [
    ([(0, R), (0, "wakeup")], [OTHER]),
    ([(0, R), (1, "wakeup")], [OTHER]),
    ([(0, R), (2, "wakeup")], [OTHER]),  # nothing of it in part 1
    ([(0, R), (0, "in"), (0, "wakeup")], [R]),
    ([(0, R), (1, "in"), (1, "wakeup")], [R]),
    ([(0, PREEMPTED), (0, "wakeup")], [PREEMPTED]),  # woken before it could sleep
    ([(0, S), (1, "wakeup")], [S]),
    ([(0, R), (1, "in"), (1, R), (2, "wakeup"), (2, "in")], [R, OTHER]),
    ([(0, R)], [R]),
]


@pytest.mark.parametrize(("course", "after"), CASES)
def test_its_next_event_may_be_in_a_later_part(tmp_path: Path, course: list[tuple[int, Any]], after: list[int]) -> None:
    with RecordingWriter(tmp_path / "t.rewake") as writer:
        for part in range(3):
            switch: list[dict[str, int]] = []
            wakeup: list[dict[str, int]] = []
            for number, (of, event) in enumerate(course):
                if of != part:
                    continue
                if event == "wakeup":
                    wakeup.append({"id": number, "task": 7})
                else:
                    out = {"prev_task": 7, "prev_state": event, "next_task": 8}
                    switch.append({"id": number} | ({"prev_task": 8, "next_task": 7} if event == "in" else out))
            writer.write_part("switch", part, columns("switch", switch))
            writer.write_part("wakeup", part, columns("wakeup", wakeup))
        said = raced.mend(writer, "5.15.0")
        rows: Any = writer.read("switch", ("prev_task", "prev_state"))
    assert rows["prev_state"][rows["prev_task"] == 7].tolist() == after
    assert (said is not None) == (OTHER in after)
