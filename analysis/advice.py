# SPDX-License-Identifier: GPL-2.0-or-later
"""Which setting to recommend, of many that were simulated: none, unless what was not used to choose it says so.

All figures are modelled (closed loop), by window (`simulate/windows`), and compared window by window with the recorded
kernel's column simulated over the same window with the same draws ("no hint"), as log-ratios.

- The *search* looks at its own recordings only. The gain that it reports of its best is the best of many: too high.
- One setting, the best of the search, is *judged* on recordings that the search never saw, once. However many were
  tried, that is one test: its interval needs no correction. The figures of the search never enter it.
- It is recommended only if there the interval (Wilcoxon and BCa over windows, `stats.paired`) excludes no gain, the
  gain is above the *null spread* (what the objective differs by where nothing was changed), no judged recording
  disagrees, and every guard holds: the whole interval of its change is within its bound.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from rewake.analysis import stats
from rewake.analysis.validation import half_width, student95
from rewake.errors import UsageError

LEAST_WINDOWS = 6
"""Fewer cannot give a p of 0.05 (Wilcoxon)."""
LEAST_KNOWN = 0.5
"""Share of the windows that must have the wakeups which a figure takes."""

Window = Mapping[str, Any]
"""A row of `simulate/windows`."""
Key = tuple[str, int]
"""Recording and window."""
Outcome = Mapping[Key, Sequence[Window]]
"""The windows of a setting, each in every replica."""


@dataclass(frozen=True)
class Objective:
    """A figure of a window: its column, what is better, and below which difference nobody cares."""

    name: str
    label: str
    unit: str
    column: str
    least: float
    """A smaller difference, in the column's unit, is none."""
    lower_is_better: bool = True
    samples: int = 0
    """Wakeups that a window needs."""

    @property
    def sign(self) -> int:
        """Of the log-ratio of what got better."""
        return -1 if self.lower_is_better else 1

    def log(self, window: Window) -> float | None:
        """Logarithm of the figure; half an event is added to a count, 1 ns to a latency."""
        value = window[self.column]
        if value is None or not window["cycles"]:
            return None
        half = 500.0 / window["cycles"] if self.column.endswith("_per_1k") else 1.0
        return math.log(value + half)


OBJECTIVES: dict[str, Objective] = {
    o.name: o
    for o in (
        Objective("p50", "latency p50", "ns", "p50_ns", 100.0, samples=20),
        Objective("p90", "latency p90", "ns", "p90_ns", 500.0, samples=100),
        Objective("p99", "latency p99", "ns", "p99_ns", 1000.0, samples=1000),
        Objective("queue-wait", "mean queue wait", "ns", "wait_ns", 100.0, samples=20),
        Objective("migrations", "moves", "per 1,000", "moves_per_1k", 0.5),
        Objective("cross-llc", "moves leaving LLC", "per 1,000", "cross_llc_per_1k", 0.5),
        Objective("cross-node", "moves leaving node", "per 1,000", "cross_node_per_1k", 0.5),
        Objective("throughput", "wake cycles", "per s", "cycles_per_s", 1.0, lower_is_better=False),
    )
}
DEFAULT_GUARDS = ("p99+10%", "migrations+10%", "throughput-5%")
"""Of them those that are not the objective."""


@dataclass(frozen=True)
class Guard:
    """A figure that must not get worse by more than this."""

    objective: Objective
    pct: float
    """Signed: +10: at most 10 % more; -5: at most 5 % less."""

    def __str__(self) -> str:
        return f"{self.objective.name}{self.pct:+g}%"

    @property
    def bound(self) -> float:
        """As a log-ratio."""
        return math.log1p(self.pct / 100)

    def holds(self, worst: float, base: float) -> bool:
        """Whether a log-ratio is within the bound, or too small to matter."""
        beyond = self.objective.sign * worst < self.objective.sign * self.bound
        return not beyond or (math.isfinite(worst) and abs(base * math.expm1(worst)) < self.objective.least)


_GUARD = re.compile(r"([a-z0-9-]+?)=?([+-]\d+(?:\.\d+)?)%")


def objective(name: str) -> Objective:
    """UsageError names the ones that exist."""
    if name not in OBJECTIVES:
        raise UsageError(f"no objective named {name}; there are {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]


def guard(text: str) -> Guard:
    """Reads METRIC+N%, METRIC=+N% or, for what should be high, METRIC-N%."""
    match = _GUARD.fullmatch(text)
    if match is None:
        raise UsageError(f"--guard {text}: METRIC+N% or METRIC-N% expected, such as migrations+10%")
    about, pct = objective(match[1]), float(match[2])
    if about.lower_is_better == (pct < 0) and pct:
        worse = "more" if about.lower_is_better else "less"
        raise UsageError(
            f"--guard {text}: of {about.name} {worse} is worse: give the bound a {'+' if pct < 0 else '-'}"
        )
    if pct <= -100:
        raise UsageError(f"--guard {text}: at most 100 % can be lost")
    return Guard(about, pct)


def guards(texts: Sequence[str], about: Objective) -> tuple[Guard, ...]:
    """Those of the command line, each once; without any, the default ones. The objective needs none."""
    found = {g.objective.name: g for g in map(guard, texts or DEFAULT_GUARDS)}
    if texts and about.name in found:
        raise UsageError(f"--guard {found[about.name]}: that is the objective")
    return tuple(g for g in found.values() if g.objective is not about)


def outcome(recording: str, windows: Iterable[Window]) -> dict[Key, list[Window]]:
    """Rows of `simulate/windows` of one setting over one recording, in order of replica."""
    found: dict[Key, list[Window]] = {}
    for window in windows:
        found.setdefault((recording, int(window["window_id"])), []).append(window)
    return found


def diverged_pct(found: Outcome) -> float:
    """Share of the windows that left the recording behind, in any replica."""
    return 100.0 * fmean(any(w["diverged"] for w in replicas) for replicas in found.values()) if found else 0.0


def ratios(about: Objective, base: Outcome, other: Outcome) -> dict[Key, float]:
    """Log-ratio of other to base, by window: mean over the replicas in which both have the figure."""
    found = {}
    for key, windows in base.items():
        logs = [
            after - before
            for a, b in zip(windows, other.get(key, ()), strict=False)
            if not (a["diverged"] or b["diverged"])
            and (before := about.log(a)) is not None
            and (after := about.log(b)) is not None
        ]
        if logs:
            found[key] = fmean(logs)
    return found


def levels(about: Objective, found: Outcome) -> dict[Key, float]:
    """Logarithm of the figure, by window: mean over replicas."""
    logs = {k: [v for w in ws if not w["diverged"] and (v := about.log(w)) is not None] for k, ws in found.items()}
    return {key: fmean(values) for key, values in logs.items() if values}


def require(about: Objective, base: Outcome) -> None:
    """UsageError where too few windows have the figure."""
    known = len(levels(about, base))
    if known < max(LEAST_KNOWN * len(base), 1):
        wakeups = sorted(int(w["n"]) for ws in base.values() for w in ws)
        middle = wakeups[len(wakeups) // 2] if wakeups else 0
        raise UsageError(
            f"{about.name} needs {about.samples:,} wakeups in a window, and {len(base) - known} of {len(base)} windows "
            f"have fewer (median {middle:,}): give longer --windows, or another objective or --guard"
        )


@dataclass(frozen=True)
class Searched:
    """A setting as the search saw it: log-ratios to no hint over its own recordings. Of the best one, too good."""

    name: str
    change: float
    error: float
    """Standard error over the windows."""
    guards: tuple[float, ...]
    """In the order of the guards."""
    diverged_pct: float
    within: bool
    """Guards hold and no more windows diverged than can be answered for."""

    @property
    def error_pct(self) -> float:
        """The standard error in points of the change in per cent."""
        return 100.0 * self.error * math.exp(self.change)

    def better(self, about: Objective) -> bool:
        """By more than its standard error."""
        return self.within and about.sign * self.change > self.error


def searched(
    name: str, base: Outcome, other: Outcome, about: Objective, given: Sequence[Guard], most_diverged: float
) -> Searched:
    """What the search makes of a setting."""
    change, error = middle(list(ratios(about, base, other).values()))
    kept = []
    within = (share := diverged_pct(other)) <= most_diverged and math.isfinite(change)
    for g in given:
        moved, _ = middle(list(ratios(g.objective, base, other).values()))
        kept.append(moved)
        within = within and math.isfinite(moved) and g.holds(moved, level(g.objective, base))
    return Searched(name, change, error, tuple(kept), share, within)


def middle(logs: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error; infinite where nothing is known."""
    if len(logs) < 2:
        return (logs[0] if logs else math.nan), math.inf
    return fmean(logs), stdev(logs) / math.sqrt(len(logs))


def level(about: Objective, found: Outcome) -> float:
    """The figure, geometric mean over the windows; NaN where none has it."""
    logs = list(levels(about, found).values())
    return math.exp(fmean(logs)) if logs else math.nan


@dataclass(frozen=True)
class Change:
    """What became of one figure in the judged recordings."""

    objective: Objective
    base: float
    """Without hint: geometric mean over the windows."""
    test: stats.Test
    """Log-ratios of the setting to no hint, one a window."""
    by_recording: dict[str, float]

    @property
    def value(self) -> float:
        return self.base * math.exp(self.test.effect)

    def plain(self) -> dict[str, Any]:
        t = self.test
        return {
            "figure": self.objective.name,
            "unit": self.objective.unit,
            "windows": t.n,
            "no_hint": self.base,
            "value": self.value,
            "change_pct": percent(t.effect),
            "low_pct": percent(t.low),
            "high_pct": percent(t.high),
            "p": t.p,
            "by_recording_pct": {name: percent(x) for name, x in self.by_recording.items()},
        }


def percent(log: float) -> float:
    """A log-ratio in per cent; infinite ones stay so."""
    return 100.0 * math.expm1(log) if log < 700 else math.inf


def change(about: Objective, base: Outcome, other: Outcome) -> Change:
    """Tests one figure, the windows of all judged recordings being the units."""
    found = ratios(about, base, other)
    names = dict.fromkeys(name for name, _ in found)
    each = {name: fmean(x for (r, _), x in found.items() if r == name) for name in names}
    return Change(about, level(about, base), stats.paired(list(found.values())), each)


@dataclass(frozen=True)
class Spread:
    """What the objective differs by where nothing was changed, as a log-ratio, and how that is known."""

    value: float
    how: str


def null_spread(about: Objective, base: Outcome, redrawn: Change, judged: Sequence[str]) -> Spread:
    """The larger one of two: how far one more repeat without hint may lie (90 %), and how far the interval of "no hint,
    costs drawn anew" reaches. Repeats are the recordings where there are three or more (those of the search are as
    good: nothing was chosen by them), else the windows of the judged ones."""
    by: dict[str, list[float]] = {}
    for (name, _), value in levels(about, base).items():
        by.setdefault(name, []).append(value)
    if len(by) >= 3:
        spread, how = half_width([fmean(v) for v in by.values()]), f"between {len(by)} recordings"
    else:
        logs = [v for name in judged for v in by.get(name, ())]
        n = len(logs)
        # the difference of the means of two such sets of windows
        spread = student95(n) * stdev(logs) * math.sqrt(2 / n) if n > 1 else math.inf
        how = f"between {n} windows: fewer than 3 recordings were given"
    reach = max(abs(redrawn.test.low), abs(redrawn.test.high))
    return Spread(reach, "costs drawn anew") if reach > spread else Spread(spread, how)


@dataclass(frozen=True)
class Judged:
    """The best setting of the search on recordings that the search never saw."""

    name: str
    gain: Change
    guards: tuple[tuple[Guard, Change], ...]
    redrawn: Change
    """The same figure of no hint with its costs drawn anew: should be no change."""
    spread: Spread
    reasons: tuple[str, ...]
    """Against recommending it; none: it is recommended."""

    @property
    def recommended(self) -> bool:
        return not self.reasons

    @staticmethod
    def holds(g: Guard, c: Change) -> bool:
        """Whether the whole interval of a change is within a guard."""
        return c.test.n > 0 and g.holds(c.test.high if g.objective.lower_is_better else c.test.low, c.base)

    def plain(self) -> dict[str, Any]:
        return {
            "setting": self.name,
            "recommended": self.recommended,
            "reasons": list(self.reasons),
            "objective": self.gain.plain(),
            "guards": [c.plain() | {"bound": str(g), "holds": self.holds(g, c)} for g, c in self.guards],
            "no_hint_redrawn": self.redrawn.plain(),
            "null_spread_pct": percent(self.spread.value),
            "null_spread_from": self.spread.how,
        }


def _anew(found: Outcome) -> Outcome:
    """Without the replica that has the recorded luck, where there are others."""
    return {key: windows[1:] or windows for key, windows in found.items()}


def _doubts(gain: Change, spread: Spread) -> list[str]:
    """Why a difference is no gain that can be relied on."""
    about, t = gain.objective, gain.test
    if about.sign * t.effect <= 0:
        return ["no gain there"]
    found = {
        "the interval of the gain does not exclude no gain": not t.excludes_zero or t.p is None or t.p > stats.ALPHA,
        "the gain is not above the null spread": abs(t.effect) <= spread.value,
        "the gain is too small to matter": abs(gain.value - gain.base) < about.least,
        "not every judged recording gains": any(about.sign * x <= 0 for x in gain.by_recording.values()),
    }
    return [why for why, so in found.items() if so]


def judge(name: str, about: Objective, given: Sequence[Guard], base: Outcome, other: Outcome, redrawn: Outcome,
          everywhere: Outcome, most_diverged: float) -> Judged:  # fmt: skip
    """The verdict on `other` over the judged recordings; `base`: no hint there, `everywhere`: on the search's, too."""
    gain = change(about, base, other)
    null = change(about, _anew(base), _anew(redrawn))
    spread = null_spread(about, everywhere, null, list(dict.fromkeys(r for r, _ in base)))
    kept = tuple((g, change(g.objective, base, other)) for g in given)
    t, reasons = gain.test, []
    if t.n < LEAST_WINDOWS:
        reasons.append(
            f"only {t.n} windows to judge it by, {LEAST_WINDOWS} are needed: shorter --windows, more recordings"
        )
    elif t.p is None:
        reasons.append("nothing differs from no hint")
    else:
        reasons += _doubts(gain, spread)
    reasons += [f"{g} may not hold" for g, c in kept if not Judged.holds(g, c)]
    if (share := diverged_pct(other)) > most_diverged:
        reasons.append(f"{share:.0f} % of its windows left the recording behind")
    return Judged(name, gain, kept, null, spread, tuple(reasons))


@dataclass(frozen=True)
class Advice:
    """The answer."""

    objective: Objective
    guards: tuple[Guard, ...]
    base: str
    """The recorded kernel's column."""
    level: float
    """The objective without hint, over the recordings of the search."""
    searched_on: tuple[str, ...]
    judged_on: tuple[str, ...]
    halves: bool
    """The judged recordings are the second halves of those of the search."""
    trials: tuple[Searched, ...]
    """In the order in which they were tried."""
    judged: Judged | None
    """None: nothing that was tried got better even where it was searched for."""
    left_out: tuple[str, ...]
    """What was not tried, and why."""
    settings: dict[str, Any]
    """What was taken of the machine, and the hashes of the recordings by name."""
    rules: str | None
    """The rules file, where hints are recommended."""
    checks: tuple[dict[str, Any], ...]
    """By judged recording: does the model reproduce it?"""

    def plain(self) -> dict[str, Any]:
        return {
            "mode": "closed",
            "trust": "modelled",
            "objective": self.objective.name,
            "unit": self.objective.unit,
            "guards": list(map(str, self.guards)),
            "no_hint": self.base,
            "no_hint_level": self.level,
            "searched_on": list(self.searched_on),
            "judged_on": list(self.judged_on),
            "judged_on_halves": self.halves,
            "tried": len(self.trials),
            "trials": [_trial(t, self.guards) for t in self.trials],
            "recommended": self.judged.name if self.judged is not None and self.judged.recommended else None,
            "judged": None if self.judged is None else self.judged.plain(),
            "rules": self.rules,
            "left_out": list(self.left_out),
            "settings": self.settings,
            "checks": list(self.checks),
        }


def _trial(t: Searched, given: Sequence[Guard]) -> dict[str, Any]:
    return {
        "setting": t.name,
        "change_pct": percent(t.change),
        "error_pct": t.error_pct,
        "guards_pct": {g.objective.name: percent(x) for g, x in zip(given, t.guards, strict=True)},
        "diverged_pct": t.diverged_pct,
        "within": t.within,
    }
