# SPDX-License-Identifier: GPL-2.0-or-later
"""Sleepers that sched_switch calls runnable.

Kernels 5.8 to 5.17 read a task's state once more as they print the switch. One that was being woken meanwhile has a
waking one then, which prints as R; until 5.7 a waker changed it only once the task had left its CPU, and since 5.18 the
switch prints what it decided by. A task that is runnable is not woken: whose next event is its sched_wakeup, and not
the switch that takes it in, did sleep. Measured on 5.10 and 5.15: about one wakeup in a hundred of schbench.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from rewake.forms import ENUMS, RecordingWriter, kernel_version

FIRST, FIXED = (5, 8), (5, 18)
"""Releases that print so; vendors' builds of 5.14 and 5.15 do, too."""

_RUNNABLE = ENUMS["prev_state"].index("R")
_SLEEPS = ENUMS["prev_state"].index("other")
"""Which sleep it was, nothing tells."""

_LEAVES, _COMES, _WOKEN = range(3)
_Ints = npt.NDArray[np.int64]


def mend(writer: RecordingWriter, kernel: str | None) -> str | None:
    """Rewrites prev_state where a task slept; returns what is to be said of it. None: nothing to mend."""
    if not FIRST <= kernel_version(kernel) < FIXED:
        return None
    found = list(_slept(writer))
    if not found:
        return None
    part_of, row_of = np.array(found, np.int64).T
    for part in map(int, np.unique(part_of)):
        columns: Any = writer.read_part("switch", part)
        state = np.array(columns["prev_state"])
        state[row_of[part_of == part]] = _SLEEPS
        writer.write_part("switch", part, dict(columns) | {"prev_state": state})
    return (
        f"{len(found):,} switches say R of a task whose next event is its wakeup: it slept, and was being woken"
        " (kernels 5.8 to 5.17 print so); it is taken to have slept"
    )


def _slept(writer: RecordingWriter) -> Iterator[tuple[int, int]]:
    """Part and row of such switches."""
    waits: dict[int, tuple[int, int]] = {}  # by task: its switch is the last event of it so far
    for part in range(writer.n_parts):
        task, kind, row = _events(writer, part)
        if not len(task):
            continue
        first = np.r_[True, task[1:] != task[:-1]]
        last = np.r_[first[1:], True]
        raced = (kind[:-1] == _LEAVES) & (row[:-1] >= 0) & (kind[1:] == _WOKEN) & ~last[:-1]
        for at in np.flatnonzero(first & np.isin(task, np.fromiter(waits, np.int64, len(waits)))):
            before = waits.pop(int(task[at]))
            if kind[at] == _WOKEN:
                yield before
        for r in row[:-1][raced]:
            yield part, int(r)
        for at in np.flatnonzero(last & (kind == _LEAVES) & (row >= 0)):
            waits[int(task[at])] = part, int(row[at])


def _events(writer: RecordingWriter, part: int) -> tuple[_Ints, _Ints, _Ints]:
    """Task, kind and row of its switches and wakeups, each task's in order of time. Row -1: it does not leave as R."""
    switch: Any = writer.read_part("switch", part, ("id", "prev_task", "prev_state", "next_task"))
    wakeup: Any = writer.read_part("wakeup", part, ("id", "task"))
    n, m = len(switch["id"]), len(wakeup["id"])
    task = np.concatenate([switch["prev_task"], switch["next_task"], wakeup["task"]]).astype(np.int64)
    kind = np.repeat(np.array([_LEAVES, _COMES, _WOKEN]), [n, n, m])
    row = np.full(2 * n + m, -1)
    row[:n] = np.where(switch["prev_state"] == _RUNNABLE, np.arange(n), -1)
    order = np.lexsort((np.concatenate([switch["id"], switch["id"], wakeup["id"]]), task))
    return task[order], kind[order], row[order]
