# SPDX-License-Identifier: GPL-2.0-or-later
"""What the page shows beyond the report's table: the answers of queries, as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from rewake.analysis import sql
from rewake.analysis.html.charts import MOST_CELLS

Dicts = list[dict[str, Any]]


@dataclass(frozen=True)
class Heat:
    """Moves between CPUs, LLCs or nodes: `kind` says which, `order` which stands where, `breaks` where a group ends."""

    kind: str
    key: str
    order: list[int]
    breaks: list[int]
    rows: Dicts


@dataclass(frozen=True)
class Figures:
    """Rows of the queries by name; heatmaps as far as they fit."""

    span_ns: int | None
    flow: Dicts
    curve: Dicts
    windows: Dicts
    stacked: Dicts
    inputs: Dicts
    cpus: Dicts
    heats: list[Heat]
    options: Mapping[str, Any]
    """What the run was made with, in the words of its manifest."""


def gather(con: duckdb.DuckDBPyConnection, manifest: Mapping[str, Any], span_ns: int | None) -> Figures:
    """Asks the queries on a connection that `report.build` has prepared; `manifest` is the run's."""
    sql.settle(con, "relocated")
    cpus = sql.run(con, "topology/cpus").dicts()
    return Figures(
        span_ns=span_ns,
        flow=sql.run(con, "placement/flow").dicts(),
        curve=sql.run(con, "latency/curve").dicts(),
        windows=sql.run(con, "time/disagreement").dicts(),
        stacked=sql.run(con, "stacking/stacked").dicts(),
        inputs=sql.run(con, "population/inputs").dicts(),
        cpus=cpus,
        heats=_heats(con, cpus),
        options={k: manifest.get(k) for k in ("seed", "sync", "first_flips", "options", "tool", "recording")},
    )


_LEVELS = (
    ("CPU", "cpu", "moves/between_cpus", "llc"),
    ("LLC", "llc", "moves/between_llcs", "node"),
    ("NUMA node", "node", "moves/between_nodes", "package"),
)
"""Name, column, query, and the groups that lines keep apart."""


def _heats(con: duckdb.DuckDBPyConnection, cpus: Dicts) -> list[Heat]:
    """The two finest levels of at least two and at most MOST_CELLS places: large machines fold to LLCs, then nodes."""
    out = []
    for kind, key, query, group in _LEVELS:
        places = {c[key]: c[group] for c in cpus if c[key] is not None}  # in machine order
        if not 2 <= len(places) <= MOST_CELLS:
            continue
        groups = list(places.values())
        breaks = [i for i in range(1, len(groups)) if groups[i] != groups[i - 1]]
        out.append(Heat(kind, key, list(places), breaks, sql.run(con, query).dicts()))
    return out[:2]
