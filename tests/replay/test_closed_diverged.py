# SPDX-License-Identifier: GPL-2.0-or-later
"""Windows that leave the recording behind: judged by the time that tasks were on run queues until each tick."""

from __future__ import annotations

from typing import Any

import numpy as np
from resimulated import COSTS, simulate
from world import World

MS = 1_000_000
WINDOW = (0, 0, 100 * MS, 120 * MS)


def by_timers(tasks: int) -> World:
    """So many tasks, each on a CPU of its own, are woken by interrupts .5 ms before each tick, and run 1 ms."""
    n = tasks + 1
    w = World(n, n + tasks)
    for k in range(1, 30):
        t = 4 * MS * k - MS // 2
        for i in range(1, n):
            w.waking(t + 100 * i, 0, n + i - 1, i, 0, "hardirq").wakeup(t + 100 * i + 50, 0, n + i - 1, i, curr=0)
        for i in range(1, n):
            w.runs(t + 2_000 + i, i, i, n + i - 1)
        for i in range(1, n):
            w.runs(t + MS + i, i, n + i - 1, i)
    return w


def window(tasks: int, policy: str, run_ns: int = 2_000) -> dict[str, Any]:
    costs = COSTS | {"run_ns": np.array([run_ns, 0, 2000, 2000, 2000], np.int64), "in_task": np.zeros(5, np.bool_)}
    (result,), _ = simulate(by_timers(tasks), WINDOW, policy, costs=costs)
    assert result["broken"] == 0
    return result


def test_who_runs_later_in_each_tick_leaves_nothing_behind() -> None:
    """The recorded task runs at every tick; the simulated one, whose CPU takes 2 ms to leave idle, has not begun."""
    result = window(1, "prev", 2 * MS)
    assert min(result["woken"]["latency_ns"][0].tolist()) > 2 * MS
    assert (result["diverged"], result["why"]) == (False, "")


def test_too_much_or_too_little_queued_work_ends_a_window() -> None:
    assert not window(5, "prev")["diverged"]
    result = window(5, "waker")  # all on CPU 0, which has 5 ms of work every 4
    assert (result["diverged"], result["why"]) == (True, "queued work")
    assert result["to_ns"] < WINDOW[2]
