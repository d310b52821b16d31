# SPDX-License-Identifier: GPL-2.0-or-later
"""Inference of WF_SYNC, which no event carries (`--assume sync=auto`).

A wake site is synchronous or not, so the flag belongs to a relation (waker, wakee): in recordings with placement
probes it is the same in 99.99 % of a relation's wakeups. A kernel column is asked under both values;
a relation takes the value under which more of its *other* wakeups come out as recorded (leave-one-out: a wakeup's own
outcome never decides about itself). Without a difference there, the waker's other wakeups decide in the same way;
without any, it is 0. Wakeups from interrupts are not synchronous.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Relations:
    """Wakeups by relation and by waker. Row i stands for n[i] equal wakeups (1 each when not given)."""

    def __init__(
        self, waker: npt.NDArray[np.uint32], wakee: npt.NDArray[np.uint32], from_task: Bools, n: Ints | None = None
    ) -> None:
        relation = (waker.astype(np.int64) << 32) | wakee.astype(np.int64)
        self._relation = np.unique(relation, return_inverse=True)[1]
        self._waker = np.unique(waker, return_inverse=True)[1]
        self._from_task = from_task
        self._n = np.ones(len(waker), np.int64) if n is None else n

    def infer(self, agrees0: Bools, agrees1: Bools) -> Bools:
        """WF_SYNC per row.

        `agrees0`, `agrees1`: the column chose what was recorded with the flag clear, set (both False: not decided).
        """
        evidence = (agrees1.astype(np.int64) - agrees0.astype(np.int64)) * self._from_task
        by_relation, by_waker = (self._others(key, evidence) for key in (self._relation, self._waker))
        sync: Bools = np.where(by_relation != 0, by_relation > 0, by_waker > 0) & self._from_task
        return sync

    def _others(self, group: npt.NDArray[np.intp], evidence: Ints) -> Ints:
        """Per wakeup, the sum of `evidence` over the others of its group."""
        totals = np.zeros(int(group.max()) + 1 if len(group) else 0, np.int64)
        np.add.at(totals, group, evidence * self._n)
        out: Ints = totals[group] - evidence
        return out


def infer(
    waker: npt.NDArray[np.uint32], wakee: npt.NDArray[np.uint32], from_task: Bools, agrees0: Bools, agrees1: Bools
) -> Bools:
    """WF_SYNC per decision, from what one column chose under both values (see `Relations.infer`)."""
    return Relations(waker, wakee, from_task).infer(agrees0, agrees1)
