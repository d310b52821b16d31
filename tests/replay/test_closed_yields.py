# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks that yield, in the closed loop: they are found, and let others run whenever somebody waits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resimulated import simulate, survey, whole
from world import World, schedules

YIELDERS = [False] * 2 + [True, True, False]


def turns(rounds: int, together: int = 8) -> World:
    """Tasks 2 and 3 are on CPU 0, and each lets the other run after 5 us; every 200 us for `together` turns each, then
    3 sleeps until the next round while 2 runs on."""
    w = World(2, 5)
    w.runs(0, 0, 0, 2)
    for k in range(rounds):
        t = 200_000 * k + 50_000
        end = t + together * 10_000
        w.waking(t - 1000, 0, 3, 0, 2, "hardirq").wakeup(t, 0, 3, 0, curr=2)
        while t < end:
            w.runs(t + 5_000, 0, 2, 3, "R")
            t += 10_000
            w.runs(t, 0, 3, 2, "S" if t == end else "R")
    return w


def preempted(rounds: int) -> World:
    """Task 3 takes the CPU from task 2 whenever it is woken."""
    w = World(2, 5)
    w.runs(0, 0, 0, 2)
    for t in range(50_000, 50_000 * (rounds + 1), 50_000):
        w.waking(t, 0, 3, 0, 2, "hardirq").wakeup(t + 1_000, 0, 3, 0, curr=2)
        w.runs(t + 3_000, 0, 2, 3, "R").runs(t + 10_000, 0, 3, 2)
    return w


def test_those_who_yield_are_found() -> None:
    assert survey(turns(40))["yielders"] == YIELDERS
    assert not any(survey(turns(7))["yielders"]), "too few"
    assert not any(survey(preempted(100))["yielders"]), "whoever was sent to the CPU took it"


@pytest.mark.parametrize(
    ("woken", "took", "preempts"),
    [(False, 306_000, [0, 1, 0, 0]), (False, 312_000, [0, 0, 0, 0]), (True, 312_000, [1, 0, 0, 0])],
)
def test_who_was_woken_before_it_slept_goes_by_itself(woken: bool, took: int, preempts: list[int]) -> None:
    """Task 2, which is about to sleep, is woken: it calls schedule() as one that can run, and the queue's first runs.
    The kernel had not told it to go. Where a wakee runs late, nobody knows."""
    w = World(2, 5).runs(0, 0, 0, 2).runs(0, 1, 1, 4)
    w.waking(300_000, 1, 3, 0, 4).wakeup(301_000, 0, 3, 0, curr=2)
    if woken:
        w.waking(302_000, 1, 2, 0, 4).wakeup(303_000, 0, 2, 0, curr=2)
    w.runs(took, 0, 2, 3, "R").runs(320_000, 0, 3, 2)
    assert survey(w, kernel=(6, 1))["preempts"] == preempts


def visited(visits: int) -> World:
    """Tasks 2 and 3 never sleep, and let each other run: 2 after 7 us, 3 after 3. Every 100 us task 4 comes, at whose
    sleep the kernel takes 2, as 3 was the last who gave up a slice, though 2 ran longer."""
    w = World(1, 5)
    w.runs(0, 0, 0, 2).waking(500, 0, 3, 0, 2, "hardirq").wakeup(1_000, 0, 3, 0, curr=2)
    t = 0
    for _ in range(visits):
        for turn in range(10):
            w.runs(t + 7_000, 0, 2, 3, "R")
            if turn == 9:
                w.waking(t + 7_500, 0, 4, 0, 3, "hardirq").wakeup(t + 8_000, 0, 4, 0, curr=3)
            t += 10_000
            w.runs(t, 0, 3, 4 if turn == 9 else 2, "R")
        t += 5_000
        w.runs(t, 0, 4, 2)
    return w


def test_the_survey_knows_who_yields_once_it_has_seen_it() -> None:
    few, many = (survey(visited(visits), kernel=(6, 12)) for visits in (7, 30))
    right, picks = (many[k] - few[k] for k in ("picks_right", "picks"))
    assert (right, picks) == (23, 23)
    assert (few["picks_right"], few["picks"]) == (0, 7), "not seen often enough"


def ops(w: World, until: int, yields: Sequence[bool] | None) -> dict[int, list[tuple[str, int]]]:
    """By task: actions, and the work before each, us."""
    more: dict[str, Sequence[bool]] = {} if yields is None else {"yields": yields}
    _, script = simulate(w, (0, 0, until, until), "pinned", **more)
    return {t: [(kind, work // 1024_000) for work, kind, _ in task["ops"]] for t, task in script["tasks"].items()}


def test_who_yields_does_so_alone_too() -> None:
    """The recording shows it only where somebody waited; task 2 has the CPU alone for 120 us."""
    recorded, found = ops(turns(2), 400_000, None), ops(turns(2), 400_000, YIELDERS)
    assert recorded[2] == [("end", 400 - 2 * 40)]
    assert set(found[2][:-1]) == {("yield", 5)}
    assert sum(work for _, work in found[2]) == 400 - 2 * 40
    assert found[3] == [*[("yield", 5)] * 7, ("block", 5)] * 2


@pytest.mark.parametrize("kernel", [(6, 1), (6, 6), (6, 12)])
def test_who_yields_lets_the_other_run(kernel: tuple[int, int]) -> None:
    """Without that task 2 goes on until its slice is over."""
    window = (0, 0, 500_000, 600_000)
    (result,), _ = simulate(turns(3), window, "pinned", kernel=kernel, yields=YIELDERS)
    assert (result["broken"], result["wakeups"]) == (0, 3)
    assert max(result["woken"]["latency_ns"][0].tolist()) <= 6_000
    (without,), _ = simulate(turns(3), window, "pinned", kernel=kernel)
    assert max(without["woken"]["latency_ns"][0].tolist()) > 400_000


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(), st.lists(st.booleans(), min_size=10, max_size=10))
def test_whoever_yields_work_is_conserved(world: World, yields: list[bool]) -> None:
    window = whole(world)
    if window is None:
        return
    results, _ = simulate(world, window, "prev", "linux-6.1", "waker", yields=yields)
    assert sum(r["broken"] for r in results) == 0
