# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the clocks of a recording's CPUs agree closely enough to order what two of them do within a microsecond."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rewake.forms import ENUMS, Recording, with_null
from rewake.replay import wake_lists
from rewake.replay.recorded import capacities

_FEWEST, _FEW, _ENOUGH, _PARTS = 200, 20, 10_000, 8
"""So many interrupts for wake lists tell, a thousandth of them too, where so many go from a CPU of some speed to one of
some speed; no more are read, nor more parts."""

_APART_NS, _APART_SPEEDS_NS = 700, 500
"""So much earlier than the first quarter the first thousandth of them may come. As measured: up to 0.5 us where clocks
differ by 0.4 us, 0.9 to 3 us where by 2 us. The second where CPUs differ in speed, in time of the fastest where the
slower of the two takes it: up to 0.46 us where clocks run evenly, 0.55 to 1.6 us where they jump."""

_LONGEST_NS = 100_000
"""Later interrupts were not sent for that task."""


def agree(recording: Recording, n_cpus: int) -> bool:
    """No interrupt that has a CPU queue a task comes much earlier than others after the sched_migrate_task, on the
    waker's CPU, of that task: what it takes at least is always the same for two CPUs of these speeds, so the earliest
    ones tell of the clocks. False where too few tell."""
    speed = np.array(capacities(recording, n_cpus))
    found: list[npt.NDArray[np.int64]] = []
    for k in range(min(recording.n_parts, _PARTS)):
        if sum(part.shape[1] for part in found) > _ENOUGH:
            break
        found.append(_since_moved(recording, k, n_cpus))
    since, waker, to = np.concatenate([np.empty((3, 0), np.int64), *found], axis=1)
    pairs, pair = np.unique(speed[waker] * (speed.max() + 1) + speed[to], return_inverse=True)
    early = since.astype(np.float64)
    for k in range(len(pairs)):
        early[pair == k] -= np.quantile(since[pair == k], 0.25)
    early *= np.minimum(speed[waker], speed[to]) / speed.max()
    told = early[np.bincount(pair, minlength=1)[pair] >= _FEW]
    if len(told) < _FEWEST:
        return False
    if len(np.unique(speed)) > 1:  # few tell as a rule: then the earliest one counts
        return bool(-np.quantile(told, 0.001, method="lower") <= _APART_SPEEDS_NS)
    return bool(-np.quantile(told, 0.001) <= _APART_NS)


def _since_moved(recording: Recording, index: int, n_cpus: int) -> npt.NDArray[np.int64]:
    """From the sched_migrate_task of tasks that wakeups moved to the interrupts that had them queued, ns; the CPU that
    recorded it; the CPU that it went to: three rows."""
    queued, began = wake_lists.first_queued(recording, index, n_cpus)
    names = ("id", "ts_ns", "cpu", "task", "dest_cpu", "cause")
    moved = recording.read_part("migrate", index, names)
    why, unknown = with_null(moved["cause"])
    of_wakeup = (why == ENUMS["migrate_cause"].index("wake")) & ~unknown
    key, ts, waker, task, dest = (with_null(moved[name])[0][of_wakeup].astype(np.int64) for name in names[:-1])
    if not len(key) or not len(began):
        return np.empty((3, 0), np.int64)
    at, same = wake_lists.last_before({"id": key, "cpu": task}, {"id": queued["id"], "cpu": queued["task"]})
    ns = began - ts[at]
    good = same & (dest[at] == queued["cpu"]) & (ns < _LONGEST_NS)
    return np.stack([ns, waker[at], dest[at]])[:, good]
