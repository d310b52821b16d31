# SPDX-License-Identifier: GPL-2.0-or-later
"""How soon a recorded wakeup was among its like: ranks, from samples that may be fewer than the wakeups."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Ranks:
    """Samples of one path in order of their size, by group."""

    def __init__(self, group: Array, run: Array, queue: Array, number: Array) -> None:
        order = np.lexsort((number, queue, queue + run, group))
        self._starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        self._groups = group[order][self._starts]
        self._sizes = np.diff(np.append(self._starts, len(order)))
        self._ns, self._run = (queue + run)[order], run[order]
        in_group = np.arange(len(order)) - np.repeat(self._starts, self._sizes)
        self._rank = (in_group + 0.5) / np.repeat(self._sizes, self._sizes)
        self._by_number = np.argsort(number[order])
        self._numbers = number[order][self._by_number]

    def of(self, number: Array) -> tuple[Array, Array]:
        """Ranks of those of these wakeups that are samples, and which are."""
        if not len(self._numbers):
            return np.empty(0), np.zeros(len(number), np.bool_)
        at = np.minimum(np.searchsorted(self._numbers, number), len(self._numbers) - 1)
        known = self._numbers[at] == number
        return self._rank[self._by_number[at[known]]], known

    def among(self, group: Array, queue: Array, run: Array | None = None) -> tuple[Array, Array]:
        """Ranks that these would have, and which have any; without `run`, as if they had run as soon as most."""
        rank, known = np.zeros(len(group)), np.zeros(len(group), np.bool_)
        for name, start, size in zip(self._groups, self._starts, self._sizes, strict=True):
            those = np.flatnonzero(group == name)
            if not len(those):
                continue
            like = slice(start, start + size)
            cost = queue[those] + (np.median(self._run[like]) if run is None else run[those])
            at = np.searchsorted(self._ns[like], cost)
            rank[those], known[those] = np.minimum(at + 0.5, size - 0.5) / size, True
        return rank, known
