# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs as they are compared, kept and watched: whose recording, on what machine, and the figures of each policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb

from rewake.analysis import sql
from rewake.analysis.measures import QUERIES
from rewake.analysis.quality import QualityCard
from rewake.analysis.report import branches_of
from rewake.analysis.summary import machine_line

Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Subject:
    """One run: whose recording, on what machine, and the figures of each policy."""

    name: str
    recording: str
    kernel: str | None
    machine: str
    figures: Mapping[str, Figures]
    refused: str | None
    """What the quality card says where it refuses the recording; None: it does not."""
    skill: float | None
    """Of the recorded kernel's own column; None: it has none."""
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By policy: what went wrong with it (plugins)."""


@dataclass(frozen=True)
class Unit:
    """What one number stands for: the figures of each policy, for one recording or block."""

    name: str
    base: Mapping[str, Figures]
    new: Mapping[str, Figures]


def subject(
    con: duckdb.DuckDBPyConnection, run: Mapping[str, Any], recording: Mapping[str, Any], name: str, card: QualityCard
) -> Subject:
    """A run's figures: `con` is `Run.connect()`'s, `run` and `recording` are the manifests."""
    sql.prepare(con, branches_of(run["policies"]))
    sql.settle(con)
    agreement = {row["policy"]: row["skill"] for row in sql.run(con, "fidelity/agreement").dicts()}
    return Subject(
        name=name,
        recording=str(recording["id"]),
        kernel=recording.get("kernel"),
        machine=machine_line(recording["machine"]),
        figures=_in_order(_figures(con), run),
        refused=None if card.ok else card.line(),
        skill=agreement.get(str(run.get("auto"))),
        problems={str(p["name"]): tuple(p["problems"]) for p in run["policies"] if p.get("problems")},
    )


def _figures(con: duckdb.DuckDBPyConnection) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in QUERIES:
        for row in sql.run(con, name).dicts():
            found.setdefault(row.pop("policy"), {}).update(row)
    return found


def _in_order(figures: Mapping[str, Figures], run: Mapping[str, Any]) -> dict[str, Figures]:
    """In the order in which the policies were asked for."""
    return {str(p["name"]): figures[str(p["name"])] for p in run["policies"] if str(p["name"]) in figures}


def blocks(con: duckdb.DuckDBPyConnection, run: Mapping[str, Any], ms: int) -> dict[int, dict[str, Figures]]:
    """Figures by block of `ms` milliseconds and policy; `con` is a fresh one of `Run.connect()`."""
    sql.prepare(con, branches_of(run["policies"]))
    con.execute(f"CREATE OR REPLACE TEMP MACRO block_ns() AS {int(ms) * 1_000_000}")
    con.execute(sql.shared("blocks.sql"))
    sql.settle(con)
    found: dict[int, dict[str, Figures]] = {}
    for key, figures in _figures(con).items():
        policy, _, block = key.rpartition("\x1f")
        found.setdefault(int(block), {})[policy] = figures
    return dict(sorted(found.items()))


def paired_blocks(base: Mapping[int, Mapping[str, Figures]], new: Mapping[int, Mapping[str, Figures]]) -> list[Unit]:
    """The blocks that both runs have, as units."""
    return [Unit(f"block {i}", base[i], new[i]) for i in base if i in new]
