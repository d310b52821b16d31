# SPDX-License-Identifier: GPL-2.0-or-later
"""What a closed-loop run comes to: figures per policy, and how far they can be trusted (policies.md D3)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from rewake.analysis import sql
from rewake.analysis.quality import QualityCard
from rewake.analysis.report import Machine, machine_of
from rewake.errors import QualityVeto, RewakeError

PINNED_WITHIN, PINNED_KS = 0.10, 0.05
"""V3: p50, p90 and p99 within this share of the recorded ones (or half the bootstrap width, if more); KS distance."""
FACTUAL_WITHIN, MOVES_WITHIN = 0.20, 0.10
"""V4: p50 and p99; migrations by wakeups."""
MOST_DIVERGED = 10.0
"""Per cent of a policy's windows that may diverge before its figures are vetoed."""

VERSUS = ("p50_ns", "p90_ns", "p99_ns", "cycles_per_s")
"""Figures with a distance from the factual run, `_vs_factual_pct`."""
RANGES = {
    "p50_ns": ("p50_low_ns", "p50_high_ns"),
    "p99_ns": ("p99_low_ns", "p99_high_ns"),
    "cycles_per_s": ("cycles_low_per_s", "cycles_high_per_s"),
}
"""Figures with the smallest and the largest of a single window."""

NOTHING_TO_JUDGE = "nothing to judge"
"""Missed by a check of a recording in which no wakeup waited for a CPU."""

_BLOCKS, _RESAMPLES, _SEED, _LEVEL = 20, 200, 1, 0.90


@dataclass(frozen=True)
class Check:
    """One arm that should reproduce the recording: figures beside the recorded ones, and which of them do not hold."""

    policy: str
    kind: str
    figures: dict[str, Any]
    allowed: dict[str, float]
    """By figure: how far it may be from the recorded one."""
    missed: list[str]

    @property
    def holds(self) -> bool:
        return not self.missed

    @property
    def judged(self) -> bool:
        return NOTHING_TO_JUDGE not in self.missed


@dataclass(frozen=True)
class Simulated:
    """One closed-loop run. All figures of `policies` are modelled."""

    machine: Machine
    quality: QualityCard
    settings: dict[str, Any]
    auto: str | None
    checks: list[Check]
    policies: list[dict[str, Any]]
    broken: int
    """Conservation checks that failed (V5)."""
    types: dict[str, str]
    """DuckDB's, of the figures of `policies`."""
    hints: dict[str, Any] | None = None
    """What the rules of --hints came to."""
    remarks: tuple[str, ...] = ()
    """What the policies cannot show on this machine."""

    @property
    def in_charge(self) -> list[dict[str, Any]]:
        """The recorded kernel's column, then the policies: what can be compared."""
        return [p for p in self.policies if p["kind"] in ("factual", "policy")]

    @property
    def factual(self) -> dict[str, Any] | None:
        """What all others are compared with; None where the recorded kernel has no column."""
        return next((p for p in self.policies if p["kind"] == "factual"), None)

    def check(self, kind: str) -> Check | None:
        """The check of that kind, where it was made."""
        return next((c for c in self.checks if c.kind == kind), None)

    def apart(self, policy: Mapping[str, Any], figure: str) -> bool:
        """Whether no window of a policy reaches into the range of the factual run's windows."""
        if self.factual is None or figure not in RANGES:
            return False
        low, high = RANGES[figure]
        mine, other = (policy[low], policy[high]), (self.factual[low], self.factual[high])
        return None not in (*mine, *other) and bool(mine[0] > other[1] or mine[1] < other[0])

    @property
    def diverged(self) -> list[dict[str, Any]]:
        """Policies of which more windows diverged than can be answered for."""
        return [p for p in self.policies if (p["diverged_pct"] or 0.0) > MOST_DIVERGED]

    def plain(self) -> dict[str, Any]:
        return {
            "mode": "closed",
            "trust": "modelled",
            "recording": asdict(self.machine),
            "quality": self.quality.as_dict(),
            "settings": self.settings,
            "auto": self.auto,
            "checks": [asdict(c) | {"holds": c.holds} for c in self.checks],
            "conservation_broken": self.broken,
            "policies": self.policies,
            "hints": self.hints,
            "notes": self.remarks,
        }


def _nearest_ranks(
    blocks: Callable[[], Iterable[npt.NDArray[Any]]], times: npt.NDArray[np.intp], percentiles: tuple[float, ...]
) -> npt.NDArray[Any]:
    """Percentiles (nearest rank) of samples made of `blocks` of sorted values, each so many `times`: (sample,
    percentile). By bisection over the whole numbers, without making the samples: of the blocks, which are gone through
    twice, only values between their own percentiles are kept, give or take a rank for the rounding of ranks."""
    wanted = np.array(percentiles)
    own = []
    for block in blocks():
        at = np.ceil(len(block) * wanted).astype(int) - 1
        own.append((len(block), block[np.maximum(at - 1, 0)], block[np.minimum(at + 1, len(block) - 1)]))
    sizes, low, high = (np.array(of) for of in zip(*own, strict=True))
    least, most = low.min(axis=0), high.max(axis=0)
    near: list[list[tuple[int, npt.NDArray[Any]]]] = [[] for _ in percentiles]
    for block in blocks():
        for k, pieces in enumerate(near):
            begin = int(np.searchsorted(block, least[k], "left"))
            pieces.append((begin, block[begin : np.searchsorted(block, most[k], "right")].copy()))
    ranks = np.ceil(np.multiply.outer(times @ sizes, wanted)).astype(int)
    return np.stack(
        [_bisected(near[k], times, ranks[:, k], least[k], most[k]) for k in range(len(percentiles))], axis=1
    )


def _bisected(
    pieces: list[tuple[int, npt.NDArray[Any]]],
    times: npt.NDArray[np.intp],
    ranks: npt.NDArray[Any],
    least: int,
    most: int,
) -> npt.NDArray[Any]:
    """By sample, the value of that rank, which is from `least` to `most`. `pieces`: per block how many of its values
    are smaller, and those that are not."""
    low, high = np.full_like(ranks, least), np.full_like(ranks, most)
    while (low < high).any():
        middle = (low + high) // 2
        at_most = sum(
            times[:, k] * (below + np.searchsorted(piece, middle, "right")) for k, (below, piece) in enumerate(pieces)
        )
        enough = at_most >= ranks
        low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
    return low


def _half_widths(con: duckdb.DuckDBPyConnection) -> dict[float, float]:
    """Half the width of the block-bootstrap interval of the recorded percentiles, ns, by percentile."""
    con.execute(
        """
        CREATE OR REPLACE TEMP TABLE waited AS
        SELECT ts_ns, decision_id, latency_ns FROM decision
        WHERE waited_for_cpu(kind, class, prio, censored, latency_ns)
        """
    ).fetchall()
    try:
        edges = _edges(con)
        if not edges:
            return {}
        with tempfile.TemporaryFile() as file:
            sizes = []
            for first, last in pairwise(edges):
                values = np.sort(np.asarray(con.execute(_BLOCK, [*first, *last]).fetchnumpy()["latency_ns"], np.int64))
                file.write(values.data)
                sizes.append(values.nbytes)

            def blocks() -> Iterator[npt.NDArray[Any]]:
                file.seek(0)
                for n in sizes:
                    yield np.frombuffer(file.read(n), np.int64)

            return _widths(blocks, len(sizes))
    finally:
        con.execute("DROP TABLE waited").fetchall()


_SLICES = 4096
_BLOCK = """
SELECT latency_ns FROM waited
WHERE ts_ns >= $1 AND (ts_ns > $1 OR decision_id >= $2) AND ts_ns <= $3 AND (ts_ns < $3 OR decision_id < $4)
"""


def _edges(con: duckdb.DuckDBPyConnection) -> list[tuple[int, int]]:
    """Time and number of the decision with which each of the blocks of equal size begins, and what is behind the last;
    none where nobody waited. As ntile(), which holds all rows, and sorts them: only those of the slice of time that an
    edge falls into are sorted."""
    n, begin, end = con.execute("SELECT count(*), min(ts_ns), max(ts_ns) FROM waited").fetchall()[0]
    if not n:
        return []
    width = (end - begin) // _SLICES + 1
    asked = "SELECT (ts_ns - $1) // $2 AS slice, count(*) FROM waited GROUP BY slice ORDER BY slice"
    number, sizes = np.array(con.execute(asked, [begin, width]).fetchall(), np.int64).T
    upto = np.cumsum(sizes)
    blocks = min(_BLOCKS, n)
    edges = []
    for k in range(blocks):
        row = k * (n // blocks) + min(k, n % blocks)
        at = int(np.searchsorted(upto, row, "right"))
        since = begin + int(number[at]) * width
        edge = "SELECT ts_ns, decision_id FROM waited WHERE ts_ns >= ? AND ts_ns < ? ORDER BY ALL LIMIT 1 OFFSET ?"
        edges += con.execute(edge, [since, since + width, row - int(upto[at] - sizes[at])]).fetchall()
    return [*edges, (end + 1, 0)]


def _widths(blocks: Callable[[], Iterable[npt.NDArray[Any]]], n: int) -> dict[float, float]:
    """`blocks`: `n` of sorted values."""
    rng = np.random.default_rng(_SEED)
    times = np.stack([np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(_RESAMPLES)])
    drawn = _nearest_ranks(blocks, times, (0.5, 0.9, 0.99))
    low, high = np.quantile(drawn, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    return {q: float(above - below) / 2 for q, below, above in zip((0.5, 0.9, 0.99), low, high, strict=True)}


def _check(row: dict[str, Any], half: Mapping[float, float]) -> Check:
    pinned = row["kind"] != "factual"
    within = PINNED_WITHIN if pinned else FACTUAL_WITHIN
    allowed: dict[str, float] = {}
    missed = []
    if row["recorded_n"] is None:
        return Check(row["policy"], row["kind"], row, allowed, [NOTHING_TO_JUDGE])
    for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        if not pinned and name == "p90":
            continue
        model, truth = row[f"{name}_ns"], row[f"recorded_{name}_ns"]
        if truth is None:
            continue
        allowed[name] = max(within * truth, half.get(q, 0.0) if pinned else 0.0)
        if model is None or abs(model - truth) > allowed[name]:
            missed.append(name)
    if pinned:
        allowed["ks"] = PINNED_KS
        if row["ks"] is None or row["ks"] > PINNED_KS:
            missed.append("ks")
    elif row["recorded_moves_per_s"] is not None:
        seconds = row["recorded_n"] / row["recorded_cycles_per_s"] / row["replicas"]
        spread = 2 * (max(row["recorded_moves_per_s"], 1 / seconds) / seconds) ** 0.5  # of a count of that size, or one
        allowed["moves"] = max(MOVES_WITHIN * row["recorded_moves_per_s"], spread)
        if abs(row["moves_per_s"] - row["recorded_moves_per_s"]) > allowed["moves"]:
            missed.append("moves")
    return Check(row["policy"], row["kind"], row, allowed, missed)


def build(con: duckdb.DuckDBPyConnection, manifest: Mapping[str, Any], *, name: str, kernel: str | None,
          quality: QualityCard) -> Simulated:  # fmt: skip
    """Assembles the figures of a closed-loop run: `con` is `Run.connect()`'s, `manifest` the run's."""
    sql.prepare(con)
    parts = ("simulate/latency", "simulate/queue_wait", "simulate/migrations", "simulate/work")
    found: dict[str, dict[str, Any]] = {}
    types: dict[str, str] = {}
    for part in parts:
        answer = sql.run(con, part)
        wait = part == "simulate/queue_wait"
        names = [f"wait_{c}" if wait and c.endswith("_ns") else c for c in answer.columns]
        types |= dict(zip(names, answer.types or (), strict=False))
        for row in answer.rows:
            found.setdefault(row[0], {}).update(zip(names, row, strict=True))
    factual = next((p for p in found.values() if p["kind"] == "factual"), None)
    for p in found.values():
        for figure in VERSUS:
            base = None if factual is None else factual[figure]
            value = p[figure]
            p[f"{figure}_vs_factual_pct"] = None if not base or value is None else 100.0 * (value - base) / base
    half = _half_widths(con)
    broken = con.execute("SELECT coalesce(sum(broken), 0)::BIGINT FROM sim_window").fetchall()[0][0]
    return Simulated(
        machine=machine_of(con, name, kernel),
        quality=quality,
        settings=dict(manifest.get("settings") or {}),
        auto=manifest.get("auto"),
        checks=[_check(row, half) for row in sql.run(con, "simulate/recorded").dicts()],
        policies=list(found.values()),
        broken=int(broken),
        types=types | {f"{figure}_vs_factual_pct": "DOUBLE" for figure in VERSUS},
        hints=manifest.get("hints"),
        remarks=tuple(manifest.get("notes") or ()),
    )


def per_policy(s: Simulated) -> sql.Rows:
    """The figures as one table, a row per arm; its columns do not depend on what the arms did."""
    names = [name for name in s.types if name != "policy"]
    return sql.Rows(
        ("recording", "kernel", "policy", *names),
        [(s.machine.recording, s.machine.kernel, p["policy"], *(p[name] for name in names)) for p in s.policies],
        ("VARCHAR", "VARCHAR", "VARCHAR", *(s.types[name] for name in names)),
    )


def enforce(found: Simulated, force: bool) -> None:
    """RewakeError where a conservation check failed; QualityVeto where too much diverged, unless forced."""
    if found.broken:
        why = "please report this" if found.quality.ok else "the recording contradicts itself, see rewake check"
        raise RewakeError(f"{found.broken} conservation checks failed: these figures are worthless; {why}")
    if found.diverged and not force:
        worst = max(found.diverged, key=lambda p: p["diverged_pct"])
        raise QualityVeto(
            f"{worst['policy']}: {worst['diverged_pct']:.0f} % of the windows left the recording behind (more than "
            f"{MOST_DIVERGED:g} %); try shorter --windows, or --force"
        )
