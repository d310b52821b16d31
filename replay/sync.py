# SPDX-License-Identifier: GPL-2.0-or-later
"""Inference of WF_SYNC, which no event carries (`--assume sync=auto`).

A wake site is synchronous or not, so the flag belongs to a relation (waker, wakee): in recordings with placement
probes it is the same in 99.99 % of a relation's wakeups. The recorded kernel's own column is asked under both values;
a relation takes the value under which more of its *other* wakeups come out as recorded (leave-one-out: a wakeup's own
outcome never decides about itself). Without a difference there, the waker's other wakeups decide in the same way;
without any, it is 0. Wakeups from interrupts are not synchronous.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]


def _others(keys: npt.NDArray[np.int64], evidence: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Per element, the sum of `evidence` over the other elements with the same key."""
    _, group = np.unique(keys, return_inverse=True)
    totals = np.zeros(int(group.max()) + 1 if len(group) else 0, np.int64)
    np.add.at(totals, group, evidence)
    out: npt.NDArray[np.int64] = totals[group] - evidence
    return out


def infer(
    waker: npt.NDArray[np.uint32], wakee: npt.NDArray[np.uint32], from_task: Bools, agrees0: Bools, agrees1: Bools
) -> Bools:
    """WF_SYNC per decision.

    `agrees0`, `agrees1`: the column chose what was recorded with the flag clear, set (both False: not decided).
    """
    evidence = (agrees1.astype(np.int64) - agrees0.astype(np.int64)) * from_task
    relation = (waker.astype(np.int64) << 32) | wakee.astype(np.int64)
    by_relation = _others(relation, evidence)
    by_waker = _others(waker.astype(np.int64), evidence)
    sync: Bools = np.where(by_relation != 0, by_relation > 0, by_waker > 0) & from_task
    return sync
