# SPDX-License-Identifier: GPL-2.0-or-later
"""Percentiles of a simulation come from counts of equal values: they are those of quantile_disc, which holds all.
A policy has its row though nobody was woken."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewake.analysis import sql

FACTS = """SELECT policy, count(latency_ns) AS n, count(placed) FILTER (WHERE latency_ns IS NULL) AS censored,
    CASE WHEN enough(n, 0.5) THEN quantile_disc(latency_ns, 0.5) END AS p50_ns,
    CASE WHEN enough(n, 0.9) THEN quantile_disc(latency_ns, 0.9) END AS p90_ns,
    CASE WHEN enough(n, 0.99) THEN quantile_disc(latency_ns, 0.99) END AS p99_ns,
    CASE WHEN enough(n, 0.999) THEN quantile_disc(latency_ns, 0.999) END AS p999_ns,
    quantile_disc(coalesce(latency_ns, 1099511627776), 0.99) FILTER (WHERE placed) AS worst,
    CASE WHEN enough(n + censored, 0.99) THEN nullif(worst, 1099511627776) END AS p99_worst_ns
    FROM arm LEFT JOIN woken USING (arm) GROUP BY policy ORDER BY min(arm)"""
WAITS = """SELECT policy, count(placed) FILTER (WHERE NOT idle_target) AS queued,
    pct(queued, count(placed)) AS queued_pct,
    count(wait_ns) FILTER (WHERE NOT idle_target) AS waited,
    quantile_disc(wait_ns, [0.5, 0.9, 0.99]) FILTER (WHERE NOT idle_target) AS q,
    CASE WHEN enough(waited, 0.5) THEN q[1] END AS p50_ns, CASE WHEN enough(waited, 0.9) THEN q[2] END AS p90_ns,
    CASE WHEN enough(waited, 0.99) THEN q[3] END AS p99_ns
    FROM arm LEFT JOIN woken USING (arm) GROUP BY policy ORDER BY min(arm)"""


def _rows(con: duckdb.DuckDBPyConnection, text: str, names: list[str]) -> list[tuple[object, ...]]:
    return con.execute(f"SELECT {', '.join(names)} FROM ({text})").fetchall()


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12_000),
    distinct=st.sampled_from([1, 7, 900, 10**9]),
    gone=st.sampled_from([0.0, 0.001, 0.3, 1.0]),
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])  # a function
def test_as_quantile_disc(make_table: Callable[..., None], seed: int, n: int, distinct: int, gone: float) -> None:
    rng = np.random.default_rng(seed)
    censored = rng.random(n) < gone
    given = {
        "arm": rng.integers(0, 3, n),  # the last two are replicas of one policy
        "latency": np.ma.masked_array(rng.integers(0, distinct, n), censored),
        "wait": np.ma.masked_array(rng.integers(0, distinct, n), censored),
        "busy": rng.random(n) < 0.5,
    }
    con = duckdb.connect()
    named = [(0, "one"), (1, "two"), (2, "two")]
    make_table(con, "arm", [{"arm": arm, "policy": name, "kind": "policy", "replica": 0} for arm, name in named])
    make_table(con, "woken", [])
    make_table(con, "sim_window", [])
    con.register("given", given)
    con.execute(
        "INSERT INTO woken BY NAME SELECT arm, 0 AS window_id, 0 AS decision_id, 0 AS ts_ns, 1 AS task, 0 AS prev_cpu,"
        " 0 AS cpu, NOT busy AS idle_target, true AS placed, latency AS latency_ns, wait AS wait_ns FROM given"
    )
    sql.prepare(con)
    for query, facts in (("simulate/latency", FACTS), ("simulate/queue_wait", WAITS)):
        told = sql.run(con, query)
        names = [c for c in told.columns if c in ("n", "censored", "queued", "queued_pct") or c.endswith("_ns")]
        names = ["policy", *(c for c in names if "low" not in c and "high" not in c)]
        assert [tuple(row[c] for c in names) for row in told.dicts()] == _rows(con, facts, names)


@pytest.mark.parametrize(("n", "p50", "p99"), [(1, 1, 1), (2, 1, 2), (100, 50, 99), (101, 51, 100), (1000, 500, 990)])
def test_nearest(n: int, p50: int, p99: int) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE decision AS SELECT 1")
    sql.prepare(con)
    assert con.execute("SELECT nearest(0.5, $1), nearest(0.99, $1)", [n]).fetchall() == [(p50, p99)]
