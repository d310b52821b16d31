# SPDX-License-Identifier: GPL-2.0-or-later
"""Every query: its contract is complete, and it answers the hand-worked recording of conftest.py as golden/ says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from rewake.analysis import sql
from rewake.errors import UsageError
from rewake.forms import TABLES

GOLDEN = Path(__file__).parent / "golden"
NAMES = list(sql.catalogue())


def cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str, con: duckdb.DuckDBPyConnection) -> None:
    query = sql.catalogue()[name]
    assert query.question.endswith("?")
    assert query.definition
    assert query.units
    assert query.requires
    assert all(t in TABLES or t == "branch" for t in query.requires)
    assert tuple(query.columns) == sql.run(con, name).columns
    assert all(query.columns.values()), "every output column has a meaning"
    assert all(len(line) <= 120 for line in query.sql.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_golden(name: str, con: duckdb.DuckDBPyConnection) -> None:
    rows = sql.run(con, name)
    got = [",".join(rows.columns), *(",".join(cell(v) for v in row) for row in rows.rows)]
    assert got == (GOLDEN / f"{name}.csv").read_text().splitlines()


def test_every_golden_has_its_query() -> None:
    assert sorted(str(p.relative_to(GOLDEN).with_suffix("")) for p in GOLDEN.rglob("*.csv")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_no_table_beyond_the_named_ones_is_read(name: str, con: duckdb.DuckDBPyConnection) -> None:
    needed = set(sql.catalogue()[name].requires)
    for table in ("waking", "migrate", "loss"):
        if table not in needed:
            con.execute(f"DROP TABLE {table}")
    sql.run(con, name)


@pytest.mark.parametrize("name", ["moves/one_step", "moves/cross_llc", "moves/cross_node"])
def test_without_topology_crossings_are_unknown(name: str, flat: duckdb.DuckDBPyConnection) -> None:
    for row in sql.run(flat, name).dicts():
        for column, value in row.items():
            if column.startswith(("cross_", "near_", "leaves_")):
                assert value is None
            if column == "unknown":
                assert value == row["decisions"]


def test_a_node_has_the_number_that_the_kernel_gives_it(con: duckdb.DuckDBPyConnection) -> None:
    """Its lowest CPU, as an LLC has, would be 2."""
    con.execute("UPDATE cpu SET node = if(cpu >= 2, 1, 0)")
    assert {(r["from_node"], r["to_node"]) for r in sql.run(con, "moves/between_nodes").dicts()} == {(0, 1)}
    assert not [text for text in sql.catalogue()["moves/between_nodes"].columns.values() if "lowest CPU" in text]


def test_without_topology_llc_figures_are_unknown(flat: duckdb.DuckDBPyConnection) -> None:
    assert {r["idle_missed_llc"] for r in sql.run(flat, "idle/missed").dicts()} == {None}
    assert {r["llc_agreement"] for r in sql.run(flat, "fidelity/agreement").dicts()} == {None}
    assert {r["cross_llc"] for r in sql.run(flat, "migrations/by_cause").dicts()} == {None}


def test_without_migrations_those_of_balancing_are_unknown(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("DELETE FROM migrate")
    rows = sql.run(con, "simulate/recorded").dicts()
    assert [(r["recorded_newidle_per_s"], r["recorded_periodic_per_s"]) for r in rows] == [(None, None)] * 3


def test_a_recording_alone_has_no_ledger() -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE decision (decision_id BIGINT)")
    sql.prepare(con)
    with pytest.raises(UsageError, match="needs a run"):
        sql.run(con, "moves/one_step")
    with pytest.raises(UsageError, match="no query named"):
        sql.run(con, "moves/none")
