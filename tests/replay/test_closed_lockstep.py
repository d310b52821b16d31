# SPDX-License-Identifier: GPL-2.0-or-later
"""Wakers that wait for their wakees to sleep, in the closed loop: found, and their wakeups follow the sleeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resimulated import COSTS, simulate, survey, whole
from world import World, schedules

NOBODY = (-1, -1)
AWAITED = [*[NOBODY] * 3, (2, -1), NOBODY]
"""Task 2 waits for task 3."""


def sleeps(rounds: int) -> list[int]:
    """When task 3 sleeps: after 20, 25, 30, 20... us."""
    return np.cumsum([20_000 + 5_000 * (k % 3) for k in range(rounds)]).tolist()


def spinning(rounds: int, early: int = 1_000) -> World:
    """Task 2 has CPU 0, and wakes task 3 `early` ns before that has left CPU 1; it runs again 4 us after."""
    w = World(2, 5)
    w.runs(0, 0, 0, 2).runs(0, 1, 1, 3)
    for t in sleeps(rounds):
        if early > 0:
            w.waking(t - early, 0, 3, 1, 2).runs(t, 1, 3, 1)
        else:
            w.runs(t, 1, 3, 1).waking(t - early, 0, 3, 1, 2)
        w.wakeup(t + max(2_000, -early), 1, 3, 1, curr=1).runs(t + max(2_000, -early) + 2_000, 1, 1, 3)
    return w


def answered(rounds: int) -> World:
    """As spinning(); after every tenth wakeup task 2 goes on for 15 us and sleeps, until 3 wakes it when it sleeps."""
    w = World(2, 5)
    w.runs(0, 0, 0, 2).runs(0, 1, 1, 3)
    for k, t in enumerate(sleeps(rounds)):
        w.waking(t - 1_000, 0, 3, 1, 2).runs(t, 1, 3, 1).wakeup(t + 2_000, 1, 3, 1, curr=1).runs(t + 4_000, 1, 1, 3)
        if k % 10 == 9:
            w.runs(t + 14_000, 0, 2, 0).waking(t + 15_000, 1, 2, 0, 3)
            w.wakeup(t + 16_000, 0, 2, 0, curr=0).runs(t + 17_000, 0, 0, 2)
    return w


@pytest.mark.parametrize("early", [1_000, 0, -4_000])
def test_who_wakes_a_task_whenever_it_sleeps_waits_for_it(early: int) -> None:
    assert survey(spinning(60, early))["awaited"] == AWAITED
    assert survey(spinning(49, early))["awaited"] == [NOBODY] * 5, "too few"


def test_who_comes_later_does_not_wait() -> None:
    assert survey(spinning(200, -6_000))["awaited"] == [NOBODY] * 5


def test_who_goes_on_because_the_other_sleeps_does_not_wait() -> None:
    """Task 3 takes CPU 0 from task 2, which wakes it again soon after it is back."""
    w = World(2, 5)
    w.runs(0, 0, 0, 2)
    for t in range(20_000, 20_000 * 100, 20_000):
        w.waking(t, 0, 3, 0, 2).wakeup(t + 1_000, 0, 3, 0, curr=2).runs(t + 3_000, 0, 2, 3, "R").runs(
            t + 16_000, 0, 3, 2
        )
    assert survey(w)["awaited"] == [NOBODY] * 5


def test_who_sleeps_at_last_has_so_much_patience() -> None:
    """From its wakeup to its sleep: 1 us before the other slept to 14 us after."""
    assert survey(answered(80))["awaited"][3] == (2, 15_000)


def slow(ns: int) -> dict[str, Any]:
    """Costs in which whoever is woken is on its CPU so long after it was queued, 1 us after the wakeup."""
    return COSTS | {"run_ns": np.full(5, ns, np.int64)}


def latencies(result: dict[str, Any]) -> list[int]:
    values, unknown = result["woken"]["latency_ns"]
    found: list[int] = values[~unknown].tolist()
    return found


@pytest.mark.parametrize(("run", "cycle"), [(4_000, 0), (14_000, 10_000)])
def test_its_wakeups_follow_the_sleeps(run: int, cycle: int) -> None:
    """The wakee is on its CPU again 5 us after the wakeup, as recorded, or 10 us later: so much later comes each next
    wakeup. Otherwise they come when they were recorded, and in the end long before the sleeps."""
    window = (0, 0, 1_000_000, 1_200_000)
    (result,), _ = simulate(spinning(48), window, "pinned", costs=slow(run), awaited=AWAITED)
    recorded = [t - 1_000 for t in sleeps(48)]
    expected = [t + k * cycle for k, t in enumerate(recorded)]
    assert (result["broken"], result["early"]) == (0, 0)
    assert result["woken"]["ts_ns"].tolist() == [t for t in expected if t < 999_000]
    assert set(latencies(result)) == {1_000 + run}
    (without,), _ = simulate(spinning(48), window, "pinned", costs=slow(run))
    assert (without["early"] > 0) == (cycle > 0)


def test_waiting_is_no_work() -> None:
    """Between its wakeups task 2 needs as long as in the shortest tenth of them; the last waits for an end."""
    _, script = simulate(spinning(30), (0, 0, 700_000, 800_000), "pinned", awaited=AWAITED)
    assert {work // 1024 for work, kind, _ in script["tasks"][2]["ops"][1:-1]} == {20_000}
    _, script = simulate(spinning(30), (0, 0, 700_000, 800_000), "pinned")
    assert {work // 1024 for work, kind, _ in script["tasks"][2]["ops"][1:-1]} == {20_000, 25_000, 30_000}


def awake() -> World:
    """Task 4 is woken from outside at 10 us and has CPU 1 10 us later. At 42 us task 3 wakes task 5, and at 50 us
    task 4, which is about to sleep then, and stays awake until 90 us."""
    w = World(3, 6)
    w.runs(0, 0, 0, 3).waking(10_000, 1, 4, 1, 1, "hardirq").wakeup(11_000, 1, 4, 1, curr=1).runs(20_000, 1, 1, 4)
    w.waking(42_000, 0, 5, 2, 3).wakeup(43_000, 2, 5, 2, curr=2).runs(45_000, 2, 2, 5)
    return w.waking(50_000, 0, 4, 1, 3).wakeup(51_000, 1, 4, 1, curr=4).runs(90_000, 1, 4, 1)


@pytest.mark.parametrize(("run", "given"), [(9_000, [10_000, 42_000]), (2_000, [10_000, 42_000, 50_000])])
def test_who_was_awake_when_it_came_to_sleep_sleeps_where_the_wakeup_comes_later(run: int, given: list[int]) -> None:
    """It comes to schedule() 2 us after the recorded wakeup: after 32 us of work, which are over at 45 us where it has
    its CPU after 3 us."""
    awaited = [*[NOBODY] * 4, (3, -1), NOBODY]
    (result,), script = simulate(awake(), (0, 0, 100_000, 120_000), "pinned", costs=slow(run), awaited=awaited)
    assert [(work // 1024, kind) for work, kind, _ in script["tasks"][4]["ops"]] == [
        (32_000, "look"),
        (38_000, "block"),
    ]
    assert (result["broken"], result["woken"]["ts_ns"].tolist()) == (0, given)
    (without,), _ = simulate(awake(), (0, 0, 100_000, 120_000), "pinned", costs=slow(run))
    assert without["woken"]["ts_ns"].tolist() == [10_000, 42_000]


def test_who_is_awake_when_it_came_to_sleep_lets_others_run() -> None:
    """Task 5 is queued at 31 us on the CPU of task 4, which is about to sleep at 50 us, and is woken before: task 5 has
    the CPU at 52 us, as schedule() finds it is its turn. Else it waits until task 4 sleeps, after 80 us of work."""
    w = World(2, 6)
    w.runs(0, 0, 0, 3).runs(0, 1, 1, 4)
    w.waking(30_000, 1, 5, 1, 4, "hardirq").wakeup(31_000, 1, 5, 1, curr=4)
    w.waking(50_000, 0, 4, 1, 3).wakeup(51_000, 1, 4, 1, curr=4).runs(52_000, 1, 4, 5, "R").runs(62_000, 1, 5, 4)
    w.runs(90_000, 1, 4, 1)
    awaited = [*[NOBODY] * 4, (3, -1), NOBODY]
    (result,), _ = simulate(w, (0, 0, 100_000, 120_000), "pinned", awaited=awaited)
    assert (result["broken"], latencies(result)) == (0, [22_000])
    (without,), _ = simulate(w, (0, 0, 100_000, 120_000), "pinned")
    assert latencies(without) == [50_000]


def on_one_cpu(patience: int) -> list[int]:
    """Tasks 2 and 3 have CPU 0, in turns: 3 takes it 2 us after it was queued and sleeps after 5 us, 2 wakes it 12 us
    later. Here nobody is preempted. Latencies of the wakeups that came to a CPU."""
    w = World(2, 5)
    w.runs(0, 0, 0, 2)
    for t in range(20_000, 2_000_000, 20_000):
        w.waking(t, 0, 3, 0, 2).wakeup(t + 1_000, 0, 3, 0, curr=2).runs(t + 3_000, 0, 2, 3, "R").runs(
            t + 8_000, 0, 3, 2
        )
    awaited = [*[NOBODY] * 3, (2, patience), NOBODY]
    (result,), _ = simulate(w, (0, 0, 1_900_000, 2_000_000), "pinned", fifo=True, awaited=awaited)
    assert (result["broken"], result["early"]) == (0, 0)
    return latencies(result)


def test_where_its_wakee_waits_for_its_own_cpu_it_gives_way_when_its_patience_is_over() -> None:
    assert set(on_one_cpu(50_000)[:10]) == {50_000}
    assert not on_one_cpu(-1), "it spins on"


@pytest.mark.parametrize("awaited", [AWAITED[:-1], [*AWAITED[:-1], (5, 0)]])
def test_one_entry_for_each_task_is_expected(awaited: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="who waits for it"):
        simulate(spinning(3), (0, 0, 50_000, 60_000), "pinned", awaited=awaited)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(), st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 100_000)), min_size=10, max_size=10))
def test_whoever_waits_work_is_conserved(world: World, awaited: list[tuple[int, int]]) -> None:
    window = whole(world)
    if window is None:
        return
    results, _ = simulate(world, window, "prev", "linux-6.1", "waker", awaited=awaited)
    assert sum(r["broken"] for r in results) == 0
