# SPDX-License-Identifier: GPL-2.0-or-later
"""The closed loop: scripts cut out of recordings lose nothing, and what is made of them contradicts nothing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tracedat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resimulated import COSTS, interrupts, simulate, survey, whole
from world import World, schedules

from rewake.importing import import_trace
from rewake.replay.settings import Settings
from rewake.replay.simulate import FEWEST_PULLS, Simulator, _pull_rates, arms_of, pinned_arms
from rewake.replay.spec import parse


def ping_pong() -> World:
    """Task 2 on CPU 0 and task 3 on CPU 1 wake each other; each runs 20 us and sleeps."""
    w = World(2, 4)
    w.runs(0, 0, 0, 2)
    w.runs(0, 1, 3, 1)
    for k in range(4):
        t = 20_000 + 100_000 * k
        w.waking(t, 0, 3, 1, 2).wakeup(t + 1000, 1, 3, 1, curr=1).runs(t + 3000, 1, 1, 3)
        w.runs(t + 5000, 0, 2, 0)
        w.waking(t + 23_000, 1, 2, 0, 3).wakeup(t + 24_000, 0, 2, 0).runs(t + 26_000, 0, 0, 2)
        w.runs(t + 28_000, 1, 3, 1)
    return w


def test_script_of_a_ping_pong() -> None:
    _, script = simulate(ping_pong(), (0, 0, 400_000, 440_000), "pinned")
    two = script["tasks"][2]["ops"]
    assert [(work // 1024, kind) for work, kind, _ in two[:4]] == [
        (20_000, "wake"), (5_000, "block"), (74_000, "wake"), (5_000, "block"),
    ]  # fmt: skip
    stims = script["stims"]
    for (_, kind, stim), who in zip(two[:4], (3, 2, 3, 2), strict=True):
        assert stims[stim][:3] == (who, "task", True), kind
    assert script["tasks"][3]["ops"][0] == (0, "block", 0), "the first wakeup ends the sleep that task 3 begins with"


def test_pinned_ping_pong_is_the_recording() -> None:
    (result,), _ = simulate(ping_pong(), (0, 0, 400_000, 440_000), "pinned")
    assert (result["broken"], result["wakeups"], result["wake_moves"], result["early"]) == (0, 8, 0, 0)
    assert result["woken"]["ts_ns"].tolist() == [t + 100_000 * k for k in range(4) for t in (20_000, 43_000)]
    assert set(result["woken"]["latency_ns"][0].tolist()) == {3000}


def crossing(early: int) -> World:
    """Task 2 wakes task 3 every 100 us, `early` ns before 3 leaves its CPU."""
    w = World(2, 4)
    w.runs(0, 0, 0, 2).runs(0, 1, 1, 3)
    for t in range(100_000, 500_000, 100_000):
        w.runs(t, 1, 3, 1)
        w.waking(t - early, 0, 3, 1, 2).wakeup(t + 2000, 1, 3, 1, curr=1).runs(t + 4000, 1, 1, 3)
    w.events.sort(key=lambda event: event[1]["ts_ns"])
    return w


def leaving_costs(queue_ns: int) -> dict[str, Any]:
    """Of wakees that have not quite left their CPU, `queue_ns`; 3 us of that until it has, where they are there."""
    many = 30  # samples that are a group of their own
    more = {"path": [4, 4], "relation": [1, 1], "in_task": [True, True], "target": [0, 1],
            "queue_ns": [queue_ns] * 2, "run_ns": [2000] * 2, "leave_ns": [0, 3000]}  # fmt: skip
    return {name: np.append(COSTS[name], np.tile(more[name], many).astype(COSTS[name].dtype)) for name in COSTS}


@pytest.mark.parametrize("early", [1000, 2500])
def test_who_is_woken_while_it_leaves_its_cpu_waits_from_the_wakeup_on(early: int) -> None:
    (result,), _ = simulate(crossing(early), (0, 0, 450_000, 450_000), "pinned", costs=leaving_costs(4000 + early))
    assert result["woken"]["ts_ns"].tolist() == [t - early for t in range(100_000, 500_000, 100_000)]
    assert set(result["woken"]["latency_ns"][0].tolist()) == {6000 + early}


@pytest.mark.parametrize(("early", "counts_from", "waits"), [(1000, -3000, 12_000), (-1000, 0, 3000)])
def test_a_wakeup_ahead_of_its_sleeper_is_what_it_was_in_the_recording(
    early: int, counts_from: int, waits: int
) -> None:
    """Costs make task 3 so late that from the second time on it is woken long before it sleeps: as early as the like of
    that wakeup were, or as a task that sleeps, on an idle CPU."""
    (result,), _ = simulate(crossing(early), (0, 0, 480_000, 480_000), "pinned", costs=leaving_costs(10_000))
    ran = [100_000 - early + 12_000]
    for _ in range(3):
        ran.append(ran[-1] + 96_000 + counts_from + waits)
    latency = [12_000, waits, waits, waits]
    assert result["woken"]["latency_ns"][0].tolist() == latency
    assert result["woken"]["ts_ns"].tolist() == [t - w for t, w in zip(ran, latency, strict=True)]


def test_a_reader_goes_where_the_wakeup_sends_it_that_ends_its_sleep() -> None:
    """Tasks 5 to 7 wake task 4. Costs make 7 so late that 5 comes first: 4 goes where it went when 5 woke it."""
    w = World(4, 8)
    w.runs(0, 1, 1, 5).runs(0, 2, 2, 6).runs(0, 3, 3, 7).runs(50_000, 3, 7, 3)
    w.waking(100_000, 3, 7, 3, 3, ctx="hardirq").wakeup(101_000, 3, 7, 3).runs(103_000, 3, 3, 7)
    w.waking(110_000, 3, 4, 0, 7).wakeup(111_000, 0, 4, 0).runs(113_000, 0, 0, 4).runs(123_000, 0, 4, 0)
    w.waking(140_000, 1, 4, 0, 5).migrate(140_500, 1, 4, 0, 1, curr=5).wakeup(141_000, 1, 4, 1, curr=5)
    w.runs(143_000, 1, 5, 4, state="R").runs(153_000, 1, 4, 5)
    w.waking(200_000, 2, 4, 1, 6).migrate(200_500, 2, 4, 1, 0, curr=6).wakeup(201_000, 0, 4, 0).runs(203_000, 0, 0, 4)
    w.runs(213_000, 0, 4, 0)
    late = COSTS | {"queue_ns": np.where(COSTS["path"] == 0, 60_000, COSTS["queue_ns"])}
    (result,), _ = simulate(w, (0, 0, 220_000, 250_000), "pinned", costs=late)
    of_4 = result["woken"]["task"] == 4
    assert [result["woken"][k][of_4][0] for k in ("ts_ns", "cpu")] == [140_000, 1]


def test_waker_policy_stacks_the_pair_and_is_counted() -> None:
    (result,), _ = simulate(ping_pong(), (0, 0, 400_000, 440_000), "waker")
    assert result["broken"] == 0
    assert result["wake_moves"] == 1, "task 3 moves to the CPU of task 2 once, and both stay there"
    assert not result["woken"]["idle_target"].any()
    waited = result["woken"]["wait_ns"][0]
    assert waited[0] == 4500, "until task 2 sleeps, 5.5 us after the wakeup that takes 1 us to arrive, half of it for 2"


def test_the_makespan_is_when_the_last_of_those_ends_that_ended_in_the_recording() -> None:
    """Task 3 wakes task 2 after 10 us of its 50, and both run on and end; in the recording on two CPUs."""
    w = World(2, 4).runs(0, 1, 1, 3).waking(10_000, 1, 2, 0, 3).wakeup(11_000, 0, 2, 0).runs(13_000, 0, 0, 2)
    w.runs(50_000, 1, 3, 1, "X").runs(73_000, 0, 2, 0, "X")
    results, _ = simulate(w, (0, 0, 75_000, 200_000), "prev", "waker")
    assert [(r["ends"], r["ended"]) for r in results] == [(2, 2)] * 2
    apart, together = (r["makespan_ns"] for r in results)
    assert apart == 73_000
    assert together == 110_500, "one after the other, beyond the end of the window; and what it takes to queue 2"
    (none,), _ = simulate(w, (0, 0, 40_000, 200_000), "prev")
    assert (none["ends"], none["makespan_ns"]) == (0, None)


def test_a_server_whose_script_is_over_waits_for_requests() -> None:
    """Task 3 answers task 2 once and sleeps; it would answer without end if it began anew by itself."""
    w = World(2, 4).runs(0, 0, 0, 2)
    w.waking(20_000, 0, 3, 1, 2).wakeup(21_000, 1, 3, 1, curr=1).runs(23_000, 1, 1, 3).runs(25_000, 0, 2, 0)
    w.waking(43_000, 1, 2, 0, 3).wakeup(44_000, 0, 2, 0).runs(46_000, 0, 0, 2).runs(48_000, 1, 3, 1)
    w.runs(60_000, 0, 2, 0)
    (result,), _ = simulate(w, (0, 0, 900_000, 900_000), "prev", serves=[False, False, False, True])
    assert (result["cpu_ns"], result["broken"]) == (25_000 + 25_000 + 14_000, 0)


def test_a_timer_is_kept_relative_to_the_sleep() -> None:
    w = World(1, 3).runs(0, 0, 0, 2).runs(10_000, 0, 2, 0)
    w.add("irq", 59_000, 0, curr_task=0, kind=1, vector=236, entry=True)
    w.waking(60_000, 0, 2, 0, 0, ctx="hardirq").wakeup(61_000, 0, 2, 0)
    w.add("irq", 61_500, 0, curr_task=0, kind=1, vector=236, entry=False).runs(63_000, 0, 0, 2)
    _, script = simulate(w, (0, 0, 70_000, 80_000), "pinned")
    assert script["stims"] == [(2, "relative", True, 60_000, 50_000)]


def test_a_timer_interrupt_serves_those_that_may_fire() -> None:
    """Two tasks asleep on one CPU; the second one's timer has to fire 30 us after the first one's, and may before."""
    w = World(1, 4).runs(0, 0, 0, 2).runs(10_000, 0, 2, 3).runs(20_000, 0, 3, 0)
    for ts, task in ((60_000, 2), (90_000, 3)):
        w.add("irq", ts - 1000, 0, curr_task=0, kind=1, vector=236, entry=True)
        w.waking(ts, 0, task, 0, 0, ctx="hardirq").wakeup(ts + 1000, 0, task, 0)
        w.add("irq", ts + 1500, 0, curr_task=0, kind=1, vector=236, entry=False)
        w.runs(ts + 3000, 0, 0, task).runs(ts + 9000, 0, task, 0)
    (result,), script = simulate(w, (0, 0, 110_000, 120_000), "prev")
    assert [stim[4] for stim in script["stims"]] == [50_000, 70_000]
    assert result["woken"]["ts_ns"].tolist() == [60_000, 60_000]
    (absolute,), _ = simulate(w, (0, 0, 110_000, 120_000), "prev", absolute_timers=True)
    assert absolute["woken"]["ts_ns"].tolist() == [60_000, 90_000]


def test_a_timer_of_real_time_serves_others_that_may_fire() -> None:
    """Task 3 sleeps for 80 us, or for 40 where the timer of task 4 fires on its CPU by then."""
    w = World(1, 5).runs(0, 0, 0, 3)
    irq: dict[str, Any] = {"curr_task": 0, "kind": 1, "vector": 236}
    for t, real_time, sleeps in ((0, False, 80_000), (200_000, False, 80_000), (400_000, True, 40_000)):
        w.runs(t + 10_000, 0, 3, 0)
        fires = t + 10_000 + sleeps
        w.add("irq", fires - 1000, 0, entry=True, **irq)
        if real_time:
            w.waking(fires - 500, 0, 4, 0, 0, ctx="hardirq", prio=50).wakeup(fires - 400, 0, 4, 0, prio=50)
        w.waking(fires, 0, 3, 0, 0, ctx="hardirq").wakeup(fires + 500, 0, 3, 0)
        w.add("irq", fires + 1000, 0, entry=False, **irq)
        first = 4 if real_time else 3
        w.add(
            "switch", fires + 3000, 0, prev_task=0, next_task=first, prev_state="R", next_prio=50 if real_time else 120
        )
        if real_time:
            w.add("switch", fires + 9000, 0, prev_task=4, next_task=3, prev_state="S", prev_prio=50)
    w.runs(590_000, 0, 3, 0)
    (result,), script = simulate(w, (0, 0, 600_000, 700_000), "prev")
    assert [stim[4] for stim in script["stims"]] == [80_000] * 3, "as long as the timers that fired alone"
    assert result["woken"]["ts_ns"].tolist() == [90_000, 290_000, 450_000], "40 us before it has to"


def handled_pong() -> tuple[World, list[tuple[int, int, int]]]:
    """Task 2 on CPU 0 and task 3 on CPU 1 wake each other; a handler of 80 us has CPU 1 when task 3 runs there."""
    w = World(2, 4)
    w.runs(0, 0, 0, 2).runs(0, 1, 3, 1)
    for t in (20_000, 220_000):
        w.waking(t, 0, 3, 1, 2).wakeup(t + 1000, 1, 3, 1, curr=1).runs(t + 3000, 1, 1, 3)
        w.runs(t + 5000, 0, 2, 0)
        w.waking(t + 103_000, 1, 2, 0, 3).wakeup(t + 104_000, 0, 2, 0).runs(t + 106_000, 0, 0, 2)
        w.runs(t + 108_000, 1, 3, 1)
    return w, [(1, 40_000, 120_000), (1, 240_000, 320_000)]


def test_an_interrupt_is_no_work_of_the_task_that_it_hits() -> None:
    world, handlers = handled_pong()
    (result,), script = simulate(world, (0, 0, 400_000, 440_000), "pinned", handlers=handlers)
    assert script["interrupts"] == handlers
    three = script["tasks"][3]["ops"]
    assert [(work // 1024, kind) for work, kind, _ in three[:3]] == [
        (0, "block"), (20_000, "wake"), (5_000, "block"),
    ]  # fmt: skip
    assert result["broken"] == 0
    assert result["woken"]["ts_ns"].tolist() == [20_000, 123_000, 220_000, 323_000], "it stands still as recorded"


def test_elsewhere_a_task_is_not_interrupted() -> None:
    world, handlers = handled_pong()
    (result,), _ = simulate(world, (0, 0, 400_000, 440_000), "waker", handlers=handlers)
    assert result["broken"] == 0
    first, second = result["woken"]["ts_ns"].tolist()[:2]
    assert (first, second) == (20_000, 20_000 + 5_500 + 20_000), "after task 2 left the CPU, its work of 20 us"


def test_who_is_woken_onto_a_cpu_in_a_handler_waits_for_its_end() -> None:
    world = ping_pong()
    (result,), _ = simulate(world, (0, 0, 400_000, 440_000), "prev", handlers=[(1, 19_000, 42_000)])
    assert result["broken"] == 0
    assert result["woken"]["latency_ns"][0].tolist()[0] == 42_000 + 2000 - 20_000
    assert set(result["woken"]["latency_ns"][0].tolist()[1:]) == {3000}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 9)), max_size=20),
       st.lists(st.tuples(st.integers(0, 4), st.integers(0, 60), st.integers(0, 60)), max_size=9))  # fmt: skip
def test_time_of_handlers(gaps: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    """Against counting every nanosecond."""
    handlers, free, busy = [], dict.fromkeys(range(5), 0), set()
    for cpu, gap, length in gaps:
        begin = free[cpu] + gap
        free[cpu] = begin + length
        handlers.append((cpu, begin, free[cpu]))
        busy |= {(cpu, ns) for ns in range(begin, free[cpu])}
    handlers.sort(key=lambda h: h[1:])
    columns = np.array(asked, np.int64).reshape(-1, 3).T
    spans = {"cpu": columns[0].astype(np.uint16), "from_ns": columns[1].copy(), "to_ns": columns[2].copy()}
    expected = [sum((cpu, ns) in busy for ns in range(begin, end)) for cpu, begin, end in asked]
    assert np.asarray(interrupts(handlers).within(spans)).tolist() == expected


def test_handlers_that_cannot_be_are_refused() -> None:
    for wrong in ([(0, 5, 4)], [(9, 1, 2)], [(0, 1, 5), (0, 4, 6)]):
        with pytest.raises(ValueError, match="interrupt"):
            interrupts(wrong)


def test_a_hint_keeps_a_task_in_its_llc_while_that_has_no_more_tasks_than_cpus() -> None:
    """Two tasks on CPU 0 of the LLC of CPUs 0 to 3, and two on others of it, or three; CPU 4 of the other LLC goes
    idle, and may pull one."""

    def crowded(others: int) -> World:
        w = World(8, 14, llcs=2).runs(0, 0, 0, 8).runs(0, 4, 4, 10)
        for cpu in range(1, 1 + others):
            w.runs(0, cpu, cpu, 10 + cpu)
        w.runs(3_001_000, 0, 8, 9, "R").runs(3_700_000, 4, 10, 4).runs(3_900_000, 0, 9, 8).runs(3_950_000, 0, 8, 0)
        for cpu in range(1, 1 + others):
            w.runs(3_999_000, cpu, 10 + cpu, cpu)
        return w

    for world, expected in ((crowded(2), [True, False, True]), (crowded(3), [True, True, True])):
        hints = [("userspace-hints", {"hint": str(hint)}) for hint in (0, 8, 2)]
        results, _ = simulate(world, (3_002_000, 3_002_000, 3_990_000, 4_000_000), *hints, balance="recorded-rate")
        assert [r["newidle_moves"] > 0 for r in results] == expected


def going_idle(wakes: bool = False, masks: Sequence[str] = ()) -> World:
    """8 CPUs in 2 LLCs of 2 cores each: CPU 0 goes idle while 2 tasks are on its sibling (2), 5 on another core of its
    LLC (1) and 13 on a CPU of the other LLC (4). `wakes`: and one from there is just about to wake a task on it."""
    w = World(8, 30, llcs=2, smt=2, masks=masks).runs(0, 0, 0, 8)
    task = 9
    for cpu, tasks in ((1, 5), (2, 2), (4, 13)):
        w.runs(0, cpu, cpu, task)
        for k in range(1, tasks):
            w.runs(1_000 * k, cpu, task, task + 1, "R")
            task += 1
        task += 1
    if wakes:
        w.waking(699_000, 4, 29, 0, 28)
    w.runs(700_000, 0, 8, 0)
    return w.wakeup(701_000, 0, 29, 0).runs(702_000, 0, 0, 29) if wakes else w


def rates(*of_levels: float) -> list[list[float]]:
    return [[rate] * 20 for rate in (*of_levels, 0.0)]


@pytest.mark.parametrize(
    ("looks", "moves", "far"),
    [((0, 0, 0), False, False), ((1, 0, 0), True, False), ((0, 1, 0), True, False), ((0, 0, 1), True, True)],
)
def test_a_cpu_that_goes_idle_pulls_from_the_levels_that_it_looks_on(
    looks: tuple[float, ...], moves: bool, far: bool
) -> None:
    more = {"balance": "recorded-rate", "pulls": rates(*looks)}
    (result,), _ = simulate(going_idle(), (10_000, 10_000, 900_000, 900_000), "prev", **more)
    assert (result["newidle_moves"] > 0, result["cross_llc"] > 0, result["broken"]) == (moves, far, 0)


def test_chances_to_pull_are_counted_by_level() -> None:
    """Not where a wakeup is on its way."""
    for world, left in ((going_idle(), [1, 1, 1, 0]), (going_idle(wakes=True), [0, 0, 0, 0])):
        assert [sum(of_level) for of_level in survey(world)["chances"]] == left


@pytest.mark.parametrize(("from_ns", "left"), [(500_000, [0, 0, 0, 0]), (800_000, [1, 1, 1, 0])])
def test_who_may_not_run_there_is_no_chance_to_pull(from_ns: int, left: list[int]) -> None:
    """From then on nobody may use CPU 0; it goes idle at 700 us."""
    changes = [(from_ns, task, 1) for task in range(9, 30)]
    found = survey(going_idle(masks=["1,2,3,4,5,6,7"]), mask_changes=changes)
    assert [sum(of_level) for of_level in found["chances"]] == left


def test_a_cpu_to_which_a_wakeup_is_on_its_way_pulls_nobody() -> None:
    more = {"balance": "recorded-rate", "pulls": rates(1, 1, 1)}
    for wakes in (False, True):
        (result,), _ = simulate(going_idle(wakes), (699_900, 699_900, 700_100, 900_000), "prev", **more)
        assert (result["newidle_moves"] > 0, result["broken"]) == (not wakes, 0)


def test_a_cpu_whose_task_is_woken_before_it_has_left_pulls_nobody() -> None:
    """By a CPU that waits for that: it uses no wake list."""
    more = {"balance": "recorded-rate", "pulls": rates(1, 1, 1), "pull_ns": 6000, "pulled_ns": 3000,
            "queues_wakeups": False}  # fmt: skip
    for woken in (False, True):
        w = going_idle()
        if woken:
            w.waking(699_500, 4, 8, 0, 28).wakeup(702_000, 0, 8, 0).runs(703_000, 0, 0, 8).runs(900_000, 0, 8, 0)
            w.events.sort(key=lambda event: event[1]["ts_ns"])
        (result,), _ = simulate(w, (690_000, 690_000, 750_000, 950_000), "prev", **more)
        assert (result["newidle_moves"] > 0, result["broken"]) == (not woken, 0)


@pytest.mark.parametrize(("gap", "second_ns"), [(2_500, 2_500), (5_000, 5_000 + 10_000)])
def test_a_task_that_wakes_several_at_a_time_is_not_preempted_between_them(gap: int, second_ns: int) -> None:
    """Task 2 wakes 3 and 4, which take the CPU from it 3 us after a wakeup at the least and run 10 us."""
    w = World(1, 5)
    for task in (3, 4):  # both have run, and slept for long
        w.runs(0, 0, 0 if task == 3 else 3, task)
    w.runs(1_000, 0, 4, 2)
    t = 20_000_000
    w.waking(t, 0, 3, 0, 2).wakeup(t + 1000, 0, 3, 0, curr=2)
    w.waking(t + gap, 0, 4, 0, 2).wakeup(t + gap + 1000, 0, 4, 0, curr=2)
    w.runs(t + gap + 3000, 0, 2, 3, "R").runs(t + gap + 13_000, 0, 3, 4).runs(t + gap + 23_000, 0, 4, 2)
    w.runs(t + 90_000, 0, 2, 0)
    (result,), _ = simulate(w, (2_000, 2_000, t + 50_000, t + 100_000), "prev")
    assert (result["broken"], result["preemptions"]) == (0, 1 if gap < 3_000 else 2)
    assert (result["woken"]["ts_ns"] - t).tolist() == [0, second_ns]


def test_an_idle_cpu_takes_half_of_what_the_busiest_has() -> None:
    """Six tasks on CPU 0, which none wakes, and CPU 1 idle. A recorded pull of one tells that it looked at the second
    tick: the balancer moves three."""
    w = World(2, 8).runs(0, 0, 0, 2)
    for task in range(3, 8):
        w.runs(1_000 * (task - 2), 0, task - 1, task, "R")
    w.migrate(8_020_000, 1, 2, 0, 1, curr=1, ctx="softirq").runs(8_025_000, 1, 1, 2)
    w.runs(30_000_000, 0, 7, 0)
    (result,), _ = simulate(w, (10_000, 10_000, 10_000_000, 30_000_000), "prev", balance="model")
    assert (result["periodic_moves"], result["broken"]) == (3, 0)


def test_what_a_device_was_asked_is_kept_relative_to_the_sleep() -> None:
    w = World(2, 4).runs(0, 0, 0, 2).runs(10_000, 0, 2, 0)
    w.waking(30_000, 1, 2, 0, 1, ctx="softirq").wakeup(31_000, 0, 2, 0).runs(33_000, 0, 0, 2).runs(40_000, 0, 2, 0)
    w.waking(55_000, 1, 2, 0, 1, ctx="softirq").wakeup(56_000, 0, 2, 0).runs(58_000, 0, 0, 2).runs(70_000, 0, 2, 0)
    window = (0, 0, 80_000, 90_000)
    _, asked = simulate(w, window, "prev", asks=[False, False, True, False])
    assert asked["stims"] == [(2, "relative", True, 30_000, 20_000), (2, "relative", True, 55_000, 15_000)]
    _, other = simulate(w, window, "prev")
    assert [stim[1] for stim in other["stims"]] == ["absolute"] * 2


@pytest.mark.parametrize(("interrupted", "source"), [(5_000, "task"), (25_000, "absolute")])
def test_a_softirq_long_after_an_interrupt_is_run_by_the_sender(interrupted: int, source: str) -> None:
    w = World(2, 4).runs(0, 0, 0, 2).runs(0, 1, 3, 1)
    for ts, entry in ((interrupted - 1000, True), (interrupted, False)):
        w.add("irq", ts, 0, curr_task=2, kind=0, vector=40, entry=entry)
    w.waking(30_000, 0, 3, 1, 2, ctx="softirq").wakeup(31_000, 1, 3, 1).runs(33_000, 1, 1, 3).runs(40_000, 0, 2, 0)
    _, script = simulate(w, (0, 0, 50_000, 60_000), "prev")
    assert [stim[1] for stim in script["stims"]] == [source]


def test_a_cpu_for_which_real_time_was_woken_is_not_idle() -> None:
    """Task 3 is woken on CPU 1 at 20 us and runs from 40 us on; in between, task 2 looks for an idle CPU."""
    w = World(2, 4).runs(0, 1, 1, 2).runs(10_000, 1, 2, 1)
    w.waking(20_000, 1, 3, 1, 1, ctx="hardirq", prio=50).wakeup(21_000, 1, 3, 1, prio=50)
    w.waking(30_000, 1, 2, 1, 1, ctx="hardirq").wakeup(31_000, 1, 2, 1)
    w.add("switch", 40_000, 1, prev_task=1, next_task=3, prev_state="R", next_prio=50)
    w.add("switch", 50_000, 1, prev_task=3, next_task=2, prev_state="S", prev_prio=50)
    w.runs(60_000, 1, 2, 1)
    (result,), _ = simulate(w, (0, 0, 70_000, 80_000), "prev")
    assert result["woken"]["idle_target"].tolist() == [False]
    assert result["broken"] == 0


def test_real_time_is_reserved_and_not_re_run() -> None:
    w = World(1, 4).runs(0, 0, 0, 2)
    w.add("switch", 30_000, 0, prev_task=2, next_task=3, prev_state="R", next_prio=50)
    w.add("switch", 50_000, 0, prev_task=3, next_task=2, prev_state="S", prev_prio=50)
    w.runs(90_000, 0, 2, 0)
    (result,), script = simulate(w, (0, 0, 95_000, 100_000), "pinned")
    assert script["reservations"] == [(0, 3, 30_000, 50_000)]
    assert list(script["tasks"]) == [2]
    assert result["cpu_ns"] == 70_000 and result["broken"] == 0


def reading(extra: Sequence[int], every: int = 100_000, beside: bool = False, more: int = 0) -> World:
    """Tasks 5 to 7 run on CPUs of their own and wake task 4 in turn: it reads one message in 10 us, `extra` ones in 5
    us each, and sleeps. `beside`: task 8 reads a single one in 20 us, and sleeps. `more` tasks."""
    w = World(4, 9 + more)
    for cpu, task in enumerate((5, 6, 7), start=1):
        w.runs(0, cpu, cpu, task)
    for k, further in enumerate(extra):
        t, sender = every * (k + 1), k % 3
        w.waking(t, sender + 1, 4, 0, sender + 5).wakeup(t + 1000, 0, 4, 0, curr=0)
        w.runs(t + 3000, 0, 0, 4).runs(t + 13_000 + 5000 * further, 0, 4, 0)
        if beside:
            w.waking(t + 50_000, sender + 1, 8, 0, sender + 5).wakeup(t + 51_000, 0, 8, 0, curr=0)
            w.runs(t + 53_000, 0, 0, 8).runs(t + 73_000, 0, 8, 0)
    for cpu, task in enumerate((5, 6, 7), start=1):
        w.runs(every * (len(extra) + 1), cpu, task, cpu)
    return w


PACES = [(-1, 0)] * 4 + [(10_000 * 1024, 5_000 * 1024)] + [(-1, 0)] * 4


def test_a_reader_is_found_by_who_wakes_it_and_how_little_it_works() -> None:
    assert survey(reading([0, 1, 2] * 10))["readers"] == [*PACES[:5], *[(-1, 0)] * 4]


def stream(grows: bool, softirq: bool = False, interrupts: bool = False, n: int = 30, repeats: bool = False) -> World:
    """Task 3 on CPU 1 wakes task 4 on CPU 0 every 200 us: it runs 10 us; every third time it waits for 100 us before,
    and then has 30 us to run, if it `grows`. No two waits are alike, unless all `repeats`."""
    w = World(2, 6).runs(0, 1, 1, 3)
    if interrupts:
        w.add("irq", 1000, 1, curr_task=3, kind=0, vector=40, entry=False)
    for k in range(1, n + 1):
        t, waits = 200_000 * k, k % 3 == 0
        if waits:
            w.runs(t - 5_000, 0, 0, 5)
        w.waking(t, 1, 4, 0, 3, ctx="softirq" if softirq else "task").wakeup(t + 1000, 0, 4, 0, curr=5 if waits else 0)
        began = t + (100_000 if waits else 3000) + (0 if repeats else k)
        w.runs(began, 0, 5 if waits else 0, 4, "S").runs(began + (30_000 if waits and grows else 10_000), 0, 4, 0)
    return w.runs(200_000 * (n + 1), 1, 3, 1)


@pytest.mark.parametrize(("grows", "found"), [(False, (-1, 0)), (True, (10_000 * 1024, 10_000 * 1024))])
def test_a_reader_of_one_sender_is_found_by_what_long_waits_leave_it_to_do(grows: bool, found: tuple[int, int]) -> None:
    assert survey(stream(grows))["readers"][4] == found


def test_what_repeats_to_the_nanosecond_is_one_case() -> None:
    """So many would be no chance if they were independent."""
    assert survey(stream(True, repeats=True, n=300))["readers"][4] == (-1, 0)


def test_what_may_be_chance_makes_no_reader() -> None:
    """Six of ten long waits leave more to do, and eight of twenty short ones: half as much again in the middle."""
    w = World(2, 6).runs(0, 1, 1, 3)
    for k in range(1, 31):
        t, waits = 200_000 * k, k % 3 == 0
        more = 16_000 if (k % 10 in (0, 1, 3, 5, 7, 9) if waits else k % 10 in (1, 2, 4, 8)) else 10_000
        if waits:
            w.runs(t - 5_000, 0, 0, 5)
        w.waking(t, 1, 4, 0, 3).wakeup(t + 1000, 0, 4, 0, curr=5 if waits else 0)
        began = t + (100_000 if waits else 3000) + k
        w.runs(began, 0, 5 if waits else 0, 4, "S").runs(began + more, 0, 4, 0)
    assert survey(w.runs(6_200_000, 1, 3, 1))["readers"][4] == (-1, 0)


def test_packets_to_a_task_of_the_same_machine_are_its_senders() -> None:
    """They are handed over in a softirq, long after the last interrupt there."""
    assert survey(stream(True, softirq=True))["readers"][4] == (-1, 0), "no interrupts recorded"
    assert survey(stream(True, softirq=True, interrupts=True))["readers"][4] == (10_000 * 1024, 10_000 * 1024)


def test_a_reader_that_never_reads_a_second_one_would_take_for_it_what_others_take() -> None:
    """Half of the first one's work."""
    found = survey(reading([0, 1, 2] * 10, beside=True))["readers"]
    assert (found[4], found[8]) == ((10_000 * 1024, 5_000 * 1024), (20_000 * 1024, 10_000 * 1024))


@pytest.mark.parametrize("extra", [[12] * 9, [6] * 6, [2] * 30, [150, 0, 0]])
def test_messages_that_the_recording_does_not_show_are_sent_in_turn(extra: list[int]) -> None:
    every = 100_000 + 5000 * max(extra)
    end = every * (len(extra) + 1)
    _, script = simulate(reading(extra, every), (0, 0, end, end), "prev", reads=PACES)
    sent = [sum(kind == "wake" for _, kind, _ in script["tasks"][task]["ops"]) for task in (5, 6, 7)]
    assert sum(sent) == len(extra) + sum(extra)
    assert max(sent) - min(sent) <= 1


def test_messages_are_sent_by_who_ran_next_where_nobody_ran_when_they_were_sent() -> None:
    """Tasks of a higher class have the senders' CPUs but for 3 us around each wakeup."""
    extra = [4, 0, 9, 2, 5, 1]
    w = reading(extra, more=3)
    for t in range(100_000, 100_000 * (len(extra) + 1), 100_000):
        for cpu, (task, rt) in enumerate(((5, 9), (6, 10), (7, 11)), start=1):
            w.add("switch", t + 2000, cpu, prev_task=task, next_task=rt, prev_state="R", next_prio=50)
            w.add("switch", t + 99_000, cpu, prev_task=rt, next_task=task, prev_state="S", prev_prio=50)
    end = 100_000 * (len(extra) + 1)
    _, script = simulate(w, (0, 0, end, end), "prev", reads=PACES + [(-1, 0)] * 3)
    assert sum(kind == "read" for _, kind, _ in script["tasks"][4]["ops"]) == sum(extra)
    sent = [stim for task in (5, 6, 7) for _, kind, stim in script["tasks"][task]["ops"] if kind == "wake"]
    assert len(sent) == len(extra) + sum(extra)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 12), min_size=4, max_size=20))
def test_messages_change_nothing_while_all_goes_as_recorded(extra: list[int]) -> None:
    w = reading(extra)
    end = 100_000 * (len(extra) + 1)
    (plain,), _ = simulate(w, (0, 0, end, end), "prev")
    (result,), script = simulate(w, (0, 0, end, end), "prev", reads=PACES)
    assert sum(kind == "read" for _, kind, _ in script["tasks"][4]["ops"]) == sum(extra)
    sent = [stim for task in (5, 6, 7) for _, kind, stim in script["tasks"][task]["ops"] if kind == "wake"]
    assert len(sent) == sum(extra) + len(extra)
    for name, column in result.pop("woken").items():
        np.testing.assert_array_equal(column, plain["woken"][name])
    plain.pop("woken")
    assert {k: v for k, v in result.items() if k != "events"} == {k: v for k, v in plain.items() if k != "events"}
    (beside,), _ = simulate(w, (0, 0, end, end), "waker", reads=PACES)
    assert beside["broken"] == 0 and beside["wakeups"] <= plain["wakeups"], "none is added where none was lost"


@pytest.mark.parametrize("extra", [[6, 0, 0] * 3, [12] * 9, [3, 0, 1, 0] * 4])
def test_who_reads_ahead_of_late_senders_is_woken_as_often(extra: list[int]) -> None:
    """Searches that take 24 us make every sender later than it was; nobody was found awake, so that none is added."""
    end = 100_000 * (len(extra) + 1)
    late: dict[str, Any] = {"scan_ns": 24_000}
    (plain,), _ = simulate(reading(extra), (0, 0, end, end), "oracle-idle", **late)
    (result,), _ = simulate(reading(extra), (0, 0, end, end), "oracle-idle", reads=PACES, **late)
    assert (result["wakeups"], result["broken"]) == (plain["wakeups"], 0)


def test_a_message_after_a_readers_last_look_finds_it_leaving() -> None:
    """A handler has the reader's CPU as the fourth wakeup comes, which finds it awake, so that it owes a sleep. A
    message that the recording does not show comes 796 ns before its last work is done: it sleeps and is woken, and
    takes so much longer to run, as its CPU was still leaving it."""
    extra, every = [8, 1, 2, 2, 4, 3, 2, 7], 60_000
    end = every * (len(extra) + 1)
    handlers = [(0, 146_000, 258_500)]
    (result,), _ = simulate(reading(extra, every), (0, 0, end, end), "prev", reads=PACES, handlers=handlers)
    woken = result["woken"]
    _, unseen = woken["decision_id"]
    assert (result["wakeups"], unseen.tolist().count(True)) == (len(extra), 1)
    (at,) = np.flatnonzero(unseen)
    assert (woken["latency_ns"][0][at], woken["latency_ns"][0][at - 1]) == (3000 + 796, 3000)
    assert woken["idle_target"].tolist() == [k != at for k in range(len(extra))], "it ran there itself"


@pytest.mark.parametrize(("search_ns", "takes"), [([0.0, 100.0], 100), ([100.0, 0.0], 0)])
def test_a_search_takes_time_by_the_cpus_that_it_examines(search_ns: list[float], takes: int) -> None:
    """Tasks wake here; what searches from interrupts take is none of it."""

    def first(**more: Any) -> int:
        (result,), _ = simulate(ping_pong(), (0, 0, 400_000, 440_000), "oracle-idle", **more)
        return int(result["woken"]["latency_ns"][0][0])

    examined, rest = divmod(first(search_ns=search_ns) - first(), 100)
    assert rest == 0 and (examined > 0) == (takes > 0)


def on_cpu(world: World) -> dict[int, int]:
    """CPU time of each task by the switches, ns."""
    spent: dict[int, int] = {}
    batches = world.batches()
    switch = batches[0]["switch"]
    last: dict[int, int] = {}
    columns = (switch[name].tolist() for name in ("ts_ns", "cpu", "prev_task", "next_task"))
    for ts, cpu, prev, _ in zip(*columns, strict=True):
        if cpu in last:
            spent[prev] = spent.get(prev, 0) + ts - last[cpu]
        last[cpu] = ts
    return spent


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(schedules())
def test_whatever_was_recorded_scripts_keep_the_work_and_nothing_breaks(world: World) -> None:
    window = whole(world)
    if window is None:
        return
    pulls = {"balance": "recorded-rate", "pull_ns": 6000, "pulled_ns": 3000, "unseen_ns": 2000, "hole_ns": 1000,
             "looks_ns": 2000}  # fmt: skip
    pulled, _ = simulate(world, window, "prev", "linux-6.1", **pulls)
    assert sum(r["broken"] for r in pulled) == 0
    results, script = simulate(world, window, "pinned", "prev", "linux-6.1")
    assert sum(r["broken"] for r in results) == 0
    again, _ = simulate(world, window, "pinned", "prev", "linux-6.1", threads=3)
    for one, other in itertools.zip_longest(results, again):
        for name, column in one.pop("woken").items():
            np.testing.assert_array_equal(column, other["woken"][name])
        other.pop("woken")
        assert one == other
    spent = on_cpu(world)
    for task, about in script["tasks"].items():
        ran = sum(work for work, _, _ in about["ops"]) // 1024
        assert ran >= spent.get(task, 0) or task not in spent


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 90)), max_size=8))
def test_work_that_is_added_is_accounted_for(world: World, about: list[tuple[int, int, int]]) -> None:
    """Moves and searches that cost, slower siblings, tasks that answer whoever waits, interrupts."""
    window = whole(world)
    if window is None:
        return
    last = window[2]
    handlers, free = [], dict.fromkeys(range(4), 0)
    for cpu, gap, length in about:
        cpu %= world.n_cpus
        begin = free[cpu] + last * gap // 20
        free[cpu] = begin + last * length // 500
        handlers.append((cpu, begin, free[cpu]))
    handlers.sort(key=lambda h: h[1:])
    results, _ = simulate(
        world, window, "prev", "irq-aware", "oracle-idle", handlers=handlers, move_factor=3.0,
        scan_ns=50, smt=0.7, serves=[True] * world.n_tasks, asks=[True] * world.n_tasks,
    )  # fmt: skip
    assert sum(r["broken"] for r in results) == 0
    results, _ = simulate(
        world, window, "prev", "linux-6.1", "waker", handlers=handlers, move_factor=3.0, pull_ns=6000,
        balance="recorded-rate", reads=[(1024 * (1 + last // 400), 512 * (1 + last // 400))] * world.n_tasks,
    )  # fmt: skip
    assert sum(r["broken"] for r in results) == 0


def test_pull_rates_are_those_of_the_class_or_of_its_level_or_of_all() -> None:
    few, many = FEWEST_PULLS // 2, 99 * FEWEST_PULLS
    found = _pull_rates([[0, many, 0, 0], [0, 0, 0, 0]], [[many, many, 0, few], [0, 0, 0, 0]])
    anywhere = many / (2 * many + few)
    step = (many + FEWEST_PULLS * anywhere) / (many + few + FEWEST_PULLS)
    np.testing.assert_allclose(found, [[anywhere / 100, *[step] * 3], [anywhere] * 4], rtol=0.01)
    assert found[0][2] == found[0][3], "whoever is idle for longer pulls as often"
    assert _pull_rates([[0], [1]], [[19 * FEWEST_PULLS], [1]])[1][0] < 0.1, "one pull of one chance tells little"
    assert _pull_rates([[0], [0]], [[0], [0]]) == [[1.0], [1.0]]
    assert _pull_rates([[9]], [[3]]) == [[1.0]], "some were pulled where no chance was seen"


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="smt must lie"):
        simulate(ping_pong(), (0, 0, 10, 20), "prev", smt=0.0)
    with pytest.raises(ValueError, match="balance wrong"):
        simulate(ping_pong(), (0, 0, 10, 20), "prev", balance="wrong")
    with pytest.raises(ValueError, match="ends before it begins"):
        simulate(ping_pong(), (0, 30, 10, 20), "prev")


def test_tasks_of_which_no_later_event_tells_are_forgotten_without_a_trace(tmp_path: Path) -> None:
    """A recording that forks all the time, with and without their pages being let go of (model/paged.hpp)."""
    trace = tmp_path / "trace.dat"
    columns = tracedat.schedule(150_000, 8, extras=True, causal=True)
    tracedat.write(trace, columns, version=7, machine=tracedat.Machine(8))
    recording = import_trace(trace, "pack:1 l3:2 core:2 pu:2", tmp_path / "of.rewake")
    simulator = Simulator(recording, Settings(windows_ns=10_000_000), parse("linux-6.1")[0])
    page = 32
    ends = np.append(simulator.last_seen, np.full(-len(simulator.last_seen) % page, -1)).reshape(-1, page).max(axis=1)
    assert (ends < simulator.last_seen.max() / 2).sum() >= 2, "whole pages of tasks that ended early"

    def outcome() -> list[dict[str, Any]]:
        plans = [(pinned_arms(simulator), simulator.anchored()),
                 (arms_of(simulator, parse("wakeup-buddy")), simulator.windows)]  # fmt: skip
        return [result for arms, windows in plans for result in simulator.run(arms, windows)]

    forgetful = outcome()
    simulator.last_seen = np.full_like(simulator.last_seen, np.iinfo(np.int64).max)
    for one, other in zip(forgetful, outcome(), strict=True):
        np.testing.assert_equal(one, other)


def test_pinned_arms_are_replicated_and_keep_the_ranks_of_the_recorded_costs(tmp_path: Path) -> None:
    trace = tmp_path / "trace.dat"
    tracedat.write(trace, tracedat.schedule(5_000, 4, extras=True), version=7, machine=tracedat.Machine(4))
    recording = import_trace(trace, "pack:1 l3:1 core:4 pu:1", tmp_path / "of.rewake")
    arms = pinned_arms(Simulator(recording, Settings(replicas=2, seed=7), parse("linux-6.1")[0]))
    found = [(a.kind, a.replica, *(a.settings.get(k) for k in ("seed", "own_luck", "fifo"))) for a in arms]
    assert found == [("pinned", 0, 7, True, None), ("pinned", 1, 8, True, None),
                     ("null", 0, 7, True, True), ("null", 1, 8, True, True)]  # fmt: skip
