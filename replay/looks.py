# SPDX-License-Identifier: GPL-2.0-or-later
"""When a search for an idle CPU looks at each of them: it takes a while, in which CPUs turn idle and busy.

What a search takes is told by the waker's own clock, from sched_waking to the wakee's sched_migrate_task, and how many
CPUs it examined by the recorded kernel's column (Unseen.searched): a line through the medians of searches of equal
length has what everything else takes, and what one CPU takes. That is one for each speed of the waker's CPU. Only where
clocks agree (clocks.py) do others' events have a time beside that. No decision hears its own outcome: each fold's line
goes through the searches of the others.
(What a CPU costs a simulated search is asked of the time until the wakee is queued, among its like: costs.py.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rewake.forms import ENUMS, Columns, Recording, with_null
from rewake.replay.probes import Nullable
from rewake.replay.unseen import FOLDS, fold_of
from rewake.replay.wake_lists import last_before

FEWEST, LENGTHS = 10, 3
"""So many searches of one length have a median, and so many lengths a line."""

MOST_SPEEDS = 32

_LONGEST_NS = 20_000
"""A wakee that is placed later had to be waited for."""

_TAIL, _TAIL_PROBED = 400, 1_400
"""From the last look to the sched_migrate_task, or to the return that probes see, on a fast CPU: that, and where probes
ran and are not used, ns. With how long before its event others see that a CPU is idle it makes when the first CPU is
looked at after a search of no CPU would have been over. What recordings come out best with whose clocks differ by 0.1
and 0.4 us, and on CPUs of different speeds."""


class Looks(NamedTuple):
    """When searches look."""

    lines: list[tuple[int, int]]
    """Per speed of CPUs and fold (unseen.py): from a wakeup's sched_waking (from the call, where probes are used) to
    the first CPU that its search looks at, and from each to the next, ns; 0, 0: not told."""
    speed: npt.NDArray[np.intp]
    """By CPU."""

    def line_of(self, decisions: Columns, start: int) -> npt.NDArray[np.uint8]:
        """Which of `lines` is that of each decision. `start`: of the first decision of all, ns."""
        fold = fold_of(np.asarray(decisions["ts_ns"]), start)
        return (_of_waker(self.speed, decisions)[0] * FOLDS + fold).astype(np.uint8)


def _of_waker(speed: npt.NDArray[np.intp], decisions: Columns) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Per decision the speed of the waker's CPU, and whether that is not known: then that of CPU 0."""
    waker, unknown = with_null(decisions["waker_cpu"])
    return speed[np.where(unknown, 0, waker)], unknown


def calibrate(
    recording: Recording, searched: npt.NDArray[np.int16], truth: dict[str, Nullable] | None, *, probed: bool,
    capacity: list[int], ahead: int,
) -> Looks:  # fmt: skip
    """As the searches of the other folds tell it. `searched`: Unseen.searched; `truth`: where probes are used;
    `probed`: they ran; `capacity`: by CPU; more than MOST_SPEEDS count as one; `ahead`: how long before its event
    others see that a fast CPU is idle, ns."""
    tail = _TAIL_PROBED if probed and truth is None else _TAIL
    speeds, speed = np.unique(capacity, return_inverse=True)
    if len(speeds) > MOST_SPEEDS:
        speeds, speed = speeds[-1:], np.zeros_like(speed)
    read = recording.read("decision", ("ts_ns", "waker_cpu"))
    ts, (by, unknown) = np.asarray(read["ts_ns"]), _of_waker(speed, read)
    fold = fold_of(ts, int(ts[0])) if len(ts) else ts
    took = np.empty(0, np.int64)
    for k in range(recording.n_parts):
        took = np.append(took, _took(recording, k, truth, len(took)))
    known = (searched > 0) & (took > 0) & (took < _LONGEST_NS) & ~unknown
    lines = []
    for which, of in enumerate(speeds.tolist()):
        ours = known & (by == which)
        first = ahead - tail * int(speeds[-1]) // of
        lines += [_line(searched[ours & (fold != f)], took[ours & (fold != f)], first) for f in range(FOLDS)]
    return Looks(lines, speed)


def _line(searched: npt.NDArray[np.int16], took: npt.NDArray[np.int64], first: int) -> tuple[int, int]:
    """Through the medians by length, by Theil and Sen: the commonest lengths may be few."""
    lengths, number = np.unique(searched, return_counts=True)
    lengths = lengths[number >= FEWEST].astype(np.float64)
    if len(lengths) < LENGTHS:
        return 0, 0
    medians = np.array([np.median(took[searched == length]) for length in lengths])
    one, other = np.triu_indices(len(lengths), 1)
    step = float(np.median((medians[other] - medians[one]) / (lengths[other] - lengths[one])))
    nothing = float(np.median(medians - step * lengths))
    return (max(0, round(nothing) + first), round(step)) if step >= 1 else (0, 0)


def _took(recording: Recording, k: int, truth: dict[str, Nullable] | None, first: int) -> npt.NDArray[np.int64]:
    """Per decision of that part, from the `first` on, what its search took, with all around it; 0: not known."""
    read = recording.read_part("decision", k, ("event_id", "ts_ns", "task", "waker_cpu"))
    began: Any = {name: with_null(read[name])[0].astype(np.int64) for name in read}
    out = np.zeros(len(began["ts_ns"]), np.int64)
    began["id"], began["cpu"] = began["event_id"], began["waker_cpu"]
    if truth is not None:
        for name, ours in (("probe_id", "id"), ("probe_ns", "ts_ns")):
            began[ours] = np.asarray(truth[name][0])[first : first + len(out)]
        rows = recording.read_part("probe", k, ("id", "ts_ns", "cpu", "phase"))
        ends = np.asarray(rows["phase"]) != 0
    else:
        rows = recording.read_part("migrate", k, ("id", "ts_ns", "cpu", "task", "cause"))
        cause, unknown = with_null(rows["cause"])
        ends = (cause == ENUMS["migrate_cause"].index("wake")) & ~unknown
    ended: Any = {name: with_null(column)[0][ends].astype(np.int64) for name, column in rows.items()}
    if not len(out) or not len(ended["id"]):
        return out
    at, same = last_before(began, ended)
    if truth is None:
        same &= began["task"][at] == ended["task"]
    of = np.flatnonzero(same)[::-1]  # of several the first stays
    out[at[of]] = ended["ts_ns"][of] - began["ts_ns"][at[of]]
    return out
