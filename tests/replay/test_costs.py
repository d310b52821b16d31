# SPDX-License-Identifier: GPL-2.0-or-later
"""Which interrupts have their CPU whatever runs there; what a search for an idle CPU takes."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from rewake.forms import ENUMS
from rewake.replay.costs import FEWEST_SEARCHES, LONG_HANDLER, _search_ns, _without_searches, interrupts

KIND = ENUMS["irq_kind"].index
DEVICE, TIMER = KIND("device"), KIND("local_timer")


class Interrupted:
    """A recording of handlers on two CPUs: (cpu, kind, from, to)."""

    def __init__(self, *handlers: tuple[int, int, int, int], lost: tuple[int, int] | None = None) -> None:
        marks = [(ts, cpu, kind, entry) for cpu, kind, a, b in handlers for ts, entry in ((a, True), (b, False))]
        self.marks, self.lost = sorted(marks), lost

    def connect(self, _: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
        con = duckdb.connect()
        con.execute("CREATE TABLE irq (id BIGINT, ts_ns BIGINT, cpu USMALLINT, kind UTINYINT, entry BOOLEAN)")
        con.execute("CREATE TABLE loss (ts_ns BIGINT, cpu USMALLINT)")
        for k, mark in enumerate(self.marks):
            con.execute("INSERT INTO irq VALUES (?, ?, ?, ?, ?)", (k, *mark))
        if self.lost:
            con.execute("INSERT INTO loss VALUES (?, ?)", self.lost)
        return con

    def read(self, *_: Any) -> dict[str, Any]:
        return {"cpu": np.arange(2)}


@pytest.mark.parametrize(
    ("recording", "handled"),
    [
        (Interrupted((0, DEVICE, 100, 1_500), (1, TIMER, 100, 5_000)), 1_400),
        (Interrupted((0, DEVICE, 100, 1_500)), 0),  # no irq_vectors: it may be a timer or a reschedule interrupt
        (Interrupted((0, DEVICE, 100, 100 + LONG_HANDLER)), LONG_HANDLER),
        (Interrupted((0, TIMER, 100, 99 + LONG_HANDLER)), 0),
        (Interrupted((0, TIMER, 100, 100 + LONG_HANDLER)), LONG_HANDLER),
        (Interrupted((0, TIMER, 100, 100 + LONG_HANDLER), lost=(500, 0)), 0),
        (Interrupted((0, TIMER, 100, 100 + LONG_HANDLER), lost=(500, 1)), LONG_HANDLER),
    ],
)
def test_devices_and_what_lasts(recording: Interrupted, handled: int) -> None:
    spans = {"cpu": np.zeros(1, np.uint16), "from_ns": np.zeros(1, np.int64), "to_ns": np.full(1, 10**9)}
    assert np.asarray(interrupts(recording).within(spans)).tolist() == [handled]  # type: ignore[arg-type]


def searches(per_cpu: int, n: int = 600) -> dict[str, np.ndarray[Any, Any]]:
    """Wakeups of two groups, each with a cost of its own and every eleventh far above it. All but every seventh
    came to the recorded answer."""
    k = np.arange(n)
    scanned, group = k % 5, k // 5 % 2
    queue = 3000 + 1500 * group + per_cpu * scanned + np.where(k % 11 == 10, 40_000, k % 3)
    searched = np.where(k % 7, scanned, -1)
    return {"queue": queue, "scanned": scanned.astype(np.uint8), "group": group.astype(np.uint8), "searched": searched}


@pytest.mark.parametrize("per_cpu", [0, 130])
def test_a_search_is_the_slope_of_medians(per_cpu: int) -> None:
    w = searches(per_cpu)
    assert abs(_search_ns(w["queue"], w["scanned"], w["group"]) - per_cpu) <= 2
    few = 10 * (FEWEST_SEARCHES - 1)
    assert _search_ns(w["queue"][:few], w["scanned"][:few], w["group"][:few]) == 0, "too few to tell"


def test_costs_are_without_their_searches() -> None:
    w = searches(130)
    n = len(w["queue"])
    no, yes = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    columns = {
        "decision_id": np.arange(n) + 1000, "relation": np.ones(n, np.int64), "in_task": yes,
        "target": w["group"] * 8, "queue_ns": w["queue"].copy(), "is_idle": yes, "is_busy": no,
    }  # fmt: skip
    (from_irq, from_task), scanned = _without_searches(columns, w["searched"].astype(np.int16), 1000)
    assert (from_irq, round(from_task / 10)) == (0, 13)
    known = w["searched"] >= 0
    np.testing.assert_array_equal(scanned[known], w["scanned"][known])
    assert set(scanned[~known].tolist()) == {2}, "as many as the others on average"
    taken = w["queue"] - columns["queue_ns"]
    np.testing.assert_array_equal(taken, np.floor(from_task * scanned).astype(np.int64))
