# SPDX-License-Identifier: GPL-2.0-or-later
"""CPUs that tasks may use where the snapshot's masks were not in force: no recorded event tells of sched_setaffinity.

Placement probes count the allowed CPUs. Where that is not the number of the snapshot's mask, the mask is inferred: the
CPUs on which tasks of that name with that number were placed *earlier*; where these are more than the number, as after
a second change, those of the task itself since its number changed.

Without probes the moves tell: who may no longer use the CPU where it runs or waits is moved at once, by the stopper or
by the task that made the call (affine_move_task), and such a call for a whole process moves several of its tasks at a
time. Until the next one its mask is then the CPUs on which its tasks have been placed since, once these have become no
more for a long while. A task that runs outside its mask tells of a change, too (engine/open_loop.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rewake.forms import ENUMS, Recording, with_null
from rewake.replay.probes import Nullable
from rewake.replay.recorded import cpus_in, processes

ENOUGH = 10
"""So many placements for each CPU of a mask show all of it that matters."""


AT_A_TIME, WITHIN_NS = 3, 5_000_000
"""So many tasks of one process that are moved in so short a time were not moved by the balancer."""


ANY = -1


class Masks(NamedTuple):
    """Inferred masks."""

    lists: list[str]
    """Kernel lists."""
    of: npt.NDArray[np.uint32]
    """Per decision, which of them; where `none` says so, the snapshot's."""
    none: npt.NDArray[np.bool_]
    changes: list[tuple[int, int, int]]
    """When, of which process, to which of them; ANY: to all CPUs. Told by what comes after: judges no decision."""


class _Heard:
    """Where tasks with one number of allowed CPUs were placed so far."""

    def __init__(self) -> None:
        self.cpus: set[int] = set()
        self.placed = 0

    def shows(self, n: int) -> bool:
        return len(self.cpus) == n or (len(self.cpus) < n and self.placed >= ENOUGH * n)

    def add(self, cpu: int) -> None:
        self.cpus.add(cpu)
        self.placed += 1


def infer(recording: Recording, truth: Mapping[str, Nullable], names: npt.NDArray[np.int64], online: int) -> Masks:
    """Masks where `truth` (probes.py) counts other CPUs than the snapshot. `names`: what a task is called, by task."""
    counts, unknown = truth["nallowed"]
    decision = recording.read("decision", ("task", "chosen_cpu"))
    task = np.asarray(decision["task"])
    chosen, no_cpu = with_null(decision["chosen_cpu"])
    sizes = np.full(len(names), online)
    attr = recording.read("task_attr", ("task_id", "allowed"))
    masks, no_mask = with_null(attr["allowed"])
    for row in np.flatnonzero(~no_mask).tolist():
        sizes[np.asarray(attr["task_id"])[row]] = cpus_in(masks[row])
    out = Masks([], np.zeros(len(task), np.uint32), np.ones(len(task), np.bool_), [])
    numbers: dict[str, int] = {}
    by_name: dict[tuple[int, int], _Heard] = {}
    by_task: dict[int, tuple[int, _Heard]] = {}
    known = ~unknown & ~no_cpu
    changed = np.zeros(len(names), np.bool_)
    changed[task[known & (counts != sizes[task])]] = True
    for i in np.flatnonzero(known & changed[task]).tolist():
        t, n = int(task[i]), int(counts[i])
        if n == sizes[t]:
            by_task.pop(t, None)
            continue
        if by_task.get(t, (0, None))[0] != n:
            by_task[t] = n, _Heard()
        heard = by_name.setdefault((n, int(names[t])), _Heard()), by_task[t][1]
        for said in heard:
            if said.shows(n):
                text = ",".join(map(str, sorted(said.cpus)))
                out.of[i], out.none[i] = numbers.setdefault(text, len(numbers)), False
                break
        for said in heard:
            said.add(int(chosen[i]))
    out.lists.extend(numbers)
    return out


def from_moves(recording: Recording, online: int) -> Masks | None:
    """Masks of processes whose tasks were moved several at a time; None where there were none."""
    calls = _calls(recording)
    if not calls:
        return None
    decision = recording.read("decision", ("ts_ns", "task", "chosen_cpu"))
    ts, task = np.asarray(decision["ts_ns"]), np.asarray(decision["task"])
    chosen, no_cpu = with_null(decision["chosen_cpu"])
    process = processes(recording)[task]
    out = Masks([], np.zeros(len(task), np.uint32), np.ones(len(task), np.bool_), [])
    numbers: dict[str, int] = {}
    for mine, times in calls.items():
        ends = [*times[1:], np.iinfo(np.int64).max]
        for begin, end in zip(times, ends, strict=True):
            cpus: set[int] = set()
            since, grew = 0, begin
            number: int | None = None
            for i in np.flatnonzero((process == mine) & ~no_cpu & (ts > begin) & (ts <= end)).tolist():
                if len(cpus) < online and since >= ENOUGH * len(cpus) > 0:
                    known = numbers.setdefault(",".join(map(str, sorted(cpus))), len(numbers))
                    out.of[i], out.none[i] = known, False
                    if known != number:
                        out.changes.append((begin if number is None else grew, mine, known))
                        number = known
                if int(chosen[i]) in cpus:
                    since += 1
                else:
                    since, grew = 0, int(ts[i])
                    cpus.add(int(chosen[i]))
                    if len(cpus) == online and number != ANY:
                        out.changes.append((begin if number is None else grew, mine, ANY))
                        number = ANY
    out.lists.extend(numbers)
    return out


def changes(recording: Recording, masks: Masks) -> list[tuple[int, int, int]]:
    """When, which task, to which of the masks; in order of time."""
    tasks: dict[int, list[int]] = {}
    for task, process in enumerate(processes(recording).tolist()):
        tasks.setdefault(process, []).append(task)
    return [(ts, task, number) for ts, process, number in sorted(masks.changes) for task in tasks[process]]


def _calls(recording: Recording) -> dict[int, list[int]]:
    """By process, when several of its tasks were moved at a time."""
    rows = recording.read("migrate", ("ts_ns", "task", "cause"))
    cause, unknown = with_null(rows["cause"])
    names = ENUMS["migrate_cause"]
    forced = np.flatnonzero(np.isin(cause, [names.index("active"), names.index("unknown")]) & ~unknown)
    ts, task = np.asarray(rows["ts_ns"])[forced], np.asarray(rows["task"])[forced]
    process = processes(recording)[task]
    out: dict[int, list[int]] = {}
    for mine in np.unique(process).tolist():
        here = np.flatnonzero(process == mine)
        for k in here.tolist():
            moved = task[here[(ts[here] <= ts[k]) & (ts[here] > ts[k] - WITHIN_NS)]]
            if len(np.unique(moved)) < AT_A_TIME:
                continue
            times = out.setdefault(mine, [])
            if times and ts[k] - times[-1] < WITHIN_NS:
                times[-1] = int(ts[k])  # still the same call
            else:
                times.append(int(ts[k]))
    return out
