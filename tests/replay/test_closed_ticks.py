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
