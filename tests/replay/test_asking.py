# SPDX-License-Identifier: GPL-2.0-or-later
"""Who asks devices, told from who is woken by what comes at its own time."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from rewake.replay.asking import FEWEST_ASKED, askers


class Woken:
    """A recording of wakeups (task, irq_ctx, ts), and of when the task sleeps again."""

    def __init__(self, wakeups: list[tuple[int, int, int, int]]) -> None:
        self.wakeups, self.tasks = wakeups, 1 + max(task for task, *_ in wakeups)

    def connect(self, _: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
        con = duckdb.connect()
        con.execute("CREATE TABLE decision (task INT, irq_ctx INT, ts_ns BIGINT, kind INT, prio INT)")
        con.execute("CREATE TABLE switch (prev_task INT, ts_ns BIGINT, prev_state INT)")
        for task, ctx, woken, sleeps in self.wakeups:
            con.execute("INSERT INTO decision VALUES (?, ?, ?, 0, 120)", (task, ctx, woken))
            con.execute("INSERT INTO switch VALUES (?, ?, 2)", (task, sleeps))
        return con

    def read(self, *_: Any) -> dict[str, Any]:
        return {"task_id": np.arange(self.tasks)}


def asking(wakeups: list[tuple[int, int, int, int]]) -> list[bool]:
    return askers(Woken(wakeups))  # type: ignore[arg-type]


@pytest.mark.parametrize(("times", "asks"), [(FEWEST_ASKED + 2, True), (FEWEST_ASKED - 2, False)])
def test_who_sleeps_later_and_is_woken_as_much_later_asked(times: int, asks: bool) -> None:
    """They run now 10, now 20 us and are woken by an interrupt: 1 so long after it sleeps, 2 every 100 us."""
    wakeups, asked = [], 0
    for k in range(times):
        runs = 10_000 * (1 + k % 2)
        wakeups += [(task, 1, woken, woken + runs) for task, woken in ((1, asked), (2, 100_000 * k))]
        asked += runs + 4_000
    assert asking(wakeups) == [False, asks, False]


@pytest.mark.parametrize(("times", "asks"), [(FEWEST_ASKED + 2, True), (FEWEST_ASKED - 2, False)])
def test_who_is_always_woken_so_long_after_something_else_woke_it_asked(times: int, asks: bool) -> None:
    """A timer wakes them every ms, and they sleep after 18 to 22 us. Task 1 sends something on its way, and a softirq
    brings the answer 25 us after the timer; what wakes 2 comes every 1.1 ms."""
    wakeups = []
    for k in range(times):
        timer, runs = 1_000_000 * k, 18_000 + 2_000 * (k % 3)
        for task, softirq in ((1, timer + 25_000), (2, timer + 25_000 + 100_000 * (k % 10))):
            wakeups += [(task, 2, timer, timer + runs), (task, 1, softirq, softirq + 15_000)]
    assert asking(wakeups) == [False, asks, False]
