# SPDX-License-Identifier: GPL-2.0-or-later
"""The input audit and the error budget on hand-made arrays."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from rewake.analysis import accounts, audit, budget, sql

NAMES = ("sync", "load")


def compared(inferred: tuple[str, ...] = ()) -> audit.Audit:
    n = 5
    zeros = np.zeros(n, np.int64)
    model = dict.fromkeys(audit.ORIGINS, zeros) | {"load": np.array([9, 100, 211, 1000, 7])}
    truth = {name: (zeros, np.ones(n, np.bool_)) for name in audit.ORIGINS}
    truth["load"] = np.array([0, 100, 200, 1200, 0]), np.array([False, False, False, False, True])
    truth["sync"] = np.array([0, 1, 0, 0, 0]), np.zeros(n, np.bool_)
    late = np.array([False, True, True, True, True])
    warm = {"load": (np.array([0, 5, 200, 1200, 0]), np.array([1, 1, 1, 0, 1], np.uint8))}
    return audit.compare("linux-6.1", model, truth, late, 250, warm, [("stayed", 7, 6)], inferred)


def test_the_audit_leaves_out_the_warm_up_and_what_was_not_probed() -> None:
    found = {i.input: i for i in compared().inputs}
    assert set(found) == set(NAMES)
    load = found["load"]
    assert (load.decisions, load.exact, load.close) == (3, 1 / 3, 2 / 3), "211 is within 16 of 200, 1000 not near 1200"
    assert (load.error_p50, load.error_p90, load.error_p99) == (11, 200, 200)
    assert load.r2 is not None
    assert abs(load.r2 - (1 - (11**2 + 200**2) / (400**2 + 300**2 + 700**2))) < 1e-12
    assert (found["sync"].decisions, found["sync"].exact, found["sync"].r2) == (4, 0.75, None)


def test_an_input_past_its_own_warm_up_is_counted_over_all_decisions() -> None:
    found = {i.input: i for i in compared().inputs}
    assert (found["load"].warm, found["load"].warm_exact) == (3, 2 / 3), "the fourth is not, the fifth was not probed"
    assert (found["sync"].warm, found["sync"].warm_exact) == (None, None)


def test_an_input_inferred_in_this_recording_only_is_called_so() -> None:
    assert {i.input: i.origin for i in compared().inputs} == {"sync": "inferred", "load": "reconstructed"}
    assert {i.input: i.origin for i in compared(("load",)).inputs} == {"sync": "inferred", "load": "inferred"}


def test_the_audit_as_table_and_plain() -> None:
    text = accounts.audit(compared())
    assert "66.7 %" in text
    assert "stayed" in text
    assert "33.3 %" in text
    assert compared().plain()["classes"] == [{"class": "stayed", "wakeups": 7, "placed": 6}]


def settled() -> budget.Budget:
    def bits(*values: int) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
        return np.array(values, np.uint16)

    flags = np.array([False, True, False, False])
    return budget.settle(
        "linux-6.1",
        np.array([True, False, False, False]),
        np.array([True, True, False, False]),
        np.array([1, 1, 0, 0], np.uint8),
        {
            "proven": bits(0, 1, 0, 0), "possible": bits(0, 3, 2, 0), "placebo_proven": bits(0, 0, 0, 0),
            "placebo_possible": bits(0, 0, 0, 2), "answers": np.array([1, 2, 1, 1], np.uint8), "among": flags,
            "equivalent": flags,
        },
        np.array([3, 5, 8, 9]),
        suspects=NAMES, branches=("X1", "SCAN"), window_ns=2000, probed=False,
    )  # fmt: skip


def test_the_budget_counts_each_miss_once_and_each_cause_where_it_may_be() -> None:
    b = settled()
    assert (b.misses, b.proven, b.possible, b.unexplained) == (3, 1, 1, 1)
    assert [(c.input, c.proven, c.possible, c.possible_placebo) for c in b.causes] == [
        ("sync", 1, 1, 0),
        ("load", 0, 2, 1),
    ]
    assert (b.agreement, b.skill) == (0.25, (0.25 - 0.5) / 0.5)
    assert (b.order_agreement, b.order_answers, b.open_order, b.equivalent) == (0.5, 1.25, 1, 1)
    assert b.by_branch == (("X1", 2, 0), ("SCAN", 1, 1))


@pytest.mark.parametrize(("agreed", "stayed", "n"), [(0, 1, 3), (9, 2, 11), (0, 0, 0), (3, 3, 3)])
def test_the_skill_of_a_budget_is_that_of_the_queries(agreed: int, stayed: int, n: int) -> None:
    """Its last digits were others than those of fidelity/agreement beside it, and of no decisions it was 0."""
    con = duckdb.connect()
    sql.prepare(con)
    (want,) = con.execute("SELECT skill(?, ?, ?)", [agreed, stayed, n]).fetchall()[0]
    none = dict.fromkeys(
        ("proven", "possible", "placebo_proven", "placebo_possible", "answers", "among", "equivalent"),
        np.zeros(n, np.uint8),
    )
    got = budget.settle(
        "linux-6.1", np.arange(n) < agreed, np.arange(n) < stayed, np.zeros(n, np.uint8),
        none | {"among": np.zeros(n, np.bool_)}, np.arange(n),
        suspects=NAMES, branches=("X1",), window_ns=2000, probed=False,
    )  # fmt: skip
    assert got.skill == want


def test_every_miss_is_listed_with_its_causes() -> None:
    plain = settled().plain()["listed"]
    assert [(m["decision_id"], m["branch"], m["proven"], m["possible"]) for m in plain] == [
        (5, "SCAN", ("sync",), ("sync", "load")),
        (8, "X1", (), ("load",)),
        (9, "X1", (), ()),
    ]
    assert [(m["equivalent"], m["open_order"]) for m in plain] == [(True, True), (False, False), (False, False)]


def test_the_budget_as_table_and_plain() -> None:
    assert "1 proven" in accounts.budget(settled())
    assert settled().plain()["causes"][0]["proven"] == 1
