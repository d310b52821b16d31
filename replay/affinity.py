# SPDX-License-Identifier: GPL-2.0-or-later
"""CPUs that tasks may use where the snapshot's masks were not in force: no recorded event tells of sched_setaffinity.

Placement probes count the allowed CPUs. Where that is not the number of the snapshot's mask, the mask is inferred: the
CPUs on which tasks of that name with that number were placed *earlier*; where these are more than the number, as after
a second change, those of the task itself since its number changed. Without probes only a task that runs outside its
mask tells of a change (engine/open_loop.cpp).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rewake.forms import Recording
from rewake.replay.probes import Nullable
from rewake.replay.recorded import cpus_in, with_null

ENOUGH = 10
"""So many placements for each CPU of a mask show all of it that matters."""


class Masks(NamedTuple):
    """Inferred masks."""

    lists: list[str]
    """Kernel lists."""
    of: npt.NDArray[np.uint32]
    """Per decision, which of them; where `none` says so, the snapshot's."""
    none: npt.NDArray[np.bool_]


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
    out = Masks([], np.zeros(len(task), np.uint32), np.ones(len(task), np.bool_))
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
