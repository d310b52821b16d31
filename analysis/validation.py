# SPDX-License-Identifier: GPL-2.0-or-later
"""Predictions of B from A alone, against B as it was measured (policies.md V6, V7).

Figures are compared as ratios, so all arithmetic is on logarithms. A prediction is what A measured times what the
simulation of A says that B's policy changes. Its interval is that of one more repeat, as far as repeats of A differ,
and of the model's own error: how far it misses A on average where it re-runs what was recorded (how its single
simulations scatter about that is in the scatter of the ratios), and a share of the change that it says. All are known
from A alone. Beside it stand the null ("no change": B is as A) and the one-step ratio of the
open loop, where it has one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from rewake.analysis import sql
from rewake.analysis.grid import counted
from rewake.forms import Recording

FIGURES = ("p50_ns", "p90_ns", "p99_ns", "wait_p90_ns", "cycles_per_s", "moves_per_s")
LEVEL = 0.90
_T95 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)
"""Student's t, 95th percentile, by degrees of freedom from 1; beyond: the normal distribution's."""
_NORMAL95 = 1.645
CHANGE_ERROR = 0.25
"""Standard error of a predicted change, as a share of its logarithm: chosen before the held-out arms were read."""


@dataclass(frozen=True)
class Predicted:
    """One figure: B as predicted from A, in the unit of the figure."""

    value: float
    low: float
    high: float
    error: float
    """|ln(predicted / measured)|, mean over the repeats of B."""
    score: float
    """Interval score at 90 %, on logarithms: smaller is better."""
    covered: float
    """Share of B's repeats within the interval."""


@dataclass(frozen=True)
class Row:
    """One figure of the pair."""

    figure: str
    a: float
    b: float
    null_spread: float
    """Half the width of A's own 90 % interval, on logarithms: a change below it cannot be told from none."""
    changed: float
    """ln(B / A)."""
    model: Predicted
    null: Predicted
    one_step: Predicted | None

    @property
    def beyond_spread(self) -> bool:
        return abs(self.changed) > self.null_spread

    @property
    def sign_right(self) -> bool | None:
        """Whether the model says the right direction; None where the change cannot be told from none."""
        if not self.beyond_spread:
            return None
        return self.model.value != self.a and (self.model.value > self.a) == (self.b > self.a)


@dataclass(frozen=True)
class Validation:
    """What the model says of B from A alone, figure by figure."""

    a: list[str]
    b: list[str]
    policy_a: str
    policy_b: str
    diverged_pct: float
    """Largest share of diverged windows of a simulation behind it."""
    rows: list[Row]
    notes: tuple[str, ...] = ()
    """What of B the model cannot know."""

    def mean(self, which: str, score: str) -> float | None:
        """Mean error or interval score of `model`, `null` or `one_step`, over the figures that it has."""
        found = [getattr(getattr(r, which), score) for r in self.rows if getattr(r, which) is not None]
        return fmean(found) if found else None

    def plain(self) -> dict[str, Any]:
        return {
            "trust": "modelled",
            "a": self.a,
            "b": self.b,
            "policy_a": self.policy_a,
            "policy_b": self.policy_b,
            "level": LEVEL,
            "diverged_pct": self.diverged_pct,
            "figures": [asdict(r) | {"beyond_spread": r.beyond_spread, "sign_right": r.sign_right} for r in self.rows],
            "mean": {
                f"{which}_{score}": self.mean(which, score)
                for which in ("model", "null", "one_step")
                for score in ("error", "score")
            },
            "notes": self.notes,
        }


def measured(recording: Recording) -> dict[str, float | None]:
    """The figures of a recording."""
    con = recording.connect(("decision",))
    try:
        sql.prepare(con)
        return dict(sql.run(con, "validate/measured").dicts()[0])
    finally:
        con.close()


def student95(n: int) -> float:
    """Student's t, 95th percentile, for the mean of n values; infinite for one."""
    return math.inf if n < 2 else _T95[n - 2] if n - 2 < len(_T95) else _NORMAL95


def half_width(logs: Sequence[float]) -> float:
    """Half the width of the 90 % interval of one more repeat; infinite for a single one."""
    n = len(logs)
    return math.inf if n < 2 else student95(n) * stdev(logs) * math.sqrt(1 + 1 / n)


def _predicted(logs: Sequence[float], truth: Sequence[float], half: float) -> Predicted:
    middle = fmean(logs)
    low, high = middle - half, middle + half
    miss = [max(low - b, 0.0) + max(b - high, 0.0) for b in truth]
    alpha = 1 - LEVEL
    return Predicted(
        value=math.exp(middle),
        low=math.exp(low) if math.isfinite(low) else 0.0,
        high=math.exp(high) if math.isfinite(high) else math.inf,
        error=fmean(abs(middle - b) for b in truth),
        score=2 * half + 2 / alpha * fmean(miss),
        covered=fmean(low <= b <= high for b in truth),
    )


def build(
    a: Mapping[str, Mapping[str, float | None]],
    b: Mapping[str, Mapping[str, float | None]],
    ratios: Mapping[str, Mapping[str, float | None]],
    one_step: Mapping[str, Mapping[str, float | None]],
    errors: Mapping[str, Mapping[str, float | None]],
    policy_a: str,
    policy_b: str,
    diverged_pct: float = 0.0,
    notes: tuple[str, ...] = (),
) -> Validation:
    """`a`, `b`: measured figures by recording; `ratios`, `one_step`: of B's policy to A's, by recording of A; `errors`:
    of A simulated to A recorded."""
    rows = []
    for figure in FIGURES:
        before = {name: v for name, found in a.items() if (v := found[figure]) is not None and v > 0}
        truth = [math.log(v) for found in b.values() if (v := found[figure]) is not None and v > 0]
        if not before or not truth:
            continue
        null = [math.log(v) for v in before.values()]
        shifted = _shifted(before, ratios, figure)
        stepped = _shifted(before, one_step, figure)
        if not shifted:
            continue
        spread = half_width(null)
        said = [math.log(r) for name in before if (r := ratios.get(name, {}).get(figure))]
        missed = [math.log(r) for name in before if (r := errors.get(name, {}).get(figure))]
        noise = stdev(said) / math.sqrt(len(said)) if len(said) > 1 else 0.0
        bias = fmean(missed) if missed else 0.0
        model_error = _NORMAL95 * math.hypot(bias, noise, CHANGE_ERROR * fmean(said))
        rows.append(
            Row(
                figure=figure,
                a=math.exp(fmean(null)),
                b=math.exp(fmean(truth)),
                null_spread=spread,
                changed=fmean(truth) - fmean(null),
                model=_predicted(shifted, truth, math.hypot(spread, model_error)),
                null=_predicted(null, truth, spread),
                one_step=_predicted(stepped, truth, spread) if stepped else None,
            )
        )
    return Validation(list(a), list(b), policy_a, policy_b, diverged_pct, rows, (*notes, *_left_out(a, b)))


def _left_out(a: Mapping[str, Mapping[str, float | None]], b: Mapping[str, Mapping[str, float | None]]) -> list[str]:
    """What was measured and is in no row, or not in all of it."""
    return [
        f"left out, as no ratio compares 0: {figure} of {zero} of {counted(len(of), 'recording')} of {what}"
        for figure in FIGURES
        for what, of in (("A", a), ("B", b))
        if (zero := sum(found[figure] == 0 for found in of.values()))
    ]


def _shifted(before: Mapping[str, float], ratios: Mapping[str, Mapping[str, float | None]], figure: str) -> list[float]:
    """Logarithms of A's figures times their ratios, where there are any."""
    return [
        math.log(value * ratio)
        for name, value in before.items()
        if (ratio := ratios.get(name, {}).get(figure)) is not None and ratio > 0
    ]


def ratio(changed: float | None, base: float | None) -> float | None:
    return None if changed is None or not base else changed / base


def misses(figures: Mapping[str, float | None]) -> dict[str, float | None]:
    """Simulated to recorded, of a factual run's check."""
    return {f: ratio(figures[f], figures[f"recorded_{f}"]) for f in FIGURES}
