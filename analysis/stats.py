# SPDX-License-Identifier: GPL-2.0-or-later
"""Two-sample statistics on logarithms of figures: effect, BCa interval, p. scipy comes with the extra `report`.

The unit is whatever the caller hands in, one number each: a recording, or a block of time. A wakeup is never one.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rewake.errors import RewakeError

ALPHA = 0.05
RESAMPLES = 2000
SEED = 0
_TRY_ALL = 12
_MANY = 1000
"""From here on the mean is normal enough for Student's interval, and BCa's jackknife, quadratic in n, too dear."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Test:
    """Mean log-ratio `effect` with its interval; `p` None: nothing was tested, because no two values differ."""

    n: int
    effect: float
    low: float
    high: float
    p: float | None
    attainable: float
    """The smallest p that so few units can give."""

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0.0 or self.high < 0.0


def extra(module: str, name: str, what: str) -> Any:
    """Imports a module of an optional extra; without it an error that says which one to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise RewakeError(f"{what} needs {error.name}: install the extra, pip install 'rewake[{name}]'") from None


def _scipy() -> Any:
    return extra("scipy.stats", "report", "a comparison")


def paired(ratios: Sequence[float]) -> Test:
    """Log-ratios of the same units under two treatments: Wilcoxon's signed-rank test, BCa over the units (Student's t
    from 1,000 on)."""
    values = np.asarray(ratios, np.float64)
    n = len(values)
    moved = np.count_nonzero(values)
    if not moved:
        return Test(n, 0.0, 0.0, 0.0, None, 2.0 ** (1 - n) if n else 1.0)
    attainable = 2.0 ** (1 - moved)  # the test leaves the zeros out
    stats = _scipy()
    p = _signed_rank(stats, values)
    if n >= _MANY:
        low, high = stats.t.interval(1 - ALPHA, n - 1, loc=values.mean(), scale=stats.sem(values))
    else:
        low, high = _bca(stats, (values,), lambda x, axis: np.mean(x, axis=axis))
    return Test(n, float(values.mean()), float(low), float(high), p, attainable)


def difference(a: Sequence[float], b: Sequence[float]) -> float:
    """Student's t test, two-sided: p that two sets of runs have one mean."""
    if np.ptp(a) == np.ptp(b) == 0.0:
        return float(a[0] == b[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about one of them being constant: the variance is that of both
        return float(_scipy().ttest_ind(a, b).pvalue)


def unpaired(base: Sequence[float], new: Sequence[float]) -> Test:
    """Logarithms of two independent sets: the Mann-Whitney test, BCa over both."""
    a, b = np.asarray(base, np.float64), np.asarray(new, np.float64)
    n = min(len(a), len(b))
    attainable = min(2.0 / math.comb(len(a) + len(b), len(a)), 1.0)
    if n == 0 or (np.ptp(np.concatenate([a, b])) == 0.0):
        return Test(n, 0.0, 0.0, 0.0, None, attainable)
    stats = _scipy()
    p = float(stats.mannwhitneyu(b, a, alternative="two-sided").pvalue)
    low, high = _bca(stats, (b, a), lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis))
    return Test(n, float(b.mean() - a.mean()), low, high, p, attainable)


def _signed_rank(stats: Any, values: Floats) -> float:
    """Two-sided p of Wilcoxon's signed-rank test without the zeros; with few values, exact also where ties are."""
    values = values[values != 0.0]
    if len(values) > _TRY_ALL:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about ties: their variance is corrected for
            return float(stats.wilcoxon(values).pvalue)
    ranks = stats.rankdata(np.abs(values))
    signs = 1 - 2 * (np.arange(2 ** len(values))[:, None] >> np.arange(len(values)) & 1)
    sums = np.abs(signs @ ranks)
    return float(np.mean(sums >= abs(float(np.sign(values) @ ranks)) - 1e-9))


def _bca(stats: Any, samples: tuple[Floats, ...], statistic: Any) -> tuple[float, float]:
    """BCa interval of level 1 - ALPHA; the point itself where nothing varies, the whole line for one unit."""
    if min(len(s) for s in samples) < 2:
        return -math.inf, math.inf
    point = float(statistic(*samples, axis=-1))
    if all(np.ptp(s) == 0.0 for s in samples):
        return point, point
    for method in ("BCa", "percentile"):  # BCa is undefined where all resamples lie on one side
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = stats.bootstrap(
                samples, statistic, n_resamples=RESAMPLES, confidence_level=1 - ALPHA, method=method,
                rng=np.random.default_rng(SEED),
            ).confidence_interval  # fmt: skip
        low, high = float(found.low), float(found.high)
        if math.isfinite(low) and math.isfinite(high):
            return low, high
    return -math.inf, math.inf


def adjusted(ps: Sequence[float]) -> list[float]:
    """Benjamini-Hochberg: p by p the smallest false discovery rate at which it is a discovery."""
    if not ps:
        return []
    return [float(q) for q in _scipy().false_discovery_control(list(ps), method="bh")]
