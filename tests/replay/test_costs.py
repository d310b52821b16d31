# SPDX-License-Identifier: GPL-2.0-or-later
"""What wakeups cost: interrupts, searches for an idle CPU, and who is told to go while it wakes somebody itself."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from rewake.forms import ENUMS
from rewake.replay import handlers, segments
from rewake.replay.costs import FEWEST_SEARCHES, PATHS, _search_ns, _Searches, costs
from rewake.replay.handlers import LONG_HANDLER, Handlers
from rewake.replay.segments import Thinned

KIND = ENUMS["irq_kind"].index
DEVICE, TIMER = KIND("device"), KIND("local_timer")


class Interrupted:
    """A recording of handlers on two CPUs: (cpu, kind, from, to)."""

    def __init__(
        self, *handlers: tuple[int, int, int, int], lost: tuple[int, int] | None = None, capacity: int | None = 1024
    ) -> None:
        """`capacity`: of CPU 0; CPU 1 has 1024."""
        marks = [(ts, cpu, kind, entry) for cpu, kind, a, b in handlers for ts, entry in ((a, True), (b, False))]
        self.marks, self.lost, self.capacity = sorted(marks), lost, capacity

    def connect(self, _: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
        con = duckdb.connect()
        con.execute("CREATE TABLE irq (id BIGINT, ts_ns BIGINT, cpu USMALLINT, kind UTINYINT, entry BOOLEAN)")
        con.execute("CREATE TABLE loss (ts_ns BIGINT, cpu USMALLINT)")
        con.execute("CREATE TABLE cpu (cpu USMALLINT, capacity USMALLINT)")
        con.execute("INSERT INTO cpu VALUES (0, ?), (1, 1024)", (self.capacity,))
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
        # A timer's handler takes twice as long on a CPU half as fast.
        (Interrupted((0, TIMER, 100, 99 + 2 * LONG_HANDLER), capacity=512), 0),
        (Interrupted((0, TIMER, 100, 100 + 2 * LONG_HANDLER), capacity=512), 2 * LONG_HANDLER),
        (Interrupted((0, TIMER, 100, 100 + LONG_HANDLER), capacity=None), LONG_HANDLER),
    ],
)
def test_devices_and_what_lasts(recording: Interrupted, handled: int) -> None:
    spans = {"cpu": np.zeros(1, np.uint16), "from_ns": np.zeros(1, np.int64), "to_ns": np.full(1, 10**9)}
    assert np.asarray(Handlers(recording).during(0, 10**9).within(spans)).tolist() == [handled]  # type: ignore[arg-type]


@pytest.mark.parametrize("at_a_time", [1, 3, 1000])
def test_of_a_stretch_of_time_all_handlers_are_there(at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also such as began long before, however few are looked at at a time."""
    monkeypatch.setattr(segments, "CHUNK", 2 * at_a_time)
    monkeypatch.setattr(handlers, "_MARKED", at_a_time)
    told = [(0, DEVICE, 100 * k, 100 * k + 30) for k in range(1, 20)] + [(1, DEVICE, 350, 1_450), (1, TIMER, 5, 6)]
    all_of_them = Handlers(Interrupted(*told))  # type: ignore[arg-type]
    for first, end, cpu, handled in (
        (0, 10**6, 0, 570),
        (520, 1_215, 0, 10 + 6 * 30 + 15),
        (1_400, 1_500, 1, 50),
        (0, 0, 1, 0),
    ):
        spans = {"cpu": np.full(1, cpu, np.uint16), "from_ns": np.full(1, first), "to_ns": np.full(1, end)}
        assert np.asarray(all_of_them.during(first, end).within(spans)).tolist() == [handled]


def searches(per_cpu: int, n: int = 600) -> dict[str, np.ndarray[Any, Any]]:
    """Wakeups of two groups, each with a cost of its own and every eleventh far above it. All came to the recorded
    answer but every seventh."""
    k = np.arange(n)
    scanned, group = k % 5, k // 5 % 2
    queue = 3000 + 1500 * group + per_cpu * scanned + np.where(k % 11 == 10, 40_000, k % 3)
    searched = np.where(k % 7, scanned, -1)
    return {"queue": queue, "scanned": scanned.astype(np.uint8), "group": group.astype(np.uint8), "searched": searched}


@pytest.mark.parametrize("per_cpu", [0, 130])
def test_a_search_is_the_slope_of_medians(per_cpu: int) -> None:
    w = searches(per_cpu)
    few = 10 * (FEWEST_SEARCHES - 1)
    for rows, least, most in ((slice(None), per_cpu - 2, per_cpu + 2), (slice(few), 0, 0)):  # the latter tell nothing
        times = Thinned(1)
        times.add(w["group"][rows].astype(np.int64) << 8 | w["scanned"][rows], w["queue"][rows, np.newaxis])
        assert least <= _search_ns(times, 0) <= most
        assert _search_ns(times, 1) == 0, "of another context"


def test_costs_are_without_their_searches() -> None:
    w = searches(130)
    n = len(w["queue"])
    no, yes = np.zeros(n, np.bool_), np.ones(n, np.bool_)
    columns = {
        "decision_id": np.arange(n) + 1000, "relation": np.ones(n, np.int64), "in_task": yes,
        "target": w["group"] * 8, "queue_ns": w["queue"].copy(), "is_idle": yes, "is_busy": no,
    }  # fmt: skip
    found = _Searches(w["searched"].astype(np.int16), 1000)
    found.add(columns)
    from_irq, from_task = found.per_cpu()
    found.without(columns, (from_irq, from_task))
    scanned = found.scanned
    assert (from_irq, round(from_task / 10)) == (0, 13)
    known = w["searched"] >= 0
    np.testing.assert_array_equal(scanned[known], w["scanned"][known])
    assert set(scanned[~known].tolist()) == {2}, "as many as the others on average"
    taken = w["queue"] - columns["queue_ns"]
    np.testing.assert_array_equal(taken, np.floor(from_task * scanned).astype(np.int64))


class Called(Interrupted):
    """CPUs 0 and 1 of one LLC, 2 of another. Task 4 on CPU 0 wakes 6, which is queued 5 us later. At 2 us task 5, on
    CPU 1, has queued 7 on CPU 0, where that runs at 5.3 us."""

    first_decision = 0

    def __init__(self, to: int = 1, idle: bool = False, begins: int = 0, told: bool = True) -> None:
        """`to`: where 6 goes, which is idle or not; `begins`: that wakeup, ns."""
        super().__init__()
        self.to, self.idle, self.begins = to, idle, begins
        self.manifest = {"events": {"sched_wakeup": 2} if told else {}}

    def rows(self, _: str) -> int:
        return 2

    def connect(self, tables: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
        if "decision" not in tables:
            return super().connect(tables)
        con = duckdb.connect()
        con.execute("CREATE TABLE cpu AS FROM (VALUES (0, 0, 1024), (1, 0, 1024), (2, 1, 1024)) t(cpu, llc, capacity)")
        con.execute(
            "CREATE TABLE switch AS FROM (VALUES (5300::BIGINT, 0, 4, 0, 7)) "
            "t(ts_ns, cpu, prev_task, prev_state, next_task)"
        )
        con.execute(
            """
            CREATE TABLE decision AS SELECT
                *, 0 AS kind, 0 AS irq_ctx, NULL::INTEGER AS idle_state, 2 AS class, 120 AS prio,
                chosen_cpu AS prev_cpu, chosen_cpu AS ran_cpu
            FROM (VALUES
                (0::BIGINT, ?::BIGINT, 0, 4, 6, ?, ?, 5000::BIGINT, NULL::BIGINT, true),
                (1, 1000, 1, 5, 7, 0, false, 1000, 4300, false)
            ) t(
                decision_id, ts_ns, waker_cpu, waker_task, task, chosen_cpu, chosen_idle, wakeup_ns, latency_ns,
                censored
            )
            """,
            (self.begins, self.to, self.idle),
        )
        return con

    def read(self, *_: Any) -> dict[str, Any]:
        return {"cpu": np.arange(3)}


@pytest.mark.parametrize(
    ("recording", "path", "takes"),
    [
        (Called(), "in_call", 300),
        (Called(to=0), "in_call", 300),
        (Called(to=2), "preempt", 3_300),  # that CPU queues it
        (Called(to=1, idle=True), "preempt", 3_300),
        (Called(begins=2_001), "preempt", 3_300),  # after it had been told
        (Called(begins=-3_000), "preempt", 3_300),  # over by then
        (Called(told=False), "preempt", 4_300),  # no event tells when anybody was queued
    ],
)
def test_who_is_told_while_it_wakes_somebody_goes_when_that_is_over(recording: Called, path: str, takes: int) -> None:
    samples = costs(recording, Handlers(recording), lambda ts: ts % 2 == 1).samples  # type: ignore[arg-type]
    told = samples["run_ns"][samples["path"] == PATHS.index(path)]
    assert told.tolist() == [takes]
    assert not (samples["path"] == PATHS.index("in_call" if path == "preempt" else "preempt")).any()
