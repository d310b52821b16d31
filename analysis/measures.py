# SPDX-License-Identifier: GPL-2.0-or-later
"""Which figures are compared, kept and watched over time, and which direction is better: the only such list.

A figure of a policy is a pair of ends: what is recorded has one value, what is partly modelled an interval [lo, hi]
(docs/metrics.md). Every figure comes from the catalogue's queries (`metrics.PER_POLICY`); nothing is computed here but
the half event that keeps a ratio of counts finite.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewake.errors import UsageError

SIDES = ("lo", "hi")


@dataclass(frozen=True)
class Measure:
    """One figure: its name on the command line, its column(s), its unit, and what is better."""

    name: str
    label: str
    unit: str
    lo: str
    hi: str
    least: float
    """A smaller difference, in `unit` of the column, is of no interest whatever its share."""
    total: str | None = None
    """Rates: column of the number of decisions behind it; half an event is added to both sides of a ratio."""
    per: float = 1.0
    lower_is_better: bool = True
    samples: int = 1
    """Decisions that one value takes."""

    def value(self, figures: Mapping[str, Any], side: str) -> float | None:
        """The figure's end; None: unknown or unbounded."""
        value = figures.get(self.lo if side == "lo" else self.hi)
        return None if value is None else float(value)

    def log(self, figures: Mapping[str, Any], side: str) -> float | None:
        """Natural logarithm of the end: a count with half an event added, a latency with 1 ns."""
        value = self.value(figures, side)
        if value is None:
            return None
        if self.total is None:
            return math.log(value + 1.0)
        total = figures.get(self.total)
        return math.log(value + 0.5 * self.per / total) if total else None


def _latency(name: str, label: str, samples: int) -> Measure:
    return Measure(name, label, "ns", f"{name}_lo_ns", f"{name}_hi_ns", least=1000.0, samples=samples)


def _rate(name: str, label: str) -> Measure:
    column = f"{name}_per_1k"
    return Measure(name, label, "per 1,000", column, column, least=0.5, total="decisions", per=1000.0)


MEASURES: dict[str, Measure] = {
    m.name: m
    for m in (
        _latency("p50", "p50 latency", 20),
        _latency("p90", "p90 latency", 100),
        _latency("p99", "p99 latency", 1000),
        _latency("p999", "p99.9 latency", 10_000),
        _rate("would_move", "would move"),
        _rate("cross_llc_prev", "would leave LLC of prev"),
        _rate("cross_llc_waker", "would leave LLC of waker"),
        _rate("idle_missed_llc", "idle missed in LLC"),
        _rate("idle_missed_machine", "idle missed anywhere"),
        _rate("stacked", "stacked on waker"),
        Measure("scan", "CPUs examined", "CPUs", "mean_cpus", "mean_cpus", least=0.05, total="scans"),
    )
}
"""In the order in which they are shown. Of every one of them less is better."""

QUERIES = ("moves/one_step", "idle/missed", "stacking/stacked", "latency/policy", "scan/cost")
"""Where their columns come from."""


def named(names: Sequence[str]) -> list[Measure]:
    """The measures of these names, all of them for none; UsageError names the ones that exist."""
    for name in names:
        if name not in MEASURES:
            raise UsageError(f"no metric named {name}; there are {', '.join(MEASURES)}")
    return [m for m in MEASURES.values() if not names or m.name in names]


@dataclass(frozen=True)
class Gate:
    """`--fail-on METRIC+N%`: fails where the metric grew by more than N %, with a minus where it fell."""

    measure: Measure
    up: bool
    pct: float

    def __str__(self) -> str:
        return f"{self.measure.name}{'+' if self.up else '-'}{self.pct:g}%"


_GATE = re.compile(r"([a-z][a-z0-9_]*)([+-])(\d+(?:\.\d+)?)%")


def gate(text: str) -> Gate:
    """Reads METRIC+N% or METRIC-N%."""
    match = _GATE.fullmatch(text)
    if match is None:
        raise UsageError(f"--fail-on {text}: METRIC+N% or METRIC-N% expected, such as p99+5%")
    return Gate(named([match[1]])[0], match[2] == "+", float(match[3]))
