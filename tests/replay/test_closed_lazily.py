# SPDX-License-Identifier: GPL-2.0-or-later
"""Lazy preemption in the closed loop: who computes, and when it goes."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
from resimulated import simulate
from world import World

from rewake.replay.computing import FEWEST_TOLD, LAZILY, computing

TASK, WAKER, WAKEE, SECOND = 2, 3, 4, 5
SCHED_IDLE = 2
AT = 20_001_000
"""When the wakee is woken: 3,999 us before a tick."""


def told(waker: int = WAKER, company: bool = False) -> World:
    """The task has CPU 0, and the wakee, which has slept there for long, is woken by the waker on CPU 1, or by it.
    With `company` another one waits by then that preempts nobody."""
    w = World(2, 6).runs(0, 0, 0, WAKEE).runs(1_000, 0, WAKEE, TASK).runs(1_000, 1, 1, WAKER)
    w.tasks["fair_policy"][[TASK, SECOND]] = SCHED_IDLE  # anybody else preempts them
    if company:
        w.waking(AT - 500_000, 1, SECOND, 0, WAKER).wakeup(AT - 499_000, 0, SECOND, 0, curr=TASK)
    w.waking(AT, 1 if waker == WAKER else 0, WAKEE, 0, waker).wakeup(AT + 1_000, 0, WAKEE, 0, curr=TASK)
    w.runs(AT + 3_000, 0, TASK, WAKEE, "R").runs(AT + 13_000, 0, WAKEE, TASK)
    return w.runs(AT + 9_000_000, 0, TASK, 0)


def waited(world: World, **more: Any) -> int:
    computes = [t == TASK for t in range(world.n_tasks)]
    window = (2_000, 2_000, AT + 6_000_000, AT + 9_000_001)
    (result,), _ = simulate(world, window, "prev", kernel=(7, 2), **{"computes": computes} | more)
    assert result["broken"] == 0
    return int(result["woken"]["latency_ns"][0][result["woken"]["task"] == WAKEE][0])


def test_who_computes_goes_at_a_tick_when_another_cpu_tells_it() -> None:
    assert waited(told()) == 3_999_000 + 2_000
    assert waited(told(), computes=[]) == 3_000, "who makes calls all the time: in the costs"
    assert waited(told(), queues_wakeups=False, computes=[]) == 3_000
    assert waited(told(waker=TASK)) == 3_000, "its own wakee"


def test_or_at_an_interrupt_or_when_it_calls() -> None:
    assert waited(told(), handlers=[(0, AT + 100_000, AT + 130_000)]) == 130_000 + 2_000
    w = told()
    w.events.insert(-1, ("waking", {"ts_ns": AT + 63_000, "cpu": 0, "task": WAKER, "target_cpu": 1, "curr_task": TASK,
                                    "irq_ctx": 0, "prio": 120}))  # fmt: skip
    assert waited(w) == 53_000 + 3_000, "a call after as much work"


def test_a_timer_that_has_to_be_set_interrupts_it() -> None:
    """With HRTICK the slice of who runs is timed once it has company; from another CPU that takes an interrupt."""
    timed = {"hrtick": True, "slice_ns": 2_800_000}
    assert waited(told(), options=timed) == 3_000
    assert 3_000 < waited(told(company=True), options=timed) < 2_800_000, "it is timed already: until then"
    assert waited(told(company=True)) == 3_999_000 + 2_000


class Told:
    """A recording of wakeups of which each took the CPU of a task so long after it was queued."""

    def __init__(self, took: dict[int, list[int]], tasks: int) -> None:
        self.took, self.tasks = took, tasks

    def connect(self, _: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
        con = duckdb.connect()
        con.execute("CREATE TABLE cpu AS SELECT * FROM (VALUES (0, 0), (1, 0), (2, 2)) AS t(cpu, llc)")
        con.execute(
            "CREATE TABLE decision (task INT, ts_ns BIGINT, kind INT, prio INT, censored BOOL, chosen_idle BOOL, "
            "waker_cpu INT, chosen_cpu INT, wakeup_ns BIGINT, latency_ns BIGINT)"
        )
        con.execute("CREATE TABLE switch (ts_ns BIGINT, cpu INT, prev_task INT, next_task INT, prev_state INT)")
        ts = 0
        for task, times in self.took.items():
            for took in times:
                for waker, late in (
                    (1, took),
                    (0, 10**9),
                    (2, 10**9),
                ):  # what its own CPU or another LLC does is no sign
                    ts += 10**10
                    row = (99, ts, 0, 120, False, False, waker, 0, 1_000, 1_000 + late)
                    con.execute(f"INSERT INTO decision VALUES ({', '.join(map(str, row))})")
                    con.execute(f"INSERT INTO switch VALUES ({ts + 1_000 + late}, 0, {task}, 99, 0)")
        return con

    def read(self, *_: Any) -> dict[str, Any]:
        return {"task_id": np.arange(self.tasks)}


def found(took: dict[int, list[int]], tasks: int = 6) -> list[bool]:
    return computing(Told(took, tasks), 3)  # type: ignore[arg-type]


def test_who_computes_lets_others_wait_of_those_that_another_cpu_queued() -> None:
    soon, late = [LAZILY], [LAZILY + 1]
    assert found({3: 4 * soon + late, 4: 5 * soon + late}) == [False] * 3 + [True, False, False]
    few = FEWEST_TOLD - 1
    assert found({3: few * late, 4: 100 * soon}) == [False] * 6, "too few: as all together"
    assert found({3: few * late, 4: 10 * late}) == [True] * 6
    assert found({}) == [False] * 6
