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
    return Fidelity(asked=asked, notes=notes, branches=tuple(Branch(**row) for row in rows), **found[0])
