# SPDX-License-Identifier: GPL-2.0-or-later
"""A search for an idle CPU looks some time after its wakeup began, and finds idle what was left meanwhile."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from resimulated import simulate
from world import World

from rewake.forms import ENUMS
from rewake.replay.costs import FEWEST_LOOKS, looks


def crowd(left: int, waits: bool = False) -> World:
    """Task 4 slept on CPU 0, where task 3 runs and wakes it. Task 5, of real time, leaves CPU 1 `left` ns
    after that, task 6 runs on CPU 2. `waits`: task 7 waits on CPU 1."""
    w = World(3, 8)
    w.runs(0, 0, 0, 3).runs(0, 2, 2, 6)
    w.add("switch", 0, 1, prev_task=1, next_task=5, prev_state="R", next_prio=50)
    if waits:
        w.waking(50_000, 0, 7, 1, 3).wakeup(51_000, 1, 7, 1, curr=5)
    w.waking(100_000, 0, 4, 0, 3).wakeup(101_000, 0, 4, 0, curr=3)
    after = 7 if waits else 1
    w.add("switch", 100_000 + left, 1, prev_task=5, next_task=after, prev_state="S", prev_prio=50)
    w.runs(130_000, 0, 3, 4).runs(150_000, 0, 4, 0).runs(190_000, 2, 6, 2)
    if waits:
        w.runs(180_000, 1, 7, 1)
    w.events.sort(key=lambda event: event[1]["ts_ns"])
    return w


def goes_to(world: World, **more: Any) -> int:
    (result,), _ = simulate(world, (0, 0, 190_000, 200_000), "oracle-idle", **more)
    assert result["broken"] == 0
    woken = result["woken"]
    return int(woken["cpu"][woken["task"] == 4][0])


@pytest.mark.parametrize(("left", "goes"), [(1500, 1), (2500, 0)])
def test_a_cpu_that_real_time_leaves_before_the_search_looks_is_idle(left: int, goes: int) -> None:
    assert goes_to(crowd(left)) == 0, "it is busy when the wakeup begins"
    assert goes_to(crowd(left), looks_ns=2000) == goes


def test_one_on_which_somebody_waits_is_not() -> None:
    assert goes_to(crowd(1500, waits=True), looks_ns=2000) == 0


class Searched:
    """A recording of 4 CPUs in which searches looked at CPU 1 before it was left: so long, each."""

    def __init__(self, *before: int, to: int = 1) -> None:
        self.before, self.to = before, to

    def connect(self, _: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
        con = duckdb.connect()
        con.execute("CREATE TABLE switch (ts_ns BIGINT, cpu USMALLINT, next_task UINTEGER)")
        con.execute(
            "CREATE TABLE decision (ts_ns BIGINT, kind UTINYINT, prio SMALLINT, class UTINYINT, chosen_cpu USMALLINT, "
            "waker_cpu USMALLINT, chosen_idle BOOLEAN)"
        )
        moved = ENUMS["decision_class"].index("moved")
        for k, before in enumerate(self.before):
            ts = 1_000_000 * (k + 1)
            con.execute("INSERT INTO switch VALUES (?, 1, 9), (?, 1, 1)", (ts - 5000, ts + before))
            con.execute("INSERT INTO decision VALUES (?, 0, 120, ?, 1, ?, false)", (ts, moved, self.to + 1))
        return con

    def read(self, *_: Any) -> dict[str, Any]:
        return {"cpu": range(4)}


def test_when_searches_look_is_told_by_whom_they_took_for_idle() -> None:
    spread = [200 * (k + 1) for k in range(9)]
    assert looks(Searched(*spread)) == 2000, "twice the median"  # type: ignore[arg-type]
    assert looks(Searched(*spread, to=0)) == 0, "a waker's own CPU"  # type: ignore[arg-type]
    few = [1000] * (FEWEST_LOOKS - 1)
    assert [looks(Searched(*few, *more)) for more in ((), (1000,))] == [0, 2000]  # type: ignore[arg-type]
