# SPDX-License-Identifier: GPL-2.0-or-later
"""Wakers in the closed loop: that exit, that wake several at once, and that are preempted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from resimulated import COSTS, simulate
from world import World

WINDOW = (0, 0, 390_000, 400_000)
LUCK = {"luck": np.float32(0), "luck_preempt": np.float32(0)}
"""The cheapest of its like, for every wakeup."""


def ends(exits: bool) -> World:
    """Task 4 runs on CPU 0, and wakes task 5, which slept on a CPU of the other LLC, before it sleeps or dies."""
    w = World(4, 6, llcs=2)
    w.runs(0, 0, 0, 4).runs(10_000, 2, 2, 5).runs(20_000, 2, 5, 2)
    if exits:
        w.add("exit", 90_000, 0, task=4)
    w.waking(100_000, 0, 5, 2, 4).wakeup(102_000, 2, 5, 2).runs(104_000, 2, 2, 5).runs(200_000, 2, 5, 2)
    return w.runs(110_000, 0, 4, 0, "X" if exits else "S")


def by_time(world: World) -> World:
    world.events.sort(key=lambda e: e[1]["ts_ns"])
    return world


def test_a_waker_that_exits_gives_no_synchronous_wakeup() -> None:
    """One that does not draws the wakee to its LLC (wake_affine_idle(), 6.1)."""
    (result,), script = simulate(by_time(ends(False)), WINDOW, "linux-6.1", told={"sync": True})
    assert result["woken"]["cpu"].tolist() == [1] and result["broken"] == 0
    (result,), script = simulate(by_time(ends(True)), WINDOW, "linux-6.1", told={"sync": True})
    assert result["woken"]["cpu"].tolist() == [2] and result["broken"] == 0
    ops = [(work // 1024, kind) for work, kind, _ in script["tasks"][4]["ops"]]
    assert ops[:3] == [(90_000, "exiting"), (10_000, "wake"), (10_000, "exit")]


@pytest.mark.parametrize(("policy", "second"), [("linux-5.9", 0), ("linux-5.10", 0), ("linux-6.12", 2)])
def test_an_idle_waker_counts_as_a_kthread_of_its_cpu(policy: str, second: int) -> None:
    """Idle CPU 0 wakes two tasks that slept there: the second stacks on the first where X3 does not ask for task
    context."""
    w = World(4, 8).runs(0, 1, 1, 7)
    w.waking(100_000, 0, 4, 0, 0, ctx="hardirq").wakeup(100_100, 0, 4, 0)
    w.waking(100_500, 0, 5, 0, 0, ctx="hardirq").migrate(100_550, 0, 5, 0, 2, ctx="hardirq").wakeup(100_600, 0, 5, 2)
    w.runs(103_000, 0, 0, 4).runs(104_000, 2, 2, 5).runs(110_000, 0, 4, 0).runs(111_000, 2, 5, 2)
    (result,), _ = simulate(w, (0, 0, 120_000, 121_000), policy)
    assert result["woken"]["cpu"].tolist() == [0, second] and result["broken"] == 0


def two_wakeups(preempted: bool) -> World:
    """Task 2 wakes 3 and, 4 us of its work later, 4. In the recording 3 took the CPU in between, or after both."""
    w = World(1, 5).runs(0, 0, 0, 3).runs(0, 0, 3, 4).runs(1_000, 0, 4, 2)  # both have slept for long
    t = 20_000_000
    w.waking(t, 0, 3, 0, 2).wakeup(t + 1_000, 0, 3, 0, curr=2)
    second = t + 14_000 if preempted else t + 4_000
    if preempted:
        w.runs(t + 2_000, 0, 2, 3, "R").runs(t + 12_000, 0, 3, 2)
    w.waking(second, 0, 4, 0, 2).wakeup(second + 1_000, 0, 4, 0, curr=2)
    if preempted:
        w.runs(second + 2_000, 0, 2, 4, "R")
    else:
        w.runs(second + 2_000, 0, 2, 3, "R").runs(second + 12_000, 0, 3, 4)
    return w.runs(t + 90_000, 0, 4, 2).runs(t + 95_000, 0, 2, 0)


def mostly_later() -> dict[str, Any]:
    """Of a wakee that takes the CPU 1 us after it was queued, where it mostly takes 4: so long a waker is in the
    kernel."""
    more = {"path": [2] * 4, "relation": [0] * 4, "in_task": [True] * 4, "target": [0] * 4, "queue_ns": [0] * 4,
            "run_ns": [1000, 4000, 4000, 4000], "leave_ns": [0] * 4}  # fmt: skip
    return {k: np.append(np.delete(v, 2), np.array(more[k], v.dtype)) for k, v in COSTS.items()}


def waits(preempted: bool) -> int:
    """Of 3."""
    costs = mostly_later()
    world, end = two_wakeups(preempted), 20_100_000
    (result,), _ = simulate(world, (2_000, 2_000, end, end + 1), "prev", costs=costs, told=LUCK, own_luck=True)
    assert result["broken"] == 0
    return int(result["woken"]["latency_ns"][0][result["woken"]["task"] == 3][0])


def test_who_wakes_several_in_one_call_is_preempted_after_the_last() -> None:
    assert waits(preempted=False) == 4_000 + 1_000


def test_two_wakeups_with_a_preemption_between_were_not_in_one_call() -> None:
    assert waits(preempted=True) == 2_000


def test_messages_that_are_not_shown_do_not_part_wakeups_of_one_call() -> None:
    """Task 2 wakes 3 and 4 within 3.5 us, and meanwhile sends messages to 5, which reads on CPU 1."""
    w = World(2, 6).runs(0, 0, 0, 3).runs(0, 0, 3, 4).runs(1_000, 0, 4, 2).runs(2_000, 1, 1, 5).runs(3_000, 1, 5, 1)
    t, gap = 20_000_000, 3_500
    w.waking(t - 9_000, 0, 5, 1, 2).wakeup(t - 8_000, 1, 5, 1).runs(t - 5_000, 1, 1, 5)
    w.waking(t, 0, 3, 0, 2).wakeup(t + 1_000, 0, 3, 0, curr=2)
    w.waking(t + gap, 0, 4, 0, 2).wakeup(t + gap + 1_000, 0, 4, 0, curr=2)
    w.runs(t + gap + 3_000, 0, 2, 3, "R").runs(t + 10_000, 1, 5, 1)
    w.runs(t + gap + 13_000, 0, 3, 4).runs(t + gap + 23_000, 0, 4, 2).runs(t + 90_000, 0, 2, 0)
    reads = [(-1, 0)] * 5 + [(1_000 * 1024, 250 * 1024)]
    window = (4_000, 4_000, t + 50_000, t + 100_000)
    arm: dict[str, Any] = {"costs": mostly_later(), "told": LUCK, "own_luck": True, "reads": reads}
    (result,), script = simulate(w, window, "prev", **arm)
    sent = [number for _, kind, number in script["tasks"][2]["ops"] if kind == "wake"]
    assert sent.index(2) - sent.index(1) > 1, "some lie between"
    woken = dict(zip(result["woken"]["task"].tolist(), result["woken"]["ts_ns"].tolist(), strict=True))
    assert (result["broken"], woken[3] - t, woken[4] - t) == (0, 0, gap)


def told_to_go(at: int, known: bool) -> int:
    """Task 2 wakes 4 at 20 ms, and takes 5 us until it has queued it on CPU 1. Task 5, there, wakes 3 to the CPU of 2,
    `at` ns later, for 1 us. What 3 waits. `known`: who is told to go while it wakes somebody does so within 300 ns of
    that, as was recorded; else all within 2 us."""
    w = World(2, 6).runs(0, 0, 0, 3).runs(0, 1, 1, 4).runs(1_000, 0, 3, 2).runs(1_000, 1, 4, 5)  # 3, 4 sleep for long
    t = 20_000_000
    w.waking(t, 0, 4, 1, 2).wakeup(t + 5_000, 0, 4, 1, curr=2)
    w.waking(t + at, 1, 3, 0, 5).wakeup(t + at + 1_000, 1, 3, 0, curr=5)
    w.runs(t + 10_000, 0, 2, 3, "R").runs(t + 20_000, 0, 3, 2).runs(t + 80_000, 0, 2, 0)
    w.runs(t + 10_000, 1, 5, 4, "R").runs(t + 20_000, 1, 4, 5).runs(t + 80_000, 1, 5, 1)
    called = {"path": 5, "relation": 1, "in_task": True, "target": 0, "queue_ns": 0, "run_ns": 300, "leave_ns": 0}
    costs = {k: np.append(v, np.array([called[k]] * known, v.dtype)) for k, v in COSTS.items()}
    # What the two wakeups take, by their luck.
    busy = {"path": [1, 1], "relation": [1, 1], "in_task": [True] * 2, "target": [0] * 2, "queue_ns": [1_000, 5_000],
            "run_ns": [0] * 2, "leave_ns": [0] * 2}  # fmt: skip
    costs = {k: np.append(np.delete(v, 1), np.array(busy[k], v.dtype)) for k, v in costs.items()}
    world = by_time(w)
    luck = [0.9 if e["task"] == 4 else 0 for kind, e in world.events if kind == "waking"]
    end = t + 100_000
    told = LUCK | {"luck": np.array(luck, np.float32)}
    (result,), _ = simulate(world, (4_000, 4_000, end, end + 1), "prev", costs=costs, told=told, own_luck=True)
    assert result["broken"] == 0
    woken = result["woken"]
    return int(woken["wait_ns"][0][woken["task"] == 3][0])


@pytest.mark.parametrize(("at", "known", "waits"), [(1_000, True, 3_300), (1_000, False, 2_000), (4_500, True, 2_000)])
def test_who_wakes_somebody_finishes_that_before_it_goes(at: int, known: bool, waits: int) -> None:
    """It is told 2 us after that began, which takes 5; or half a microsecond after it was over."""
    assert told_to_go(at, known) == waits


def pair(sleeps: int, own: bool) -> World:
    """Task 2 on CPU 0 wakes 3, which has slept for long on CPU 1 while 4 ran there, and sleeps so long after. `own`: in
    the recording 3 came to its CPU."""
    w = World(2, 5).runs(0, 1, 1, 3).runs(1_000, 1, 3, 4).runs(1_000, 0, 0, 2)
    t = 20_000_000
    w.runs(t - 10_000, 1, 4, 1)
    w.waking(t, 0, 3, 1, 2)
    if own:
        w.migrate(t + 500, 0, 3, 1, 0, curr=2).wakeup(t + 1_000, 0, 3, 0, curr=2).runs(t + 3_000, 0, 2, 3, "R")
        return w.runs(t + 13_000, 0, 3, 2).runs(t + 10_000 + sleeps, 0, 2, 0)
    w.wakeup(t + 1_000, 1, 3, 1, curr=1).runs(t + 3_000, 1, 1, 3).runs(t + 13_000, 1, 3, 1)
    return w.runs(t + sleeps, 0, 2, 0)


def of_pair(sleeps: int, policy: str, own: bool = False, looks: int = 0) -> tuple[int, int, int]:
    """Preemptions, when 3 ran after its wakeup, and the time that 2 had its CPU after that."""
    world = by_time(pair(sleeps, own))
    (result,), _ = simulate(world, (2_000, 2_000, 20_100_000, 20_100_001), policy, told=LUCK, looks_ns=looks)
    assert result["broken"] == 0
    of_2_and_4, of_3 = 2 * (20_000_000 - 2_000) - 10_000, 10_000
    latency = int(result["woken"]["latency_ns"][0][0])
    return result["preemptions"], latency, result["cpu_ns"] - of_2_and_4 - of_3


@pytest.mark.parametrize("looks", [0, 400])
def test_a_waker_that_queues_its_wakee_itself_spends_that_time(looks: int) -> None:
    """Where the recorded one left that to an idle CPU, and the other way round; 1 us, less what telling it takes."""
    more = 1_000 - (looks or 500)
    assert of_pair(30_000, "prev", looks=looks) == (0, 3_000, 30_000)
    assert of_pair(30_000, "waker", looks=looks) == (1, 3_000, 30_000 + more)
    assert of_pair(30_000, "waker", own=True, looks=looks) == (1, 3_000, 30_000)
    assert of_pair(30_000, "prev", own=True, looks=looks) == (0, 3_000, 30_000 - more)


@pytest.mark.parametrize("sleeps", [1_500, 2_500, 4_000])
def test_a_waker_whose_wakee_takes_its_cpu_does_not_sleep_before(sleeps: int) -> None:
    """It leaves when the wakeup is over (3 us), and sleeps once it is back."""
    assert of_pair(sleeps, "waker")[:2] == (1, 3_000)
