# SPDX-License-Identifier: GPL-2.0-or-later
"""Percentiles worked by hand: nearest rank, the sample floor, bounds, and the unbounded end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pytest

from rewake.analysis import sql
from rewake.forms import ENUMS

Latency = tuple[int | None, bool, int | None, int | None]
Answers = Callable[[list[Latency]], tuple[dict[str, Any], dict[str, Any]]]


@pytest.fixture
def answers(make_table: Callable[..., None]) -> Answers:
    """(recorded, policy `p`) for decisions given as (recorded latency or None = censored, known, lo, hi)."""

    def work(samples: list[Latency]) -> tuple[dict[str, Any], dict[str, Any]]:
        con = duckdb.connect()
        make_table(con, "waking", [])
        make_table(con, "cpu", [{"cpu": 0}])
        make_table(con, "decision", [])
        make_table(con, "ledger", [], policy="VARCHAR", decision_id="BIGINT")
        names = ("ns", "known", "lo", "hi")
        given = {
            name: np.ma.masked_array([s[i] or 0 for s in samples], [s[i] is None for s in samples])
            for i, name in enumerate(names)
        }
        given["id"] = np.ma.masked_array(np.arange(len(samples)))
        con.register("given", given)
        con.execute(
            "INSERT INTO decision BY NAME SELECT id AS decision_id, 0 AS event_id, 0 AS ts_ns, 0 AS kind,"
            f" {ENUMS['decision_class'].index('stayed')} AS class, 1 AS task, 120 AS prio, 0 AS prev_cpu,"
            " 0 AS chosen_cpu, ns AS latency_ns, ns IS NULL AS censored, false AS low_confidence FROM given"
        )
        con.execute(
            "INSERT INTO ledger BY NAME SELECT 'p' AS policy, id AS decision_id, 0 AS cpu, known::BOOLEAN AS known,"
            " lo AS lo_ns, hi AS hi_ns FROM given"
        )
        sql.prepare(con)
        return sql.run(con, "latency/recorded").dicts()[0], sql.run(con, "latency/policy").dicts()[0]

    return work


def known(ns: int | None) -> Latency:
    return (ns, True, ns, ns)


@pytest.mark.parametrize(
    ("n", "p50", "p90", "p99", "p999"),
    [
        (19, None, None, None, None),  # the median needs 10 / 0.5 = 20
        (20, 10, None, None, None),
        (100, 50, 90, None, None),
        (999, 500, 900, None, None),  # ceil(0.5 * 999) = 500, ceil(0.9 * 999) = 900; p99 needs 1,000
        (1000, 500, 900, 990, None),
        (1001, 501, 901, 991, None),
        (9999, 5000, 9000, 9900, None),
        (10000, 5000, 9000, 9900, 9990),
    ],
)
def test_nearest_rank_and_sample_floor(
    answers: Answers, n: int, p50: int | None, p90: int | None, p99: int | None, p999: int | None
) -> None:
    recorded, policy = answers([known(i + 1) for i in range(n)])
    assert [recorded[f"p{q}_ns"] for q in (50, 90, 99, 999)] == [p50, p90, p99, p999]
    assert [policy[f"p{q}_lo_ns"] for q in (50, 90, 99, 999)] == [p50, p90, p99, p999]
    assert [policy[f"p{q}_hi_ns"] for q in (50, 90, 99, 999)] == [p50, p90, p99, p999]
    assert recorded["lat_kind"] == "wakeup", "no sched_waking in this recording"


def test_censored_are_counted_and_flagged_not_ranked(answers: Answers) -> None:
    recorded, policy = answers([known(i + 1) for i in range(1000)] + [known(None)] * 2)
    for row in (recorded, policy):
        assert (row["n"], row["censored"]) == (1000, 2)
        assert row["biased_from"] == 99.0  # 2 > 0.01 * 1000 / 10 = 1, but not > 0.1 * 1000 / 10 = 10
    assert recorded["p99_ns"] == 990


def test_bounds_over_all_decisions(answers: Answers) -> None:
    """980 known at 10; 15 in [20, 500]; 5 unbounded from 30: of lo, rank 990 is 20; of hi, 500."""
    _, policy = answers([known(10)] * 980 + [(10, False, 20, 500)] * 15 + [(10, False, 30, None)] * 5)
    assert (policy["p99_lo_ns"], policy["p99_hi_ns"], policy["p99_at_least_ns"]) == (20, 500, None)
    assert policy["known_pct"] == 98.0


def test_an_unbounded_end_sorts_last(answers: Answers) -> None:
    """11 of 1,000 unbounded: rank 990 falls on one; at_least is the largest bounded hi."""
    _, policy = answers([known(10)] * 980 + [(10, False, 20, 500)] * 9 + [(10, False, 30, None)] * 11)
    assert (policy["p99_lo_ns"], policy["p99_hi_ns"], policy["p99_at_least_ns"]) == (30, None, 500)


def test_at_least_is_never_below_lo(answers: Answers) -> None:
    _, policy = answers([known(10)] * 980 + [(10, False, 700, None)] * 20)
    assert (policy["p99_lo_ns"], policy["p99_at_least_ns"]) == (700, 700)


def test_no_estimate_means_anything_from_zero_up(answers: Answers) -> None:
    _, policy = answers([known(10)] * 500 + [(10, False, None, None)] * 500)
    assert policy["no_estimate"] == 500
    assert (policy["p50_lo_ns"], policy["p50_hi_ns"]) == (0, 10)
    assert (policy["p99_lo_ns"], policy["p99_hi_ns"], policy["p99_at_least_ns"]) == (10, None, 10)


def test_a_single_figure_only_where_everything_is_recorded(answers: Answers) -> None:
    _, policy = answers([known(i) for i in range(1000)])
    assert policy["known_pct"] == 100.0
    assert policy["p99_lo_ns"] == policy["p99_hi_ns"]


def test_scan_cost_is_ranked_the_same_way(make_table: Callable[..., None]) -> None:
    """1,000 searches: 500 of 1 CPU, 490 of 2, 10 of 9. Ranks 500 and 990: 1 and 2."""
    con = duckdb.connect()
    make_table(con, "cpu", [{"cpu": 0}])
    make_table(con, "decision", [])
    make_table(con, "ledger", [], policy="VARCHAR", decision_id="BIGINT")
    con.execute(
        "INSERT INTO decision BY NAME SELECT range AS decision_id, 0 AS event_id, 0 AS ts_ns, 0 AS kind, 0 AS class,"
        " 1 AS task, 120 AS prio, false AS censored, false AS low_confidence FROM range(1000)"
    )
    con.execute(
        "INSERT INTO ledger BY NAME SELECT 'p' AS policy, range AS decision_id, 0 AS cpu,"
        " CASE WHEN range < 500 THEN 1 WHEN range < 990 THEN 2 ELSE 9 END AS cpus_scanned FROM range(1000)"
    )
    sql.prepare(con)
    assert sql.run(con, "scan/cost").rows == [("p", 1000, 1.57, 1, 2, 9)]


@pytest.mark.parametrize(
    ("kind", "class_", "prio", "latency", "waited"),
    [
        ("wake", "stayed", 120, 10, True),
        ("wake", "maybe_delayed", 100, 10, True),
        ("wake", "bypass_on_rq", 120, 10, True),  # it slept on its queue
        ("wake", "bypass_on_rq", 120, 0, False),  # it went on running
        ("wake", "bypass_on_rq", 120, None, False),
        ("wake", "self", 120, 10, False),
        ("wake", "rt", 98, 10, False),
        ("fork", "moved", 120, 10, False),
    ],
)
def test_who_waited_for_a_cpu(kind: str, class_: str, prio: int, latency: int | None, waited: bool) -> None:
    con = duckdb.connect()
    con.execute("CREATE TABLE decision (ts_ns BIGINT)")
    sql.prepare(con)
    codes = [ENUMS["decision_kind"].index(kind), ENUMS["decision_class"].index(class_), prio, latency]
    answer = con.execute("SELECT coalesce(waited_for_cpu(?, ?, ?, false, ?), false)", codes).fetchone()
    assert answer == (waited,)
