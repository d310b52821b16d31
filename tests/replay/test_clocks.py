# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the clocks of two CPUs agree is told by interrupts that come too early (replay/clocks.py)."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from rewake.forms import ENUMS, Recording
from rewake.replay import clocks

EVERY = 20_000


class Moves:
    """Every 20 us a wakeup on CPU 0 moves task 5 to CPU 1, which is interrupted `takes` later, from there on by a clock
    that is `off`, and queues it 2 us later. `others`: of the interrupts that have CPU 1 queue a task that stayed.
    `slow`: capacity of CPU 1; then every other wakeup goes the other way, and takes 3 us longer."""

    n_parts = 1

    def __init__(self, off: np.ndarray[Any, Any], takes: int = 1_200, others: int = 0, slow: int = 1024) -> None:
        self.capacity = np.array([1024, slow])
        n, kind = len(off), ENUMS["irq_kind"].index("call_function_single")
        back = (np.arange(n) % 2 > 0) & (slow < 1024)
        moved = np.arange(n) * EVERY
        began = moved + takes + off + 3_000 * back
        rows = [
            (int(t), "migrate", {"task": 5, "dest_cpu": 1 - b, "cpu": b, "cause": 0})
            for t, b in zip(moved[others:], back[others:].astype(int).tolist(), strict=True)
        ]
        for t, to in zip(began.tolist(), (1 - back).tolist(), strict=True):
            idle = {"cpu": to, "curr_task": to}
            rows += [(t + ns, "irq", idle | {"kind": kind, "entry": entry}) for ns, entry in ((0, 1), (5_000, 0))]
            rows.append((t + 2_000, "wakeup", idle | {"target_cpu": to, "task": 5}))
        self.tables: dict[str, list[dict[str, int]]] = {}
        for k, (ts, table, row) in enumerate(sorted(rows, key=lambda row: row[0])):
            self.tables.setdefault(table, []).append({"id": k, "ts_ns": ts} | row)

    def read(self, table: str, names: Any) -> dict[str, Any]:
        assert (table, names) == ("cpu", ("cpu", "capacity"))
        return {"cpu": np.arange(2), "capacity": self.capacity}

    def read_part(self, table: str, k: int, names: Any) -> dict[str, Any]:
        rows = self.tables.get(table, [])
        columns = {name: np.array([row[name] for row in rows], np.int64) for name in names}
        return columns | ({"entry": columns["entry"].astype(np.bool_)} if "entry" in names else {})


def agree(off: np.ndarray[Any, Any], **how: int) -> bool:
    return clocks.agree(cast(Recording, Moves(off, **how)), 2)


@pytest.mark.parametrize("takes", [1_200, 6_000])
@pytest.mark.parametrize(("apart", "expected"), [(0, True), (400, True), (2_000, False)])
def test_clocks_agree_where_no_interrupt_comes_much_earlier_than_others(takes: int, apart: int, expected: bool) -> None:
    """However long it takes: one need not come before its cause."""
    off = np.random.default_rng(7).integers(-apart, apart + 1, 1_500)
    assert agree(off, takes=takes) is expected


def test_that_some_come_late_tells_nothing() -> None:
    """A CPU that sleeps deeply takes long to wake up."""
    off = np.where(np.arange(1_500) % 2, 0, 8_000)
    assert agree(off)


def test_a_few_do_not_tell() -> None:
    assert agree(np.zeros(250, np.int64))
    assert not agree(np.zeros(190, np.int64))
    assert not agree(np.zeros(1_500, np.int64), others=1_350), "who did not move"
    assert not agree(np.zeros(0, np.int64))


@pytest.mark.parametrize(("apart", "expected"), [(0, True), (700, True), (2_000, False)])
def test_cpus_of_different_speeds_are_told_by_pairs_of_speeds(apart: int, expected: bool) -> None:
    """What it takes at least is not the same on them, and a moment more of it is earlier than the rest."""
    off = -apart * (np.arange(1_500) % 100 == 50)
    assert agree(off, slow=460) is expected
    assert not agree(np.zeros(190, np.int64), slow=460)
