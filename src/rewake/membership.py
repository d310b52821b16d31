# SPDX-License-Identifier: GPL-2.0-or-later
"""Cgroups of tasks that no snapshot lists: they ended before it was taken, or were born after it.

A child is in its parent's cgroup. Of others the wakeups tell (inferred): tasks mostly wake, and are woken by, tasks of
their own cgroup. Those of kernel threads and interrupts say nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[Any]


def pairs(wakers: Ids, wakees: Ids) -> Counter[tuple[int, int]]:
    """How often which task woke which, from columns of wakeups."""
    both = (wakers.astype(np.uint64) << np.uint64(32)) | wakees
    values, counts = np.unique(both, return_counts=True)
    return Counter({(v >> 32, v & 0xFFFFFFFF): n for v, n in zip(values.tolist(), counts.tolist(), strict=True)})


def infer(
    unknown: Iterable[int], known: Mapping[int, int], parents: Mapping[int, int], woken: Mapping[tuple[int, int], int],
) -> dict[int, int]:  # fmt: skip
    """Cgroups of `unknown` tasks, so far as `known` cgroups of others reach: first of parents, then by most wakeups.

    `parents`: by child. `woken`: how often which task woke which; of equal numbers the lower cgroup has it.
    """
    found: dict[int, int] = {}
    left = set(unknown)
    near: dict[int, Counter[int]] = defaultdict(Counter)
    for (waker, wakee), n in woken.items():
        near[waker][wakee] += n
        near[wakee][waker] += n

    def cgroup(task: int | None) -> int | None:
        return None if task is None else known.get(task, found.get(task))

    def vote(task: int) -> int | None:
        votes: Counter[int] = Counter()
        for other, n in near[task].items():
            if (there := cgroup(other)) is not None:
                votes[there] += n
        return min(votes, key=lambda c: (-votes[c], c), default=None)

    def by_parent(task: int) -> int | None:
        return cgroup(parents.get(task))

    def of_the_first(task: int) -> int | None:  # its children follow it
        return None if parents.get(task) in left else vote(task)

    while left:
        for by in (by_parent, of_the_first, vote):
            told = {task: there for task in left if (there := by(task)) is not None}
            if told:
                break
        else:
            break
        found |= told
        left -= told.keys()
    return found
