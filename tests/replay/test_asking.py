# SPDX-License-Identifier: GPL-2.0-or-later
"""Who asks devices, told from who is woken by what comes at its own time."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from rewake.replay.asking import FEWEST_ASKED, askers


class Woken:
    """A recording of tasks that run now 10, now 20 us and are woken by an interrupt: 1 so long after it sleeps, 2 every
    100 us."""

    def __init__(self, times: int) -> None:
        self.times = times

    def connect(self, _: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
        con = duckdb.connect()
        con.execute("CREATE TABLE decision (task INT, irq_ctx INT, ts_ns BIGINT, kind INT, prio INT)")
        con.execute("CREATE TABLE switch (prev_task INT, ts_ns BIGINT, prev_state INT)")
        asked = 0
        for k in range(self.times):
            for task, woken in ((1, asked), (2, 100_000 * k)):
                con.execute("INSERT INTO decision VALUES (?, 1, ?, 0, 120)", (task, woken))
                con.execute("INSERT INTO switch VALUES (?, ?, 2)", (task, woken + 10_000 * (1 + k % 2)))
            asked += 10_000 * (1 + k % 2) + 4_000
        return con

    def read(self, *_: Any) -> dict[str, Any]:
        return {"task_id": np.arange(3)}


@pytest.mark.parametrize(("times", "asks"), [(FEWEST_ASKED + 2, True), (FEWEST_ASKED - 2, False)])
def test_who_sleeps_later_and_is_woken_as_much_later_asked(times: int, asks: bool) -> None:
    assert askers(Woken(times)) == [False, asks, False]  # type: ignore[arg-type]
