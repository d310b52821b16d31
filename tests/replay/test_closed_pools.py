# SPDX-License-Identifier: GPL-2.0-or-later
"""Threads that wait for any work of their process, in the closed loop: found, and who sleeps takes what comes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resimulated import COSTS, simulate, survey, whole
from world import World, schedules

POOL = range(8, 14)


def takes(pick: int, rounds: int = 300) -> World:
    """Threads 8 to 13, each on a CPU of its own: one that runs wakes one that sleeps, or sleeps itself. `pick`: -1 for
    the one that fell asleep last, 0 for the first one."""
    rng = random.Random(3)
    w = World(8, 14)
    awake, asleep = [8], list(POOL[1:])
    w.runs(0, 0, 0, 8)
    for k in range(rounds):
        t, by = 20_000 * (k + 1), rng.choice(awake)
        if asleep and (len(awake) == 1 or rng.random() < 0.5):
            p = asleep.pop(pick)
            w.waking(t, by - 8, p, p - 8, by).wakeup(t + 1_000, by - 8, p, p - 8, curr=by)
            w.runs(t + 3_000, p - 8, p - 8, p)
            awake.append(p)
        else:
            awake.remove(by)
            asleep.append(by)
            w.runs(t, by - 8, by, by - 8)
    return w


def test_threads_of_which_the_last_that_slept_is_woken_share_work() -> None:
    mine = [-1] * 8 + [70] * 6
    assert survey(takes(-1), processes=mine)["pools"] == [-1] * 8 + [0] * 6
    assert set(survey(takes(0), processes=mine)["pools"]) == {-1}, "each waits for its own turn"
    assert set(survey(takes(-1, 80), processes=mine)["pools"]) == {-1}, "too few"
    assert set(survey(takes(-1))["pools"]) == {-1}, "whose threads they are is not known"
    assert set(survey(takes(-1), processes=[-1] * 8 + list(POOL))["pools"]) == {-1}, "of six processes"


def woken_twice() -> World:
    """Task 6 on CPU 2 wakes 4 on CPU 0 after 100 and 250 us, which works 100 us each time, and 5 on CPU 1 after 900."""
    w = World(4, 7).runs(0, 0, 0, 4).runs(0, 1, 1, 5).runs(0, 2, 2, 6).runs(5_000, 1, 5, 1).runs(10_000, 0, 4, 0)
    for t, p, cpu in ((100_000, 4, 0), (250_000, 4, 0), (900_000, 5, 1)):
        w.waking(t, 2, p, cpu, 6).wakeup(t + 1_000, 2, p, cpu, curr=6)
        w.runs(t + 3_000, cpu, cpu, p).runs(t + 103_000, cpu, p, cpu)
    return w


@pytest.mark.parametrize(("takes_ns", "pools", "woken", "early"), [
    (2_000, [-1, -1, -1, -1, 0, 0, 0], [(100, 4), (250, 4), (900, 5)], 0),
    (160_000, [-1, -1, -1, -1, 0, 0, 0], [(100, 4), (250, 5), (900, 4)], 0),
    (160_000, [-1, -1, -1, -1, 0, 1, 0], [(100, 4), (361, 4), (900, 5)], 1),
    (160_000, [-1] * 7, [(100, 4), (361, 4), (900, 5)], 1),
])  # fmt: skip
def test_a_thread_that_sleeps_takes_what_comes_to_one_that_is_awake(
    takes_ns: int, pools: list[int], woken: list[tuple[int, int]], early: int
) -> None:
    """Where it takes 160 us to leave idle, task 4 has not slept again when it is woken for the second time: 5 does that
    work, and 4 sleeps in its place. One that is of no pool, or of another, does not: 4 is woken once it sleeps."""
    costs = COSTS | {"run_ns": np.array([takes_ns, 0, 2000, 2000, 2000], np.int64)}
    window = (0, 0, 1_500_000, 1_500_001)
    (result,), _ = simulate(woken_twice(), window, "prev", costs=costs, pools=pools)
    of = result["woken"]
    assert [(t // 1_000, p) for t, p in zip(of["ts_ns"].tolist(), of["task"].tolist(), strict=True)] == woken
    assert (result["broken"], result["early"]) == (0, early)
    (alone,), _ = simulate(woken_twice(), window, "prev", costs=costs)
    assert result["work_ns"] == alone["work_ns"]


def test_pools_must_be_of_all_tasks() -> None:
    with pytest.raises(ValueError, match="share work"):
        simulate(woken_twice(), (0, 0, 1_500_000, 1_500_001), "prev", pools=[0, 0])


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(), st.lists(st.integers(-1, 1), min_size=10, max_size=10))
def test_whoever_shares_work_it_is_conserved(world: World, pools: list[int]) -> None:
    window = whole(world)
    if window is None:
        return
    results, _ = simulate(world, window, "prev", "linux-6.1", "waker", pools=pools)
    assert sum(r["broken"] for r in results) == 0
