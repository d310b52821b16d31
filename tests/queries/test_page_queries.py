# SPDX-License-Identifier: GPL-2.0-or-later
"""The queries behind the page's charts, where the ten decisions of conftest.py are too few to show them."""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pytest

from rewake.analysis import sql
from rewake.forms import OUTCOMES

Make = Callable[..., None]
IDLE = 1 << OUTCOMES.index("target_idle")


def world(make: Make, decisions: list[dict[str, object]], ledger: list[dict[str, object]], *, llcs: bool = True):
    """CPUs 0-3, LLCs {0, 1} and {2, 3}; wakeups of class moved from CPU 1, waker on CPU 0, to CPU 0 unless said."""
    con = duckdb.connect()
    make(con, "cpu", [{"cpu": c, "llc": c // 2 * 2 if llcs else None} for c in range(4)])
    fixed = {"event_id": 0, "kind": 0, "class": 0, "task": 9, "prio": 120, "prev_cpu": 1, "chosen_cpu": 0,
             "waker_cpu": 0, "censored": False, "low_confidence": False, "latency_ns": 1000, "ts_ns": 0}  # fmt: skip
    make(con, "decision", [fixed | {"decision_id": i} | d for i, d in enumerate(decisions)])
    row = {"policy": "p", "cpu": 0, "known": True, "lo_ns": 1000, "hi_ns": 1000, "outcome": 0}
    make(con, "ledger", [row | x for x in ledger], policy="VARCHAR", decision_id="BIGINT")
    return con


def test_every_decision_flows_to_the_first_place_that_holds(make_table: Make) -> None:
    goes = [(1, IDLE), (1, 0), (0, IDLE), (0, 0), (2, IDLE), (3, IDLE), (2, 0)]
    ledger = [{"decision_id": i, "cpu": cpu, "outcome": bits} for i, (cpu, bits) in enumerate(goes)]
    same = {"decision_id": 7, "cpu": 3, "outcome": IDLE}
    decisions = [{} for _ in goes] + [{"prev_cpu": 2}]
    con = world(make_table, decisions, [*ledger, same])
    sql.prepare(con)
    found = {r["target"]: r["decisions"] for r in sql.run(con, "placement/flow").dicts()}
    assert found == {"prev": 2, "waker": 2, "same_llc": 1, "other_llc": 2, "busy": 1}
    con = world(make_table, decisions, [*ledger, same], llcs=False)
    sql.prepare(con)
    found = {r["target"]: r["decisions"] for r in sql.run(con, "placement/flow").dicts()}
    assert found == {"prev": 2, "waker": 2, "any_llc": 3, "busy": 1}


@pytest.mark.parametrize(("policies", "width_ms"), [(1, 10), (60, 20)])
def test_windows_are_the_shortest_that_are_few_enough(make_table: Make, policies: int, width_ms: int) -> None:
    """A second in at most 100 windows of 10 ms; of 60 policies, 5,000 rows allow 83 windows each."""
    at = [0, 9_999_999, 10_000_000, 999_999_999]
    ledger = [{"policy": f"p{k}", "decision_id": i, "cpu": i % 2} for k in range(policies) for i in range(4)]
    con = world(make_table, [{"ts_ns": 5_000 + ns} for ns in at], ledger)
    sql.prepare(con)
    rows = [r for r in sql.run(con, "time/disagreement").dicts() if r["policy"] == "p0"]
    assert {r["width_ns"] for r in rows} == {width_ms * 1_000_000}
    assert [r["from_ns"] for r in rows] == [n * width_ms * 1_000_000 for n in range(1000 // width_ms)]
    assert all((r["disagreed_pct"] is None) == (r["decisions"] == 0) for r in rows)
    found = {r["from_ns"] // 1_000_000: (r["decisions"], r["disagreed"], r["disagreed_pct"]) for r in rows}
    windows = {at: figures for at, figures in found.items() if figures[0]}
    if width_ms == 10:
        assert windows == {0: (2, 1, 50.0), 10: (1, 0, 0.0), 990: (1, 1, 100.0)}
    else:
        assert windows == {0: (3, 1, 100 / 3), 980: (1, 1, 100.0)}


def test_the_curve_by_hand(make_table: Make) -> None:
    """100 decisions: one without any estimate, ten more without an upper bound; 0.99 gamma^100 = 7.3, gamma^200: 54.1.

    Places of lo: 1 at 0, 50 at 7, 49 at 54. Of hi: 50 at 7, 39 at 54, 11 unbounded.
    """
    bounds = [{"known": False, "lo_ns": None, "hi_ns": None}]
    bounds += [{"known": False, "hi_ns": None, "lo_ns": 54} for _ in range(10)]
    bounds += [{"lo_ns": 7, "hi_ns": 7} for _ in range(50)] + [{"lo_ns": 54, "hi_ns": 54} for _ in range(39)]
    con = world(make_table, [{} for _ in range(100)], [{"decision_id": i} | b for i, b in enumerate(bounds)])
    buckets = [("lo", 100, 50), ("lo", 200, 49), ("hi", 100, 50), ("hi", 200, 39)]
    make_table(con, "bucket", [{"policy": "p", "metric": m, "bucket": b, "n": n} for m, b, n in buckets])
    sql.prepare(con)
    curve = {r["quantile"]: (r["lo_ns"], r["hi_ns"]) for r in sql.run(con, "latency/curve").dicts()}
    assert max(curve) == 0.9, "a percentile needs ten samples beyond it"
    assert curve[0.01] == (0, 7)
    assert curve[0.5] == (7, 7)
    assert curve[0.6] == (54, 54)
    assert curve[0.87] == (54, 54)
    assert curve[0.9] == (54, None)


def test_the_last_bucket_s_value_is_a_bigint(make_table: Make) -> None:
    """A damaged time makes latencies near 2^63, whose bucket 2184 holds more: 0.99 gamma^2184 = 9.25e18."""
    rows = [{"decision_id": i, "lo_ns": 2**63 - 2, "hi_ns": 2**63 - 2} for i in range(100)]
    con = world(make_table, [{} for _ in range(100)], rows)
    make_table(con, "bucket", [{"policy": "p", "metric": m, "bucket": 2184, "n": 100} for m in ("lo", "hi")])
    sql.prepare(con)
    assert {r["hi_ns"] for r in sql.run(con, "latency/curve").dicts()} == {9223372036854774784}


def test_the_curve_is_the_table_s_percentiles_within_a_per_cent(tmp_path) -> None:
    import bigrun

    made = bigrun.run(tmp_path / "b.run", bigrun.recording(tmp_path / "b.rewake", 20_000))
    con = made.connect()
    sql.prepare(con)
    curve = {(r["policy"], r["quantile"]): r for r in sql.run(con, "latency/curve").dicts()}
    for row in sql.run(con, "latency/policy").dicts():
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)):
            for end in ("lo_ns", "hi_ns"):
                exact, near = row[f"{name}_{end}"], curve[row["policy"], q][end]
                assert (exact is None) == (near is None)
                assert exact is None or abs(near - exact) <= 0.011 * exact + 1


@pytest.mark.parametrize(
    ("decisions", "limit"), [(40_000, "96MB"), pytest.param(1_000_000, "512MB", marks=pytest.mark.slow)]
)
def test_every_query_keeps_to_its_memory(tmp_path, decisions: int, limit: str) -> None:
    import bigrun

    policies = [*bigrun.POLICIES, "a", "b", "c", "d"]
    made = bigrun.run(tmp_path / "b.run", bigrun.recording(tmp_path / "b.rewake", decisions, cpus=64), policies)
    con = made.connect()
    con.execute(f"SET memory_limit='{limit}'")
    try:
        sql.prepare(con)
        mine = [n for n, query in sql.catalogue().items() if set(query.requires) <= sql.tables(con)]
        assert len(mine) > 20
        for name in mine:
            sql.run(con, name)
        for view in ("tallied", "relocated"):
            sql.settle(con, view)
    finally:
        con.execute("RESET memory_limit")
