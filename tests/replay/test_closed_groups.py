# SPDX-License-Identifier: GPL-2.0-or-later
"""The closed loop with cpu.max: who is throttled, for how long, and that nobody else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resimulated import simulate, whole
from world import World, schedules

MS = 1_000_000
Group = tuple[int, int, int, int]
"""parent, weight, quota, period (ns)"""


def busy(groups: list[Group], of: dict[int, int], until: int) -> World:
    """Task 2 runs on CPU 0 all the time, as recorded."""
    w = World(2, 2 + len(of))
    w.groups = [(0, 100, 0, 0), *groups]
    w.tasks["group"] = np.array([of.get(t, 0) for t in range(w.n_tasks)], np.uint16)
    w.runs(0, 0, 0, 2)
    for ts in range(MS, until, MS):  # something happens, so that the drift meter has what was recorded
        w.add("idle", ts, 1, state=0, curr_task=1)
    return w


def window(w: World, to: int, **more: Any) -> dict[str, Any]:
    (result,), _ = simulate(w, (0, 0, to, to), "prev", **more)
    assert result["broken"] == 0
    return result


@pytest.mark.parametrize("kernel", [(6, 1), (6, 12)])
def test_a_quota_of_three_fifths_is_three_fifths(kernel: tuple[int, int]) -> None:
    w = busy([(0, 100, 60 * MS, 100 * MS)], {2: 1}, 1000 * MS)
    found = window(w, 1000 * MS, kernel=kernel)
    assert found["cpu_ns"] == pytest.approx(600 * MS, rel=0.02)
    assert found["cpu_ns"] + found["throttled_ns"] == pytest.approx(1000 * MS, rel=0.01)


def test_a_child_of_a_throttled_parent_waits_with_it() -> None:
    parent, child = (0, 100, 60 * MS, 100 * MS), (1, 100, 0, 0)
    found = window(busy([parent, child], {2: 2}, 1000 * MS), 1000 * MS)
    assert found["cpu_ns"] == pytest.approx(600 * MS, rel=0.05)


def test_of_nested_quotas_the_smaller_holds() -> None:
    for quotas in ((80 * MS, 60 * MS), (60 * MS, 80 * MS)):
        groups = [(0, 100, quotas[0], 100 * MS), (1, 100, quotas[1], 100 * MS)]
        found = window(busy(groups, {2: 2}, 1000 * MS), 1000 * MS)
        assert found["cpu_ns"] == pytest.approx(600 * MS, rel=0.05), quotas


def test_a_wakeup_into_a_throttled_group_waits_for_the_next_period() -> None:
    """Task 3 of the same group wakes on the other CPU at 80 ms, when all of the quota is gone."""
    w = busy([(0, 100, 60 * MS, 100 * MS)], {2: 1, 3: 1}, 80 * MS)
    w.waking(80 * MS, 1, 3, 1, 1, ctx="hardirq").wakeup(80 * MS + 1000, 1, 3, 1, curr=1)
    w.runs(80 * MS + 3000, 1, 1, 3).runs(80 * MS + 9000, 1, 3, 1)
    for ts in range(81 * MS, 200 * MS, MS):
        w.add("idle", ts, 1, state=0, curr_task=1)
    found = window(w, 190 * MS)
    (latency,) = found["woken"]["latency_ns"][0].tolist()
    assert 20 * MS <= latency < 20.1 * MS


@pytest.mark.parametrize(("first", "throttled"), [(40, True), (25, False)])
def test_who_waits_for_a_period_when_the_recording_begins_is_throttled(first: int, throttled: bool) -> None:
    """Task 2 waits on CPU 0 from the start on, beside task 3 of no group; periods begin at 40 ms, and every 100 ms."""
    w = World(2, 4)
    w.groups = [(0, 100, 0, 0), (0, 100, 60 * MS, 100 * MS)]
    w.tasks["group"] = np.array([0, 0, 1, 0], np.uint16)
    w.runs(0, 0, 0, 3).runs(first * MS, 0, 3, 2, "R").runs(first * MS + 5 * MS, 0, 2, 3)
    for ts in range(MS, 50 * MS, MS):
        w.add("idle", ts, 1, state=0, curr_task=1)
    w.events.sort(key=lambda event: event[1]["ts_ns"])
    found = window(w, 50 * MS, phases=[-1, 40 * MS])
    assert found["throttled_ns"] == (pytest.approx(40 * MS, rel=0.03) if throttled else 0)


@pytest.mark.parametrize(("again", "throttled"), [(40, True), (35, False)])
def test_the_first_period_has_left_what_its_group_ran_before_it_was_throttled(again: int, throttled: bool) -> None:
    """Task 2 runs for 10 ms, and again from 40 ms on, when the next period begins; if from 35 ms on, a quota did not
    hold it. Two ticks go by until it is seen to have used up its own."""
    w = World(2, 3)
    w.groups = [(0, 100, 0, 0), (0, 100, 60 * MS, 100 * MS)]
    w.tasks["group"] = np.array([0, 0, 1], np.uint16)
    w.runs(0, 0, 0, 2).runs(10 * MS, 0, 2, 0, "R").runs(again * MS, 0, 0, 2)
    for ts in range(MS, 50 * MS, MS):
        w.add("idle", ts, 1, state=0, curr_task=1)
    w.events.sort(key=lambda event: event[1]["ts_ns"])
    found = window(w, 50 * MS, phases=[-1, 40 * MS])
    assert found["throttled_ns"] == (pytest.approx(30 * MS, abs=8 * MS) if throttled else 0)


def test_who_has_no_quota_is_not_held() -> None:
    unlimited = window(busy([(0, 100, 0, 0)], {2: 1}, 100 * MS), 100 * MS)
    assert (unlimited["cpu_ns"], unlimited["throttled_ns"]) == (pytest.approx(100 * MS, rel=0.05), 0)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(), st.lists(st.sampled_from([(0, 0), (1 * MS, 10 * MS), (100_000, 1 * MS)]), min_size=2, max_size=3))
def test_work_is_conserved_and_nobody_runs_while_throttled(w: World, limits: list[tuple[int, int]]) -> None:
    """`broken` counts lost or invented work, tasks that run in a throttled group, and contradictions of the model."""
    groups = [(0, 100, 0, 0), *((max(0, k - 1), 100, *limit) for k, limit in enumerate(limits))]
    w.tasks["group"] = np.array([t % len(groups) for t in range(w.n_tasks)], np.uint16)
    w.groups = groups
    window = whole(w)
    if window is None:
        return
    for kernel in ((6, 1), (6, 12)):
        results, _ = simulate(w, window, "prev", "linux-6.1", kernel=kernel, balance="recorded-rate")
        assert [r["broken"] for r in results] == [0, 0]


def test_periods_whose_phase_is_made_up_begin_with_the_clock_wherever_a_window_begins() -> None:
    """Task 2 runs from 50 ms on; the window begins at 60 ms, nearer to the period's end than to its beginning. That
    period's quota lasts to its end, that of the next one until 160 ms, and what comes then beyond the window."""
    w = World(2, 3)
    w.groups = [(0, 100, 0, 0), (0, 100, 60 * MS, 100 * MS)]
    w.tasks["group"] = np.array([0, 0, 1], np.uint16)
    for ts in range(MS, 400 * MS, MS):
        w.add("idle", ts, 1, state=0, curr_task=1)
        if ts == 50 * MS:
            w.runs(ts, 0, 0, 2)
    (found,), _ = simulate(w, (60 * MS, 60 * MS, 240 * MS, 400 * MS), "prev")
    assert (found["broken"], found["diverged"]) == (0, False)
    assert found["throttled_ns"] == pytest.approx(38 * MS, abs=3 * MS), "from the next tick on"
