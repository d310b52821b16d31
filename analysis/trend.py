# SPDX-License-Identifier: GPL-2.0-or-later
"""The histories of a store: where each of them changed, and what became of it.

Change points by otava (E-divisive, then a t-test; the extra `history`), which only proposes places, among runs whose
slips are taken out. The weakest place goes until all that are left are significant. A p belongs to one place; the place
was picked among n - 1, so p is multiplied by that (which is what 200 simulated histories without a change show: 5 % of
them have a p below 0.001 at n = 60). Benjamini and Hochberg over all histories of the store; then the floor.

A regression is *open* when the newest run brought it to light, *still failing* when it was there without that run,
*fixed* when a later level is back within the floor of the level before it. A figure that is known as [lo, hi] changed
only where both ends did; a change of one of them is told as such and counts for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np

from rewake.analysis import sql, stats
from rewake.analysis.measures import MEASURES, Measure

METHOD = "E-divisive with a t-test (otava)"
SEARCH_P = 0.05
"""For otava, which drops what is above on the way: an episode's first end is weak until the other one is found."""
MAX_Q = 0.01
LEAST_POINTS = 8
BAND = 2.0
"""Half width of a noise band in standard deviations, estimated from the median absolute deviation."""

LEAST_RUNS = 2
"""Runs on either side of a change: one alone may be a slip."""
SLIP = 4.0
"""A run that many sigmas from the median of itself and its neighbours is a slip: it is taken for that median."""

OPEN, FAILING, FIXED, IMPROVED, ONE_END = "open", "still failing", "fixed", "improvement", "one end"
STATES = (OPEN, FAILING, FIXED, IMPROVED, ONE_END)
"""In the order of interest."""


@dataclass(frozen=True)
class Point:
    """One run of a history. `value` None: unbounded."""

    made: str
    revision: str | None
    kernel: str | None
    run: str
    shard: str
    value: float | None


@dataclass(frozen=True)
class Level:
    """Points first..last (indices, inclusive) between two changes: their median and noise band."""

    first: int
    last: int
    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Change:
    """From point `at` on the figure is another. p: for this place among all; q: over all histories."""

    at: int
    before: float
    after: float
    n_before: int
    n_after: int
    p: float
    q: float
    state: str = ""

    @property
    def effect_pct(self) -> float | None:
        """Change of the mean in per cent; None from 0."""
        return 100.0 * (self.after / self.before - 1.0) if self.before else None


@dataclass(frozen=True)
class Series:
    """One history and what was found in it. `side` None: the figure has one end only."""

    suite: str
    machine: str
    policy: str
    measure: Measure
    side: str | None
    points: tuple[Point, ...]
    changes: tuple[Change, ...] = ()
    levels: tuple[Level, ...] = ()

    @property
    def name(self) -> str:
        return self.measure.name + (f" {self.side}" if self.side else "")

    @property
    def known(self) -> list[int]:
        """Indices of the points that have a value."""
        return [i for i, p in enumerate(self.points) if p.value is not None]

    @property
    def regressed(self) -> tuple[Change, ...]:
        """Regressions that were not fixed."""
        return tuple(c for c in self.changes if c.state in (OPEN, FAILING))

    @property
    def rank(self) -> tuple[float, float, str, str, int, bool, str, str]:
        """Most significant first; histories without a change last, metric by metric, the record first."""
        q = min((c.q for c in self.changes if c.state != ONE_END), default=2.0)
        size = max((abs(c.effect_pct or 0.0) for c in self.changes), default=0.0)
        metric = list(MEASURES).index(self.measure.name)
        end = "" if self.side == "lo" else self.side or ""
        return (q, -size, self.suite, self.machine, metric, self.policy != "recorded", self.policy, end)


@dataclass(frozen=True)
class Trend:
    """All histories of a store, most significant first."""

    series: tuple[Series, ...]
    floor_pct: float

    @property
    def regressed(self) -> tuple[Series, ...]:
        return tuple(s for s in self.series if s.regressed)

    @property
    def short(self) -> int:
        """Histories with too few points to look at."""
        return sum(len(s.known) < LEAST_POINTS for s in self.series)

    def plain(self) -> dict[str, Any]:
        return {
            "method": METHOD,
            "search_p": SEARCH_P,
            "max_q": MAX_Q,
            "floor_pct": self.floor_pct,
            "histories": len(self.series),
            "too_short": self.short,
            "series": [_plain(s) for s in self.series],
        }


def _plain(s: Series) -> dict[str, Any]:
    return {
        "suite": s.suite,
        "machine": s.machine,
        "policy": s.policy,
        "metric": s.measure.name,
        "end": s.side,
        "unit": s.measure.unit,
        "n": len(s.points),
        "unbounded": len(s.points) - len(s.known),
        "changes": [
            {
                "state": c.state,
                "from": s.points[c.at].made,
                "revision": s.points[c.at].revision,
                "run": s.points[c.at].run,
                "shard": s.points[c.at].shard,
                "index": c.at,
                "before": c.before,
                "after": c.after,
                "effect_pct": c.effect_pct,
                "p": c.p,
                "q": c.q,
                "n_before": c.n_before,
                "n_after": c.n_after,
            }
            for c in s.changes
        ],
        "levels": [vars(level) for level in s.levels],
    }


def read(
    con: duckdb.DuckDBPyConnection, *, suites: Sequence[str] = (), policies: Sequence[str] = (),
    metrics: Sequence[str] = (),
) -> list[Series]:  # fmt: skip
    """The histories of a store, `con` being `Store.connect()`'s. Leaves out metrics that this version does not know."""
    found = []
    for suite, machine, policy, metric, side, points in con.execute(sql.shared("series.sql")).fetchall():
        wanted = all(not asked or x in asked for x, asked in ((suite, suites), (policy, policies), (metric, metrics)))
        if wanted and metric in MEASURES:
            found.append(Series(suite, machine, policy, MEASURES[metric], side, tuple(Point(**p) for p in points)))
    return found


def watch(series: Sequence[Series], floor_pct: float) -> Trend:
    """Looks for changes in all histories at once, with and without the newest run of each."""
    now = _find(series, floor_pct)
    earlier = _find([replace(s, points=_without_newest(s.points)) for s in series], floor_pct)
    done = []
    for s, changes, old in zip(series, now, earlier, strict=True):
        levels = tuple(_level(s, *edge) for edge in _edges(s, changes))
        states = [_state(s, i, changes, floor_pct, old) for i in range(len(changes))]
        told = tuple(replace(c, state=state) for c, state in zip(changes, states, strict=True))
        done.append(replace(s, changes=told, levels=levels))
    return Trend(tuple(sorted(_one_ended(done), key=lambda s: s.rank)), floor_pct)


def _one_ended(series: Sequence[Series]) -> list[Series]:
    """Marks the changes that the other end of the figure does not share."""
    by_end = {(s.suite, s.machine, s.policy, s.measure.name, s.side): s for s in series}
    marked = []
    for s in series:
        other = {"lo": "hi", "hi": "lo"}.get(s.side or "")
        twin = by_end.get((s.suite, s.machine, s.policy, s.measure.name, other)) if other else s
        theirs = twin.changes if twin else ()
        marked.append(
            replace(
                s,
                changes=tuple(
                    c if any(_same_way(c, o) for o in theirs) else replace(c, state=ONE_END) for c in s.changes
                ),
            )
        )
    return marked


def _same_way(a: Change, b: Change) -> bool:
    return abs(a.at - b.at) <= 1 and (a.after > a.before) == (b.after > b.before)


def _without_newest(points: tuple[Point, ...]) -> tuple[Point, ...]:
    return tuple(p for p in points if p.made < points[-1].made) if points else points


def _find(series: Sequence[Series], floor_pct: float) -> list[list[Change]]:
    """Changes by history, in order."""
    raw = [_places(s) for s in series]
    asked = [sum(len(s.known) >= LEAST_POINTS for s in series)]
    flat = [(i, at, p) for i, places in enumerate(raw) for at, p in places]
    # A history in which no place stood out is a test that was done: it counts with p = 1.
    silent = max(0, asked[0] - sum(bool(places) for places in raw))
    qs = stats.adjusted([p for _, _, p in flat] + [1.0] * silent)
    kept: list[dict[int, tuple[float, float]]] = [{} for _ in series]
    for (i, at, p), q in zip(flat, qs, strict=False):
        if q <= MAX_Q:
            kept[i][at] = (p, q)
    return [_changes(s, places, floor_pct) for s, places in zip(series, kept, strict=True)]


def _places(s: Series) -> list[tuple[int, float]]:
    """(index of the point, p for this place among all) of one history."""
    known = s.known
    if len(known) < LEAST_POINTS:
        return []
    values = _clipped(s)
    if min(values) == max(values):
        return []
    analysis = stats.extra("otava.analysis", "history", "a history")
    found, _ = analysis.compute_change_points(values, max_pvalue=SEARCH_P, min_magnitude=0.0)
    places = sorted({int(c.index) for c in found})
    while places:
        # Of the runs that are told, and not of those between places that go; otava's own p has n for n - 1, too.
        parts = [values[a:b] for a, b in pairwise([0, *places, len(values)])]
        ps = [min(1.0, stats.difference(a, b) * (len(values) - 1)) for a, b in pairwise(parts)]
        short = [min(len(a), len(b)) < LEAST_RUNS for a, b in pairwise(parts)]
        weakest = max(range(len(places)), key=lambda k: (short[k], ps[k]))
        if not short[weakest] and ps[weakest] <= MAX_Q:  # no q is below its p
            return [(known[at], p) for at, p in zip(places, ps, strict=True)]
        del places[weakest]
    return []


def _clipped(s: Series) -> list[float]:
    """The known values, without slips: one run far from both its neighbours would hide every change near it."""
    values = np.array([s.points[i].value for i in s.known], np.float64)
    # From one run to the next, which a change of level hardly touches; of counts half of these steps may well be 0.
    noise = float(np.quantile(np.abs(np.diff(values)), 0.75)) / (1.1503 * math.sqrt(2))
    while True:
        middle = np.pad(np.median(np.lib.stride_tricks.sliding_window_view(values, 3), axis=1), 1, mode="edge")
        off = np.abs(values - middle)
        off[[0, -1]] = 0.0
        worst = int(np.argmax(off))  # alone: beside a slip, the last run before a change would pass for one
        if off[worst] <= SLIP * noise:
            return [float(v) for v in values]
        values[worst] = middle[worst]


def _changes(s: Series, places: dict[int, tuple[float, float]], floor_pct: float) -> list[Change]:
    """The places that matter: one below the floor is taken out, and its neighbours are measured again."""
    left = dict(places)
    values = dict(zip(s.known, _clipped(s), strict=True)) if left else {}
    while left:
        edges = [0, *sorted(left), len(s.points)]
        parts = [[values[i] for i in range(a, b) if i in values] for a, b in pairwise(edges)]
        means = [float(np.mean(part)) for part in parts]
        found = [
            Change(at, means[k], means[k + 1], len(parts[k]), len(parts[k + 1]), *left[at])
            for k, at in enumerate(sorted(left))
        ]
        small = [c for c in found if not _matters(c, s.measure, floor_pct)]
        if not small:
            return found
        weakest = min(small, key=lambda c: abs(c.after - c.before))
        del left[weakest.at]
    return []


def _matters(c: Change, measure: Measure, floor_pct: float) -> bool:
    effect = c.effect_pct
    return abs(c.after - c.before) >= measure.least and (effect is None or abs(effect) >= floor_pct)


def _edges(s: Series, changes: Sequence[Change]) -> list[tuple[int, int]]:
    starts = [0, *(c.at for c in changes)]
    return [(a, b - 1) for a, b in zip(starts, [*starts[1:], len(s.points)], strict=True) if b > a]


def _level(s: Series, first: int, last: int) -> Level:
    """Median, and the band in which points without a change are expected."""
    values = np.array([p.value for p in s.points[first : last + 1] if p.value is not None], np.float64)
    if len(values) == 0:
        return Level(first, last, float("nan"), float("nan"), float("nan"))
    middle = float(np.median(values))
    spread = BAND * 1.4826 * float(np.median(np.abs(values - middle)))
    return Level(first, last, middle, middle - spread, middle + spread)


def _state(s: Series, k: int, changes: Sequence[Change], floor_pct: float, old: Sequence[Change]) -> str:
    change = changes[k]
    if (change.after > change.before) != s.measure.lower_is_better:
        return IMPROVED
    limit = change.before * (1 + floor_pct / 100) + (0.0 if change.before else s.measure.least)
    if any(later.after <= limit for later in changes[k + 1 :]):
        return FIXED
    return FAILING if any(abs(o.at - change.at) <= 1 for o in old) else OPEN
