# SPDX-License-Identifier: GPL-2.0-or-later
"""The input audit: what the engine reads at each decision against what placement probes recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

ORIGINS = {
    "sync": "inferred", "recent_cpu": "reconstructed", "flips": "inferred", "util": "reconstructed",
    "load": "reconstructed", "rq_load": "reconstructed", "rq_nr": "reconstructed", "nr_idle_scan": "inferred",
    "has_idle_cores": "reconstructed", "nallowed": "recorded", "recent_carried": "reconstructed",
    "flips_carried": "reconstructed",
}  # fmt: skip
"""Where each input comes from without probes; its unit is the one of table `probe`. `*_carried`: carried on, by the
rules, from the value that was probed before; the others never see a probe."""

_NUMBERS = ("flips", "flips_carried", "util", "load", "rq_load", "rq_nr", "nr_idle_scan")
"""Inputs that are amounts: errors have a size."""
_AVERAGES = ("flips", "flips_carried", "util", "load", "rq_load")
"""Of these the large ones, of which 16 is little."""


@dataclass(frozen=True)
class Input:
    """One input over the decisions behind the warm-up; None where an error has no size or nothing varies."""

    input: str
    origin: str
    decisions: int
    exact: float
    """Share of decisions with the probed value."""
    close: float | None
    """Share within 10 % of the probed value, or 16 of it."""
    error_p50: float | None
    error_p90: float | None
    error_p99: float | None
    r2: float | None
    probed_mean: float | None
    mean: float | None
    warm: int | None
    """Decisions past the warm-up of this input: what it depends on is in the recording. None: it needs none."""
    warm_exact: float | None


@dataclass(frozen=True)
class Class:
    """Wakeups to which the events alone give one class, and how many of them reached placement."""

    class_: str
    wakeups: int
    placed: int


@dataclass(frozen=True)
class Audit:
    """The whole audit of one column."""

    policy: str
    warm_up_ns: int
    inputs: tuple[Input, ...]
    classes: tuple[Class, ...]

    def plain(self) -> dict[str, Any]:
        """As plain data, for the writers."""
        classes = [{"class": c.class_, "wakeups": c.wakeups, "placed": c.placed} for c in self.classes]
        return {
            "policy": self.policy,
            "warm_up_ns": self.warm_up_ns,
            "inputs": [asdict(i) for i in self.inputs],
            "classes": classes,
        }


def compare(
    policy: str,
    model: Mapping[str, Array],
    truth: Mapping[str, tuple[Array, Array]],
    late: Array,
    warm_up_ns: int,
    warm: Mapping[str, tuple[Array, Array]],
    classes: Sequence[tuple[str, int, int]],
    inferred: Collection[str] = (),
) -> Audit:
    """`truth`: values and NULL masks; `late`: decisions behind the warm-up of all inputs; `warm`: values of inputs past
    a warm-up of their own, and where they are; `inferred`: inputs that are so in this recording, whatever ORIGINS says.
    All arrays run over the same decisions."""
    inputs = []
    for name, origin in ORIGINS.items():
        values, null = truth[name]
        ours = late & ~null
        if ours.any():
            origin = "inferred" if name in inferred else origin
            found = _input(name, origin, values[ours].astype(np.float64), model[name][ours].astype(np.float64))
            inputs.append(_past_warm_up(found, *warm[name], values, null) if name in warm else found)
    return Audit(policy, warm_up_ns, tuple(inputs), tuple(Class(*row) for row in classes))


def _past_warm_up(found: Input, values: Array, known: Array, truth: Array, null: Array) -> Input:
    ours = known.astype(np.bool_) & ~null
    exact = float(np.mean(values[ours] == truth[ours])) if ours.any() else None
    return replace(found, warm=int(ours.sum()), warm_exact=exact)


def _input(name: str, origin: str, truth: Array, model: Array) -> Input:
    error = np.abs(truth - model)
    p50 = p90 = p99 = close = r2 = means = None
    if name in _NUMBERS:
        p50, p90, p99 = (float(np.quantile(error, q, method="inverted_cdf")) for q in (0.5, 0.9, 0.99))
        close = float(np.mean((error <= 16) | (error <= 0.1 * truth))) if name in _AVERAGES else None
        spread = float(np.square(truth - truth.mean()).sum())
        r2 = 1 - float(np.square(error).sum()) / spread if spread > 0 else None
    if not name.startswith("recent"):
        means = float(truth.mean()), float(model.mean())
    return Input(
        input=name, origin=origin, decisions=len(truth), exact=float(np.mean(error == 0)), close=close,
        error_p50=p50, error_p90=p90, error_p99=p99, r2=r2,
        probed_mean=means[0] if means else None, mean=means[1] if means else None,
        warm=None, warm_exact=None,
    )  # fmt: skip
