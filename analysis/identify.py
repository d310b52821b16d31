# SPDX-License-Identifier: GPL-2.0-or-later
"""Which kernel column, with which scheduler features, decided a recording: a ranking with its uncertainty.

Candidates are compared on the same wakeups, so what counts is the paired difference to the best one. Wakeups that
follow each other are not independent: whole blocks of time are drawn with replacement, and none counts for more wakeups
than the median one, so that a burst that the model gets wrong as a whole does not decide. The intervals are
simultaneous, because the best was picked among many: the largest studentised difference over the candidates bounds each
of them, and again over those that are left when it has ruled some out, until it rules out none (step-down; Romano and
Wolf, 2005). They hold the sampling error only: what the model gets wrong of loads or of nr_idle_scan is not in them.

The recorded kernel's version and features take no part; the caller hands them in to be looked up in the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from rewake.analysis import sql
from rewake.analysis.columns import COLUMNS, PLACEMENT_FEATURES
from rewake.errors import FidelityError
from rewake.forms import TRUE

RESAMPLES = 2000
LEVEL = 0.95
SEED = 0
LEAST_TELLING = 30
"""Telling wakeups below which no candidate is ruled out."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def candidates(parameters: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Every column as it is, with each feature that its placement reads switched, and with all WA_* switched.

    `parameters`: policy -> {parameter: default} of the policies that exist.
    """
    out = []
    for column in COLUMNS:
        known = parameters.get(column)
        if known is None:
            continue
        switches = [f for f in PLACEMENT_FEATURES if f in known]
        affine = [f for f in switches if f.startswith("WA_")]
        for group in ((), *((f,) for f in switches), *((tuple(affine),) if len(affine) > 1 else ())):
            text = ",".join(f"{f}={int(known[f].lower() not in TRUE)}" for f in sorted(group))
            out.append(f"{column}:{text}" if text else column)
    return out


def column_of(policy: str) -> str:
    """The column of a candidate."""
    return policy.partition(":")[0]


def _order(policy: str) -> tuple[int, int]:
    """The plainest candidate of several that decide identically comes first."""
    column, _, settings = policy.partition(":")
    return settings.count("=") and 1 + settings.count(","), COLUMNS.index(column) if column in COLUMNS else -1


@dataclass(frozen=True)
class Candidate:
    """Candidates that decide identically throughout: the plainest of them, the rest, and their figures.

    Shares between 0 and 1. `score`: agreement on the telling wakeups, no block of time counting for more of them than
    the median one. `behind`: score of the best one minus this one's, with its interval `low`..`high`.
    """

    policy: str
    same: tuple[str, ...]
    score: float | None
    agreed: int
    agreement: float | None
    recall: float | None
    precision: float | None
    skill: float | None
    behind: float
    low: float
    high: float
    in_set: bool

    @property
    def members(self) -> tuple[str, ...]:
        return (self.policy, *self.same)


@dataclass(frozen=True)
class Ranking:
    """The candidates under one assumption on WF_SYNC, best first."""

    sync: str
    candidates: tuple[Candidate, ...]

    @property
    def members(self) -> tuple[str, ...]:
        """All that cannot be told from the best one."""
        return tuple(m for c in self.candidates if c.in_set for m in c.members)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the set, in the order of their kernels."""
        found = {column_of(m) for m in self.members}
        return tuple(c for c in COLUMNS if c in found)


@dataclass(frozen=True)
class Identification:
    """The answer: `ranking`, what it was measured on, and where the recorded kernel's own column stands in it."""

    ranking: Ranking
    under: tuple[Ranking, ...]
    """The other assumptions on WF_SYNC, for comparison."""
    tried: int
    """Columns that were candidates."""
    left_out: tuple[str, ...]
    decisions: int
    telling: int
    moved: int
    blocks: int
    block_ns: int
    recorded: str | None
    """The instance that stands for the recorded kernel; None where no column does, `recorded_notes` says why."""
    recorded_notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """`named`: one column; `ambiguous`: several; `inconclusive`: too few telling wakeups, or all columns."""
        columns = len(self.ranking.columns)
        if self.telling < LEAST_TELLING or columns == self.tried > 1:
            return "inconclusive"
        return "named" if columns == 1 else "ambiguous"

    @property
    def settings(self) -> dict[str, list[str]]:
        """Values of each feature over the set, among columns that read it."""
        found: dict[str, set[str]] = {}
        for member in self.ranking.members:
            given = dict(item.split("=") for item in member.partition(":")[2].split(",") if item)
            for feature in self._features(column_of(member)):
                found.setdefault(feature, set()).add(given.get(feature, "default"))
        return {feature: sorted(found[feature]) for feature in PLACEMENT_FEATURES if feature in found}

    def _features(self, column: str) -> set[str]:
        tried = (m for c in self.ranking.candidates for m in c.members if column_of(m) == column)
        return {item.split("=")[0] for m in tried for item in m.partition(":")[2].split(",") if item}

    @property
    def column_in_set(self) -> bool | None:
        """Whether the set holds the recorded kernel's column; None where there is none."""
        return None if self.recorded is None else column_of(self.recorded) in self.ranking.columns

    @property
    def instance_in_set(self) -> bool | None:
        """Whether it holds that column with the recorded features; None where that was no candidate."""
        tried = {m for c in self.ranking.candidates for m in c.members}
        return self.recorded in self.ranking.members if self.recorded in tried else None

    def plain(self) -> dict[str, Any]:
        """As plain data, for the writers."""
        return {
            "verdict": self.verdict,
            "columns": list(self.ranking.columns),
            "set": list(self.ranking.members),
            "settings": self.settings,
            "sync": self.ranking.sync,
            "decisions": self.decisions,
            "telling": self.telling,
            "moved": self.moved,
            "interval": {
                "level": LEVEL, "resamples": RESAMPLES, "seed": SEED, "blocks": self.blocks, "block_ns": self.block_ns,
            },
            "recorded": self.recorded,
            "recorded_notes": list(self.recorded_notes),
            "column_in_set": self.column_in_set,
            "instance_in_set": self.instance_in_set,
            "candidates": [asdict(c) for c in self.ranking.candidates],
            "under": [
                {"sync": r.sync, "best": r.candidates[0].policy, "columns": list(r.columns), "set": list(r.members)}
                for r in self.under
            ],
            "left_out": list(self.left_out),
        }  # fmt: skip

    def rows(self) -> sql.Rows:
        """One row per candidate, those that decide identically each in their own."""
        columns = (
            "candidate",
            "agreed",
            "agreement",
            "recall",
            "precision",
            "skill",
            "behind",
            "low",
            "high",
            "in_set",
        )
        rows: list[tuple[Any, ...]] = []
        for c in self.ranking.candidates:
            figures = [getattr(c, name) for name in columns[1:]]
            rows += [(member, *figures) for member in c.members]
        return sql.Rows(columns, rows)


def capped(telling: Ints, agreed: Ints) -> tuple[Ints, Ints]:
    """Telling wakeups by block and agreement by (candidate, block), no block counting for more than the median one.

    In units of 2**-20 wakeups, so that sums are exact whatever their order.
    """
    full = telling > 0
    most = np.minimum(telling, int(np.median(telling[full])) if full.any() else 0)
    share = np.divide(agreed, telling, out=np.zeros(agreed.shape), where=full)
    return most << 20, np.rint(share * (most << 20)).astype(np.int64)


def intervals(telling: Ints, agreed: Ints, best: int) -> tuple[Floats, Floats]:
    """How far every candidate is behind `best`, and how far its interval reaches to either side.

    `telling`: wakeups by block, `agreed`: by (candidate, block), in any unit. Shares of the telling wakeups.
    """
    behind = (agreed[best] - agreed).astype(np.float64)
    n = len(telling)
    seen = behind.sum(axis=1) / max(int(telling.sum()), 1)
    weights = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(np.float64)
    drawn = (weights @ behind.T) / np.maximum(weights @ telling, 1)[:, None]
    error = drawn.std(axis=0) * np.sqrt(n / max(n - 1, 1))
    varies = behind.any(axis=1) & (error > 0)
    off = np.divide(drawn - seen, error, out=np.zeros_like(drawn), where=varies)
    reach = np.zeros(len(seen))
    left = varies.copy()
    while left.any():
        bound = float(np.quantile(off[:, left].max(axis=1), LEVEL, method="higher"))
        reach[left] = bound * error[left]
        out = left & (seen > reach)
        if not out.any():
            break
        left &= ~out
    return seen, reach


def _rank(found: Sequence[Mapping[str, Any]], blocks: Sequence[Mapping[str, Any]], same: list[list[str]]) -> Ranking:
    """`found`, `blocks`: rows of fidelity/candidates and fidelity/blocks under one value of sync."""
    figures = {str(row["policy"]): row for row in found}
    agreed: dict[str, list[int]] = {}
    telling: dict[int, int] = {}
    for row in blocks:
        agreed.setdefault(row["policy"], []).append(row["agreed"])
        telling[row["from_ns"]] = row["telling"]
    groups = sorted((sorted(group, key=_order) for group in same), key=lambda g: _order(g[0]))
    counted, scores = capped(np.array(list(telling.values())), np.array([agreed[g[0]] for g in groups]))
    order = np.argsort(-scores.sum(axis=1), kind="stable")
    behind, reach = intervals(counted, scores[order], 0)
    if len(telling) < 2 or sum(telling.values()) < LEAST_TELLING:
        reach = np.ones(len(groups))
    total = int(counted.sum())
    ranked = []
    for i, value, width in zip(order, behind.tolist(), reach.tolist(), strict=True):
        plainest, *alike = groups[i]
        kept = {k: figures[plainest][k] for k in ("agreed", "agreement", "recall", "precision", "skill")}
        score = int(scores[i].sum()) / total if total else None
        low, high = max(value - width, -1.0), min(value + width, 1.0)
        ranked.append(
            Candidate(plainest, tuple(alike), score=score, behind=value, low=low, high=high, in_set=low <= 0, **kept)
        )
    return Ranking(str(found[0]["sync"]), tuple(ranked))


def measure(
    con: duckdb.DuckDBPyConnection,
    manifest: Mapping[str, Any],
    sync: str,
    recorded: str | None,
    recorded_notes: Sequence[str] = (),
) -> Identification:
    """Ranks the candidates of a trial run under `sync`; `con` is prepared, `manifest` the run's.

    `recorded`: the instance that stands for the recorded kernel, to be looked up in the answer. FidelityError when the
    recording has no wakeup that reached the fair class's placement.
    """
    found, blocks = sql.run(con, "fidelity/candidates").dicts(), sql.run(con, "fidelity/blocks").dicts()
    if not found or not found[0]["decisions"]:
        raise FidelityError("nothing to identify: no wakeup reached the fair class's placement in this recording")
    here = next(row for row in found if row["sync"] == sync)
    rankings = {
        s: _rank([r for r in found if r["sync"] == s], [r for r in blocks if r["sync"] == s], manifest["identical"])
        for s in sorted({str(row["sync"]) for row in found})
    }
    return Identification(
        ranking=rankings.pop(sync),
        under=tuple(rankings.values()),
        tried=len({column_of(str(row["policy"])) for row in found}),
        left_out=tuple(manifest["left_out"]),
        decisions=here["decisions"],
        telling=here["telling"],
        moved=here["moved"],
        blocks=len({row["from_ns"] for row in blocks}),
        block_ns=manifest["block_ns"],
        recorded=recorded,
        recorded_notes=tuple(recorded_notes),
    )
