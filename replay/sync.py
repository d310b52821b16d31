# SPDX-License-Identifier: GPL-2.0-or-later
"""WF_SYNC, which no event carries, by the votes of other wakeups.

A wake site is synchronous or not, so the flag belongs to a relation (waker, wakee): in recordings with placement
probes it is the same in 99.99 % of a relation's wakeups. A wakeup that comes out as recorded under one value of the
flag only votes for that value. Few votes of a relation are filled up with PRIOR votes in the proportion of its
waker's, and these with those between all tasks of the two names. Where none of these groups has a vote to hear,
nothing is known, and the flag is taken as clear. One vote is enough: against the flags that probes saw it is right
far more often than that guess, and where a load moves few tasks there are hardly more. A softirq that wakes has
interrupted any task: of these wakeups, which are synchronous where data for a socket arrive (sock_def_readable()),
the softirq is the waker. A hardirq's are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rewake.forms import ENUMS, Columns
from rewake.replay.recorded import with_null

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

PRIOR = 8.0
"""So many votes are taken from the next wider group: the votes of a pair are as noisy as the search is uncertain, and
pairs of the same programs mostly share their site. 16 comes out the same."""


class Sites(NamedTuple):
    """Groups of wakeups that share the flag, from the widest to the narrowest: per decision the number of its group."""

    groups: tuple[Numbers, ...]
    may: Bools
    """Per decision: not by a hardirq, and by a known task or a softirq."""

    @classmethod
    def of(cls, waker: npt.NDArray[Any], wakee: npt.NDArray[Any], names: Ints, may: Bools) -> Sites:
        """`names`: what a task is called, by task."""
        return cls((_numbered(names[waker], names[wakee]), _ranks(waker), _numbered(waker, wakee)), may)


def wakers(decisions: Columns, names: Ints) -> tuple[Ints, Bools]:
    """The waker of each decision, the last of `names` standing for softirqs; and Sites.may."""
    task, no_task = with_null(decisions["waker_task"])
    context, no_context = with_null(decisions["irq_ctx"])
    by = [(context == ENUMS["irq_ctx"].index(name)) & ~no_context for name in ("task", "softirq")]
    waker: Ints = np.where(by[1], len(names) - 1, np.where(no_task, 0, task)).astype(np.int64)
    return waker, (by[0] & ~no_task) | by[1]


_DENSE = 1 << 22
"""Values up to here are numbered by a table rather than by sorting."""


def _numbered(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Numbers:
    """Numbers, from 0 in ascending order, of the pairs that occur."""
    b = _ranks(b)
    return _ranks(_ranks(a).astype(np.int64) * (int(b.max(initial=0)) + 1) + b)


def _ranks(values: npt.NDArray[Any]) -> Numbers:
    """Numbers, from 0 in ascending order, of the values that occur; none is negative."""
    size = int(values.max(initial=0)) + 1
    if size > _DENSE:
        number: Numbers = np.unique(values, return_inverse=True)[1].astype(np.int32)
        return number
    there = np.zeros(size, np.bool_)
    there[values] = True
    numbers: Numbers = np.cumsum(there, dtype=np.int32)
    numbers -= 1
    found: Numbers = numbers[values]
    return found


def _first(numbers: Numbers) -> Ints:
    """Where each of the numbers, which have no gaps, occurs first."""
    first = np.empty(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    return first


class Flags(NamedTuple):
    """WF_SYNC of every group of decisions that are of one relation, by what each fold may hear."""

    relation: Numbers
    sync: Bools
    """(relation, fold)"""
    told: Bools
    """(relation, fold): some votes."""
    may: Bools

    def of(self, fold: int, rows: Any = slice(None)) -> Bools:
        """Per decision of `rows`, as `fold` infers it."""
        out: Bools = self.sync[self.relation[rows], fold] & self.may[rows]
        return out

    def known(self, fold: int) -> Bools:
        out: Bools = self.told[self.relation, fold] | ~self.may
        return out


def evidence(may: Bools, agrees0: Bools, agrees1: Bools) -> npt.NDArray[np.int8]:
    """The vote of each decision: 1 for set, -1 for clear, 0. `agrees0`, `agrees1`: the column chose what was recorded
    with the flag clear, set (both False: not decided)."""
    return np.where(may, agrees1.astype(np.int8) - agrees0.astype(np.int8), 0).astype(np.int8)


def _shrunk(levels: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """Mean vote of the narrowest group, and most votes of a group. `levels`: sum and number."""
    mean: Any = 0.0
    for total, number in levels:
        mean = (total + PRIOR * mean) / (number + PRIOR)
    return mean, np.maximum.reduce([number for _, number in levels])


def by_fold(sites: Sites, votes: npt.NDArray[np.int8], fold: npt.NDArray[np.int8], folds: int) -> Flags:
    """Each fold hears the votes of all the others."""
    relation = sites.groups[-1]
    first = _first(relation)
    cast = np.flatnonzero(votes)
    levels = []
    for group in sites.groups:
        n = int(group.max(initial=-1)) + 1
        at = group[cast] * folds + fold[cast]
        total = np.bincount(at, votes[cast], n * folds).reshape(n, folds)
        number = np.bincount(at, minlength=n * folds).reshape(n, folds).astype(np.float64)
        heard = tuple(x.sum(axis=1, keepdims=True) - x for x in (total, number))
        levels.append((heard[0][group[first]], heard[1][group[first]]))
    mean, number = _shrunk(levels)
    return Flags(relation, mean > 0, number > 0, sites.may)


def causal(sites: Sites, votes: npt.NDArray[np.int8]) -> tuple[Bools, Bools]:
    """Per decision: WF_SYNC, and whether votes were heard: those of the decisions before it."""
    levels = [_before(group, votes) for group in sites.groups]
    mean, number = _shrunk(levels)
    return (mean > 0) & sites.may, (number > 0) | ~sites.may


def _before(group: Numbers, votes: npt.NDArray[np.int8]) -> tuple[Floats, Floats]:
    """Per decision the sum and number of the votes of its group before it."""
    order = np.argsort(group, kind="stable")
    sorted_ = group[order]
    starts = np.searchsorted(sorted_, sorted_, "left")
    out = []
    for values in (votes[order].astype(np.float64), (votes[order] != 0).astype(np.float64)):
        sums = np.concatenate([[0.0], np.cumsum(values)])
        here = np.empty(len(group))
        here[order] = sums[:-1] - sums[starts]
        out.append(here)
    return out[0], out[1]
