# SPDX-License-Identifier: GPL-2.0-or-later
"""What is counted while a window of the closed loop runs: CPU time, and tasks that wait beside idle CPUs."""

from __future__ import annotations

import numpy as np
from resimulated import COSTS, simulate
from world import World

TICK = 4_000_000


def test_cpu_time_is_counted_to_the_end_of_the_window() -> None:
    """2 runs throughout, and nothing happens between its ticks."""
    w = World(1, 3).runs(0, 0, 0, 2).runs(30_000_000, 0, 2, 1).runs(31_000_000, 0, 1, 0)
    for to in (TICK // 2, TICK + TICK // 2, 20_000_000):
        results, _ = simulate(w, (1_000, 10_000, to, to), "pinned", "prev")
        assert [(r["cpu_ns"], r["broken"]) for r in results] == [(to - 10_000, 0)] * 2


def idle_while_waiting(run_ns: int) -> tuple[int, int]:
    """3 is woken nine times on idle CPU 0, which takes so long to run it; CPU 1 is always idle. Time, and intervals."""
    w = World(2, 4).runs(0, 0, 0, 3).runs(10_000, 0, 3, 0)
    for at in range(100_000, 1_000_000, 100_000):
        w.waking(at, 0, 3, 0, 0, ctx="hardirq").wakeup(at + 1_000, 0, 3, 0)
        w.runs(at + 3_000, 0, 0, 3).runs(at + 13_000, 0, 3, 0)
    costs = COSTS | {"run_ns": np.full(5, run_ns)}
    (result,), _ = simulate(w, (0, 50_000, 950_000, 1_000_000), "pinned", costs=costs)
    assert (result["wakeups"], result["broken"]) == (9, 0)
    return int(result["machine_idle_ns"]), int(result["machine_over_10us"])


def test_what_a_wakeup_takes_is_no_wait_beside_an_idle_cpu() -> None:
    assert idle_while_waiting(2_000) == (0, 0)
    assert idle_while_waiting(30_000) == (9 * 30_000, 9)
