# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the clocks of a recording's CPUs agree closely enough to order what two of them do within a microsecond."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rewake.forms import ENUMS, Recording
from rewake.replay import wake_lists
from rewake.replay.recorded import capacities, with_null

_FEWEST, _ENOUGH, _PARTS = 200, 10_000, 8
"""So many interrupts for wake lists tell, a thousandth of them too; no more are read, nor more parts."""

_APART_NS = 700
"""So much earlier than the first quarter the first thousandth of them may come. As measured: up to 0.5 us where clocks
differ by 0.4 us, 0.9 to 3 us where by 2 us."""

_LONGEST_NS = 100_000
"""Later interrupts were not sent for that task."""


def agree(recording: Recording, n_cpus: int) -> bool:
    """No interrupt that has a CPU queue a task comes much earlier than others after the sched_migrate_task, on the
    waker's CPU, of that task: what it takes at least is always the same, so the earliest ones tell of the clocks. False
    where too few tell, and where CPUs differ in speed: there it is not always the same."""
    if len(set(capacities(recording, n_cpus))) > 1:
        return False
    found: list[npt.NDArray[np.int64]] = []
    for k in range(min(recording.n_parts, _PARTS)):
        if sum(map(len, found)) > _ENOUGH:
            break
        found.append(_since_moved(recording, k, n_cpus))
    since = np.concatenate([np.empty(0, np.int64), *found])
    if len(since) < _FEWEST:
        return False
    first, quarter = np.quantile(since, (0.001, 0.25))
    return bool(quarter - first <= _APART_NS)


def _since_moved(recording: Recording, index: int, n_cpus: int) -> npt.NDArray[np.int64]:
    """From the sched_migrate_task of tasks that wakeups moved to the interrupts that had them queued, ns."""
    queued, began = wake_lists.first_queued(recording, index, n_cpus)
    moved = recording.read_part("migrate", index, ("id", "ts_ns", "task", "dest_cpu", "cause"))
    why, unknown = with_null(moved["cause"])
    of_wakeup = (why == ENUMS["migrate_cause"].index("wake")) & ~unknown
    key, ts, task, dest = (with_null(moved[name])[0][of_wakeup] for name in ("id", "ts_ns", "task", "dest_cpu"))
    if not len(key) or not len(began):
        return np.empty(0, np.int64)
    at, same = wake_lists.last_before({"id": key, "cpu": task}, {"id": queued["id"], "cpu": queued["task"]})
    ns = began - ts[at]
    return np.asarray(ns[same & (dest[at] == queued["cpu"]) & (ns < _LONGEST_NS)], np.int64)
