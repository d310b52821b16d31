# SPDX-License-Identifier: GPL-2.0-or-later
"""How well one policy reproduces what the recorded kernel chose."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from rewake.analysis import sql
from rewake.errors import FidelityError


@dataclass(frozen=True)
class Branch:
    """One rule of the policy: how often it decided, and what the kernel did instead."""

    branch: str
    decisions: int
    agreement: float
    moves: int
    agreed: int
    recorded_prev: int
    recorded_waker: int
    recorded_same_llc: int
    recorded_elsewhere: int


@dataclass(frozen=True)
class Fidelity:
    """Figures of queries/fidelity; shares between 0 and 1, None where there is nothing to divide by."""

    policy: str
    asked: bool
    """The column was named with --as: the figures do not speak for the recorded kernel."""
    notes: tuple[str, ...]
    decisions: int
    agreement: float
    prev_agreement: float
    skill: float | None
    moved: int
    moved_agreement: float | None
    policy_moved: int
    moved_precision: float | None
    llc_agreement: float | None
    llc_skill: float | None
    inputs_assumed_pct: dict[str, float]
    """Share in per cent of its decisions that rest on each inferred or modelled input, and `any`."""
    branches: tuple[Branch, ...]

    def plain(self) -> dict[str, Any]:
        """As plain data, for the writers."""
        return asdict(self) | {"notes": list(self.notes), "branches": [asdict(b) for b in self.branches]}


def measure(
    con: duckdb.DuckDBPyConnection, policy: str, *, asked: bool = False, notes: tuple[str, ...] = ()
) -> Fidelity:
    """Fidelity of the policy instance `policy` of a run; FidelityError when it decided nothing."""
    found = [row for row in sql.run(con, "fidelity/agreement").dicts() if row["policy"] == policy]
    if not found:
        raise FidelityError(f"{policy} decided nothing in this recording: no wakeup reached the fair class's placement")
    rows = [row for row in sql.run(con, "fidelity/branches").dicts() if row.pop("policy") == policy]
    inputs = [row for row in sql.run(con, "population/inputs").dicts() if row["policy"] == policy]
    return Fidelity(
        asked=asked,
        notes=notes,
        inputs_assumed_pct={"any": 0.0} | {row["input"]: row["share_pct"] for row in inputs},
        branches=tuple(Branch(**row) for row in rows),
        **found[0],
    )


def enforce(measured: Fidelity | None, refusal: str | None, min_skill: float | None) -> None:
    """FidelityError when the skill is below `min_skill` (None: any will do), or there is none to compare."""
    if min_skill is None:
        return
    if measured is None:
        raise FidelityError(
            f"{refusal or 'the kernel column was not replayed'}: no skill, at least {min_skill:g} was asked for"
        )
    if measured.skill is None or measured.skill < min_skill:
        figure = "not defined (the kernel moved nothing)" if measured.skill is None else f"{measured.skill:.3f}"
        raise FidelityError(f"{measured.policy}: skill {figure}, at least {min_skill:g} was asked for")
