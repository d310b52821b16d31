# SPDX-License-Identifier: GPL-2.0-or-later
"""Masks that change during a window of the closed loop: whoever is outside goes at once, whoever sleeps when woken."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resimulated import simulate, whole
from world import World, schedules

FIRST, SECOND = 1, 2
MASKS = ("0", "1")


def periodic() -> World:
    """Task 2 is woken on CPU 0 by an interrupt every 100 us, and runs for 20."""
    w = World(2, 4, masks=MASKS)
    for t in range(10_000, 400_000, 100_000):
        w.waking(t, 0, 2, 0, 0, ctx="hardirq").wakeup(t + 1000, 0, 2, 0).runs(t + 3000, 0, 0, 2)
        w.runs(t + 23_000, 0, 2, 0)
    return w


def cpus(world: World, *changes: tuple[int, int, int], policy: str = "linux-6.1") -> list[int]:
    (result,), _ = simulate(world, (0, 0, 390_000, 400_000), policy, mask_changes=changes)
    assert result["broken"] == 0
    return [int(c) for c in result["woken"]["cpu"][result["woken"]["task"] == 2]]


def test_who_sleeps_goes_where_it_may_when_it_is_woken() -> None:
    assert cpus(periodic()) == [0] * 4
    assert cpus(periodic(), (150_000, 2, SECOND)) == [0, 0, 1, 1]
    assert cpus(periodic(), (50_000, 2, SECOND), (250_000, 2, FIRST)) == [0, 1, 1, 0]
    assert cpus(periodic(), (-5, 2, SECOND)) == [1] * 4, "before the window"
    assert cpus(periodic(), (150_000, 2, SECOND), policy="pinned") == [0] * 4


def test_who_runs_or_waits_is_moved_at_once() -> None:
    """Task 2 runs on CPU 0, and task 3 waits behind it from 20 us on."""
    w = World(2, 4, masks=MASKS).runs(0, 0, 0, 2)
    w.waking(20_000, 0, 3, 0, 2, ctx="hardirq").wakeup(21_000, 0, 3, 0, curr=2).runs(900_000, 0, 2, 3)

    def waits(*changes: tuple[int, int, int]) -> int:
        (result,), _ = simulate(w, (0, 0, 500_000, 950_000), "prev", mask_changes=changes)
        assert result["broken"] == 0
        return int(result["woken"]["latency_ns"][0][0])

    assert waits() > 500_000
    assert waits((40_000, 3, SECOND)) == 22_000, "it goes to CPU 1, which leaves idle for it"
    assert waits((40_000, 2, SECOND)) == 20_000, "its CPU is free"
    assert waits((40_000, 2, FIRST)) > 500_000, "it may stay"
    assert waits((20_500, 3, SECOND)) > waits((40_000, 3, SECOND)) - 20_000 > 0, "on its way: when it is there"


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(), st.data())
def test_masks_that_change_break_nothing(world: World, data: st.DataObject) -> None:
    window = whole(world)
    if window is None:
        return
    last = window[2]
    world.masks.extend(["0", f"{world.n_cpus - 1}"])
    n = len(world.tasks["allowed"])
    change = st.tuples(st.integers(0, last), st.integers(world.n_cpus, n - 1), st.integers(0, 2))
    changes = sorted(data.draw(st.lists(change, max_size=6)))
    results, _ = simulate(world, window, "linux-6.1", "waker", "pinned", mask_changes=changes)
    assert [r["broken"] for r in results] == [0, 0, 0]
