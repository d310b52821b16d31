# SPDX-License-Identifier: GPL-2.0-or-later
"""Inference of what no event carries (`--assume sync=auto`): WF_SYNC, and wakee_flips at the start.

A wake site is synchronous or not, so the flag belongs to a relation (waker, wakee): in recordings with placement
probes it is the same in 99.99 % of a relation's wakeups. The recorded kernel's own column is asked under both values;
a relation takes the value under which more of its *other* wakeups come out as recorded (leave-one-out: a wakeup's own
outcome never decides about itself). Without a difference there, the waker's other wakeups decide in the same way;
without any, it is 0. Wakeups from interrupts are not synchronous.

The tasks that were there before the recording began have counted wakee_flips, and their children inherit them. One
value stands for all of them: of a few, the one under which most decisions come out as recorded, the lowest where
several do.
One decision's outcome is one vote among all decisions of the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]

FIRST_FLIPS = (0, 16, 32, 48, 64, 96, 128, 256)
"""wakee_flips at the start that are tried; only compared with LLC sizes and their multiples, so coarse steps do."""


class Unseen(NamedTuple):
    """Inferred values."""

    sync: Bools
    """WF_SYNC per decision."""
    first_flips: int
    """wakee_flips of the tasks older than the recording."""
    scan: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None = None
    """nr_idle_scan per decision, of the LLCs of the waker's and of the previous CPU; None: as modelled."""


def best(tried: Sequence[tuple[int, Bools, Bools, Bools]]) -> Unseen:
    """The first of those under which most decisions agree.

    Each: wakee_flips at the start, WF_SYNC per decision inferred under it, whether the decision agrees with the flag
    clear, and set.
    """
    agreed = [int(np.where(sync, set_, clear).sum()) for _, sync, clear, set_ in tried]
    flips, sync, _, _ = tried[int(np.argmax(agreed))]
    return Unseen(sync, flips)


def _others(group: npt.NDArray[np.integer], evidence: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """Per element, the sum of `evidence` over the other elements of its group."""
    totals = np.bincount(group, evidence).astype(np.int64)  # exact: far below 2^53
    out: npt.NDArray[np.int64] = totals[group] - evidence
    return out


class Relations:
    """The decisions, grouped for infer()."""

    def __init__(self, waker: npt.NDArray[np.uint32], wakee: npt.NDArray[np.uint32], from_task: Bools) -> None:
        self._from_task = from_task
        self._relation, self._waker = (
            np.unique(keys, return_inverse=True)[1] for keys in ((waker.astype(np.int64) << 32) | wakee, waker)
        )

    def infer(self, agrees0: Bools, agrees1: Bools) -> Bools:
        """WF_SYNC per decision; as infer()."""
        evidence = (agrees1.astype(np.int8) - agrees0.astype(np.int8)) * self._from_task
        by_relation, by_waker = _others(self._relation, evidence), _others(self._waker, evidence)
        sync: Bools = np.where(by_relation != 0, by_relation > 0, by_waker > 0) & self._from_task
        return sync


def infer(
    waker: npt.NDArray[np.uint32], wakee: npt.NDArray[np.uint32], from_task: Bools, agrees0: Bools, agrees1: Bools
) -> Bools:
    """WF_SYNC per decision.

    `agrees0`, `agrees1`: the column chose what was recorded with the flag clear, set (both False: not decided).
    """
    return Relations(waker, wakee, from_task).infer(agrees0, agrees1)
