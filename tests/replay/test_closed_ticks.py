# SPDX-License-Identifier: GPL-2.0-or-later
"""Ticks of the closed loop."""

from __future__ import annotations

from resimulated import simulate
from world import World

TICK = 8_000_000


def waited(wakes_at: int | None) -> int:
    """By 3, behind 2 on CPU 0, whose slice is over at the second tick. Behind the tick an interrupt on that CPU wakes 4
    on another one."""
    w = World(2, 5).runs(0, 0, 0, 3).runs(1_000, 0, 3, 2).runs(1_000, 1, 1, 4).runs(2_000, 1, 4, 1)
    w.waking(100_000, 0, 3, 0, 2, ctx="hardirq").wakeup(101_000, 0, 3, 0, curr=2)
    if wakes_at is not None:
        w.waking(wakes_at, 0, 4, 1, 2, ctx="hardirq").wakeup(wakes_at + 1_000, 1, 4, 1).runs(wakes_at + 3_000, 1, 1, 4)
    w.runs(15_000_000, 0, 2, 3, "R")
    if wakes_at is not None:
        w.runs(15_100_000, 1, 4, 1)
    w.runs(16_000_000, 0, 3, 2)
    (result,), _ = simulate(w, (3_000, 3_000, 15_500_000, 16_000_000), "prev")
    assert result["broken"] == 0
    return int(result["woken"]["latency_ns"][0][result["woken"]["task"] == 3][0])


def test_whom_a_tick_wakes_is_queued_before_what_runs_is_switched_out() -> None:
    assert waited(None) == TICK + 2_000 - 100_000
    assert waited(TICK + 10_000) == TICK + 10_000 - 100_000
    assert waited(TICK + 30_000) == TICK + 2_000 - 100_000, "another interrupt"


def crowded(*pulls: int) -> World:
    """2 to 6 never sleep on CPU 0, nor does 7 on CPU 1; 8 to 19 are woken on CPU 0 after 9 ms, and have 5 ms of work
    each. CPU 1 pulls 3 at 8 ms, and one of the others at each of `pulls`."""
    w, late = World(2, 20), range(8, 20)
    for task in late:
        w.runs(200 * (task - 7), 0, 0 if task == late[0] else task - 1, task)
    w.runs(3_000, 0, late[-1], 2).runs(3_000, 1, 1, 7)
    for task in range(3, 7):
        w.runs(3_000 + 1_000 * (task - 2), 0, task - 1, task, "R")
    w.migrate(8_020_000, 1, 3, 0, 1, curr=7, ctx="softirq")
    for task in late:
        at = 9_000_000 + 2_000 * (task - late[0])
        w.waking(at, 0, task, 0, 6, ctx="hardirq").wakeup(at + 1_000, 0, task, 0, curr=6)
    for ts, task in zip(pulls, (4, 5), strict=False):
        w.migrate(ts, 1, task, 0, 1, curr=7, ctx="softirq")
    w.runs(30_000_000, 0, 6, late[0], "R")
    for task in late:
        w.runs(30_000_000 + 5_000_000 * (task - 7), 0, task, task + 1 if task < late[-1] else 0)
    return w


def pulled(*pulls: int) -> int:
    """By a busy CPU, which looks every 60 ms by itself."""
    (result,), _ = simulate(crowded(*pulls), (10_000, 10_000, 28_000_000, 95_000_000), "prev", balance="model")
    assert result["broken"] == 0
    return int(result["periodic_moves"])


def test_a_cpu_looks_when_a_recorded_pull_tells_that_it_did() -> None:
    assert 0 < pulled() < pulled(16_020_000) < pulled(16_020_000, 20_020_000)


def taken_by_an_idle_cpu(pull: int | None) -> list[int]:
    """2 to 4 never sleep on CPU 0, and CPU 1 idles until it pulls 2, if it does: moves by 15 ms, and by 28."""
    w = World(2, 5).runs(1_000, 0, 0, 2).runs(2_000, 0, 2, 3, "R").runs(3_000, 0, 3, 4, "R")
    if pull is not None:
        w.migrate(pull, 1, 2, 0, 1, curr=1, ctx="softirq").runs(pull + 5_000, 1, 1, 2)
    w.runs(30_000_000, 0, 4, 3, "R").runs(31_000_000, 0, 3, 4, "R")
    taken = []
    for to in (15_000_000, 28_000_000):
        (result,), _ = simulate(w, (10_000, 10_000, to, 95_000_000), "prev", balance="model")
        assert result["broken"] == 0
        taken.append(int(result["periodic_moves"]))
    return taken


def test_an_idle_cpu_that_had_not_looked_does_not_look() -> None:
    assert taken_by_an_idle_cpu(None) == [0, 0]
    assert taken_by_an_idle_cpu(16_020_000) == [0, 1]
