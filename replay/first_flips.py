# SPDX-License-Identifier: GPL-2.0-or-later
"""Hypotheses of wakee_flips of the tasks older than the recording (engine/flips.hpp): which are tried, and which tasks
began otherwise than the rest.

Flips are halved once a second, by each task's own clock, and inherited: of two workers of one process one may begin
with half of what the other has, and a task that has woken others for long with far more; one hypothesis for all is
wrong for them. Who began otherwise the votes of decisions tell that compare theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class FirstFlips(NamedTuple):
    """One hypothesis of wakee_flips of the tasks older than the recording (engine/flips.hpp)."""

    flips: int = 0
    """What all of them inherited."""
    grown_s: float = 0.0
    """For so long each added to that what it adds at the beginning of the recording."""
    halved_s: float = 0.0
    """So long after the start they are halved first; 0: at once."""
    own: tuple[tuple[int, tuple[int, float, float]], ...] = ()
    """Tasks that began otherwise, and with what of these three."""

    def of(self, task: int) -> tuple[int, float, float]:
        return dict(self.own).get(task, self[:3])


_LATER = 1.0
FIRST_FLIPS = (
    *(FirstFlips(n) for n in (0, 16, 32, 64, 96, 128, 192, 256)),
    *(FirstFlips(n, 0.0, _LATER) for n in (16, 24, 32, 40, 48, 64, 96, 128)),
    *(FirstFlips(n, age, _LATER - age) for age in (0.15, 0.3, 0.45, 0.6, 0.8) for n in (32, 64, 128)),
)
"""Hypotheses of wakee_flips at the start that are tried. They are halved once a second at most."""

MOST = 32
"""So many hypotheses an engine follows (engine/flips.hpp, FlipHypotheses)."""

CLOSER = 7
"""Hypotheses between the neighbours of the one that holds, of which the best is taken: wake_wide compares flips of two
tasks, and what is off by a few is on the wrong side of that for many wakeups."""

FEWEST, SPREADS = 2, 1.0
"""A task begins otherwise where at least so many votes more are for that than against it, and so many times the spread
of as many that are cast by lot."""


def between(first: FirstFlips, tried: Sequence[FirstFlips] = FIRST_FLIPS) -> list[FirstFlips]:
    """That hypothesis, then CLOSER between its neighbours among those of `tried` that only differ in flips."""
    alike = sorted(h.flips for h in tried if h[1:] == first[1:])
    at = alike.index(first.flips)
    low, high = alike[max(at - 1, 0)], alike[min(at + 1, len(alike) - 1)]
    flips = np.linspace(low, high, CLOSER + 2)[1:-1].astype(int).tolist()
    return list(dict.fromkeys([first, *(first._replace(flips=n) for n in flips)]))


_PARTS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0)
_TIMES = 28
_Began = tuple[int, float, float]


def _each(first: FirstFlips, change: Callable[[_Began], _Began]) -> FirstFlips:
    return FirstFlips(*change(first[:3]), tuple((task, change(its)) for task, its in first.own))


def own(first: FirstFlips, span_s: float) -> list[FirstFlips]:
    """Hypotheses that have nothing to do with that one."""
    numbers = (0, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    return [FirstFlips(n, 0.0, part * min(span_s, _LATER)) for part in (0.0, 0.35, 0.7) for n in numbers]


def later(first: FirstFlips, span_s: float) -> list[FirstFlips]:
    """Hypotheses in which all tasks are halved at another time of a recording of that length, or behind it. Those that
    would have been halved at once have been."""
    last = min(span_s, _LATER)

    def at(time: float) -> FirstFlips:
        return _each(first, lambda its: (its[0], its[1], time) if its[2] else (its[0] // 2, its[1] / 2, time))

    return [at(last * k / _TIMES) for k in range(1, _TIMES + 1)] + [at(_LATER)]


def nearby(first: FirstFlips, span_s: float) -> list[FirstFlips]:
    """Hypotheses in which all tasks began with somewhat more or less, or were halved somewhat earlier or later."""
    step = min(span_s, _LATER) / _TIMES

    def more(part: float) -> FirstFlips:
        return _each(first, lambda its: (round(its[0] * part), its[1] * part, its[2]))

    def moved(time: float) -> FirstFlips:
        return _each(first, lambda its: (its[0], its[1], min(max(its[2] + time, 0.0), _LATER)))

    return [more(part) for part in _PARTS] + [moved(part * step) for part in (-0.75, -0.5, -0.25, 0.25, 0.5, 0.75)]


def kinds(same: Sequence[int] = range(len(FIRST_FLIPS))) -> list[list[int]]:
    """FIRST_FLIPS that differ in nothing but the flips, by number, without kinds that ask nothing new. `same`: per
    hypothesis the first that asks the same."""
    found: list[list[int]] = []
    for kind in dict.fromkeys(h[1:] for h in FIRST_FLIPS):
        those = [k for k, h in enumerate(FIRST_FLIPS) if h[1:] == kind]
        if not {same[h] for h in those} <= {same[h] for kind in found for h in kind}:
            found.append(those)
    return found


def better(apart: dict[str, npt.NDArray[Any]], gain: npt.NDArray[np.int8], n_tries: int) -> dict[int, int]:
    """Per task that is better off under one of the tries its number. Of two tasks that a decision compares only the one
    with more votes: what is right for the other is another question then.

    `apart`: FlipsApart of engine/flips.hpp; `gain`: per row of the recording the vote for wake_wide(): 1, 0 or -1."""
    told = np.flatnonzero(gain[apart["row"]])
    vote = gain[apart["row"][told]].astype(np.int64)
    curr, p = apart["curr"][told], apart["p"][told]
    tasks, both = np.unique(np.concatenate([curr, p]), return_inverse=True)
    if not len(tasks):
        return {}
    net, cast = np.zeros((2, n_tries, len(tasks)))
    for bits, of in ((apart["of_curr"][told], both[: len(told)]), (apart["of_p"][told], both[len(told) :])):
        base = (bits & 1).astype(np.int64)
        for k in range(n_tries):
            votes = ((bits >> np.uint32(k + 1) & 1).astype(np.int64) - base) * vote
            net[k] += np.bincount(of, votes, len(tasks))
            cast[k] += np.bincount(of, votes != 0, len(tasks))
    best = net.argmax(axis=0)
    each = np.arange(len(tasks))
    most = net[best, each]
    enough = most >= np.maximum(FEWEST, SPREADS * np.sqrt(cast[best, each]))
    return {int(tasks[t]): int(best[t]) for t in _apart(most, enough, both[: len(told)], both[len(told) :])}


def _apart(
    most: npt.NDArray[Any], enough: npt.NDArray[np.bool_], a: npt.NDArray[Any], b: npt.NDArray[Any]
) -> Sequence[int]:
    """Of those the ones with most votes, no two of which are a pair."""
    pairs = np.unique(np.stack([a, b]), axis=1).T
    near: dict[int, set[int]] = {}
    for x, y in pairs[enough[pairs].all(axis=1)].tolist():
        near.setdefault(x, set()).add(y)
        near.setdefault(y, set()).add(x)
    taken: set[int] = set()
    order = sorted(np.flatnonzero(enough).tolist(), key=lambda t: (-most[t], t))
    for t in order:
        if not (near.get(t, set()) - {t}) & taken:
            taken.add(t)
    return sorted(taken)
