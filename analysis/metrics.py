# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of every policy of a run, one row each, from the catalogue's queries. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb

from rewake.analysis import sql

PER_POLICY = (
    "moves/one_step",
    "moves/cross_llc",
    "idle/missed",
    "stacking/stacked",
    "latency/policy",
    "fidelity/agreement",
    "scan/cost",
)
"""Queries with one row per policy that make up its figures, in this order."""


@dataclass(frozen=True)
class PolicyFigures:
    """One policy instance: what it is, and its figures by the queries' column names."""

    policy: str
    base: str
    label: str
    reference: bool
    figures: dict[str, Any]
    problems: tuple[str, ...]
    """What went wrong with it (plugins)."""
    inputs: dict[str, float]
    """Share in per cent of its decisions that rest on each assumed input, and `any`."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Types of the figures' columns, in the queries' words."""

    def __getitem__(self, name: str) -> Any:
        return self.figures.get(name)


def described(policies: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The run manifest's `policies` by instance name."""
    return {str(p["name"]): p for p in policies}


def measure(con: duckdb.DuckDBPyConnection, policies: Sequence[Mapping[str, Any]]) -> list[PolicyFigures]:
    """Figures of the policies of a run, `policies` being the run manifest's, in its order; `con` is prepared."""
    figures: dict[str, dict[str, Any]] = {name: {} for name in described(policies)}
    types: dict[str, str] = {}
    for name in PER_POLICY:
        answer = sql.run(con, name)
        types |= dict(zip(answer.columns, answer.types, strict=True))
        for row in answer.dicts():
            figures[row.pop("policy")].update(row)
    inputs: dict[str, dict[str, float]] = {name: {} for name in figures}
    for row in sql.run(con, "population/inputs").dicts():
        inputs[row["policy"]][row["input"]] = row["share_pct"]
    return [
        PolicyFigures(
            policy=name,
            base=str(p.get("base", name)),
            label=str(p.get("label", "")),
            reference=bool(p.get("reference", False)),
            figures=figures[name],
            problems=tuple(p.get("problems", ())),
            inputs=inputs[name],
            types=types,
        )
        for name, p in described(policies).items()
    ]
