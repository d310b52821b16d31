# SPDX-License-Identifier: GPL-2.0-or-later
"""Which interrupts have their CPU whatever runs there."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from rewake.forms import ENUMS
from rewake.replay.costs import LONG_HANDLER, interrupts

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
