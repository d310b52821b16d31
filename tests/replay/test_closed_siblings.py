# SPDX-License-Identifier: GPL-2.0-or-later
"""The closed loop on CPUs that share a core: how fast they run beside a busy sibling (--smt)."""

from __future__ import annotations

import pytest
from resimulated import simulate
from world import World

MS = 1_000_000


def two_on_a_core() -> World:
    """Tasks 4 and 5 have CPUs 0 and 2, siblings, for 20 ms; 4 wakes 6 on CPU 1 after every 100 us of work."""
    w = World(4, 7, smt=2).runs(0, 0, 0, 4).runs(0, 2, 2, 5)
    for ts in range(50_000, 20 * MS, 100_000):
        w.waking(ts, 0, 6, 1, 4).wakeup(ts + 1000, 1, 6, 1, curr=1).runs(ts + 3000, 1, 1, 6).runs(ts + 5000, 1, 6, 1)
    return w.runs(20 * MS, 0, 4, 0).runs(20 * MS, 2, 5, 2)


@pytest.mark.parametrize("begins", [0, MS])
def test_siblings_that_are_busy_when_a_window_begins_slow_each_other(begins: int) -> None:
    window = (begins, begins, begins + 10 * MS, 20 * MS)
    alone, beside = (simulate(two_on_a_core(), window, "prev", smt=smt)[0][0] for smt in (1.0, 0.5))
    assert [len(r["woken"]["ts_ns"]) for r in (alone, beside)] == [100, 50]
    assert beside["broken"] == 0
