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

from rewake.forms import ENUMS, Columns, with_null

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

PRIOR = 8.0
"""So many votes are taken from the next wider group: the votes of a pair are as noisy as the search is uncertain, and
pairs of the same programs mostly share their site. 16 comes out the same."""


class Relations:
    """Numbers of the pairs (waker, wakee), in the order in which pieces of a recording bring them."""

    def __init__(self, names: Ints) -> None:
        """`names`: what a task is called, by task."""
        self._names, self._tasks = names, len(names)
        self._pairs: list[Ints] = []
        self._dense = np.full(self._tasks**2 if self._tasks**2 <= _DENSE else 0, -1, np.int32)
        self._keys, self._numbers = np.empty(0, np.int64), np.empty(0, np.int32)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def number(self, waker: npt.NDArray[Any], wakee: npt.NDArray[Any]) -> Numbers:
        """Per decision the number of its relation."""
        keys = waker.astype(np.int64) * self._tasks + wakee
        if len(self._dense):
            found: Numbers = self._dense[keys]
            if (found < 0).any():
                new = np.unique(keys[found < 0])
                self._dense[new] = self._more(new)
                found = self._dense[keys]
            return found
        each, of = np.unique(keys, return_inverse=True)
        at = np.searchsorted(self._keys, each)
        known = np.append(self._keys, -1)[at] == each
        new, numbers = each[~known], self._more(each[~known])
        self._keys = np.insert(self._keys, at[~known], new)
        self._numbers = np.insert(self._numbers, at[~known], numbers)
        number: Numbers = self._numbers[np.searchsorted(self._keys, each)][of]
        return number

    def _more(self, pairs: Ints) -> Numbers:
        self._pairs.append(pairs)
        first, self._n = self._n, self._n + len(pairs)
        return np.arange(first, self._n, dtype=np.int32)

    def groups(self) -> tuple[Numbers, ...]:
        """Those that share the flag, from the widest to the narrowest: per relation the number of its group."""
        waker, wakee = np.divmod(np.concatenate([np.empty(0, np.int64), *self._pairs]), self._tasks)
        own = np.arange(self._n, dtype=np.int32)
        return _numbered(self._names[waker], self._names[wakee]), _ranks(waker), own


class Sites(NamedTuple):
    """Where decisions are made."""

    relation: Numbers
    """Per decision."""
    groups: tuple[Numbers, ...]
    """Relations.groups()."""
    may: Bools
    """Per decision: not by a hardirq, and by a known task or a softirq."""

    @classmethod
    def of(cls, waker: npt.NDArray[Any], wakee: npt.NDArray[Any], names: Ints, may: Bools) -> Sites:
        """`names`: what a task is called, by task."""
        relations = Relations(names)
        relation = relations.number(waker, wakee)
        return cls(relation, relations.groups(), may)


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
    n = len(sites.groups[-1])
    return flags_of(sites, counted(sites.relation, votes, fold, n, folds))


def counted(
    relation: Numbers, votes: npt.NDArray[np.int8], fold: npt.NDArray[np.int8], relations: int, folds: int
) -> Floats:
    """Votes: (their sum and number, relation, fold)."""
    cast = np.flatnonzero(votes)
    at = relation[cast].astype(np.int64) * folds + fold[cast]
    n = relations * folds
    out = np.empty((2, n))
    out[0], out[1] = np.bincount(at, votes[cast], n), np.bincount(at, minlength=n)
    return out.reshape(2, relations, folds)


def flags_of(sites: Sites, votes: Floats) -> Flags:
    """`votes`: as counted."""
    levels = []
    for group in sites.groups:
        n = int(group.max(initial=-1)) + 1
        sums = np.stack([[np.bincount(group, of[:, f], n) for f in range(of.shape[1])] for of in votes])
        heard = sums.sum(axis=1, keepdims=True) - sums
        levels.append((heard[0].T[group], heard[1].T[group]))
    mean, number = _shrunk(levels)
    return Flags(sites.relation, mean > 0, number > 0, sites.may)


def causal(sites: Sites, votes: npt.NDArray[np.int8]) -> tuple[Bools, Bools]:
    """Per decision: WF_SYNC, and whether votes were heard: those of the decisions before it."""
    return Before(sites.groups).hear(placed(sites.groups, sites.relation), votes, sites.may)


class Placed(NamedTuple):
    """Decisions by group."""

    group: Numbers
    order: Ints
    """Rows, sorted by group."""
    first: Ints
    """Per sorted row the first one of its group."""


def placed(groups: Sequence[Numbers], relation: Numbers) -> list[Placed]:
    """Per kind of group. `relation`: of the decisions."""
    out = []
    for of in groups:
        group = of[relation]
        small = int(of.max(initial=0)) <= np.iinfo(np.uint16).max  # such are sorted in linear time
        order = np.argsort(group.astype(np.uint16) if small else group, kind="stable")
        new = np.diff(group[order], prepend=-1) != 0
        out.append(Placed(group, order, np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))))
    return out


class Before:
    """The votes so far."""

    def __init__(self, groups: tuple[Numbers, ...]) -> None:
        self._votes = [np.zeros((2, int(group.max(initial=-1)) + 1)) for group in groups]

    def hear(self, decisions: Sequence[Placed], votes: npt.NDArray[np.int8], may: Bools) -> tuple[Bools, Bools]:
        """As causal(), of the decisions that come next."""
        levels = []
        for by, so_far in zip(decisions, self._votes, strict=True):
            total, number = _before(by, votes)
            levels.append((so_far[0][by.group] + total, so_far[1][by.group] + number))
            so_far += [np.bincount(by.group, of, so_far.shape[1]) for of in (votes, votes != 0)]
        mean, number = _shrunk(levels)
        return (mean > 0) & may, (number > 0) | ~may


def _before(by: Placed, votes: npt.NDArray[np.int8]) -> tuple[Floats, Floats]:
    """Per decision the sum and number of the votes of its group before it."""
    sorted_ = votes[by.order]
    out = []
    for values in (sorted_, sorted_ != 0):
        sums = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=sums[1:])
        here = np.empty(len(values))
        here[by.order] = sums[:-1] - sums[by.first]
        out.append(here)
    return out[0], out[1]
