# SPDX-License-Identifier: GPL-2.0-or-later
"""The closed loop beside tasks of higher classes, which have their CPU for as long as they had it in the recording."""

from __future__ import annotations

import pytest
from resimulated import simulate
from world import World


def handed_on(first_leaves: str) -> World:
    """Task 2 is woken on CPU 0 at 20 us, which tasks 4 and then 5 of real time have until 300 us; 3 runs on CPU 1."""
    w = World(2, 6).runs(0, 1, 1, 3)
    w.add("switch", 0, 0, prev_task=0, next_task=4, prev_state="R", next_prio=50)
    w.waking(20_000, 1, 2, 0, 3).wakeup(21_000, 0, 2, 0, curr=4)
    w.add("switch", 100_000, 0, prev_task=4, next_task=5, prev_state=first_leaves, prev_prio=50, next_prio=40)
    w.add("switch", 300_000, 0, prev_task=5, next_task=2, prev_state="S", prev_prio=40)
    return w.runs(340_000, 0, 2, 0).runs(400_000, 1, 3, 1)


@pytest.mark.parametrize("policy", ["pinned", "prev"])
@pytest.mark.parametrize("first_leaves", ["S", "R"])
def test_nobody_runs_between_two_tasks_of_real_time(policy: str, first_leaves: str) -> None:
    (result,), script = simulate(handed_on(first_leaves), (0, 0, 400_000, 440_000), policy)
    assert script["reservations"] == [(0, 4, 0, 100_000), (0, 5, 100_000, 300_000)]
    assert result["woken"]["latency_ns"][0].tolist() == [280_000]
    assert (result["switches"], result["skipped_reservations"], result["broken"]) == (3, 0, 0), "to task 2, and to idle"


@pytest.mark.parametrize("policy", ["pinned", "prev"])
@pytest.mark.parametrize("begins", [0, 10_000])
def test_real_time_that_outlasts_the_scripts_keeps_its_cpu(policy: str, begins: int) -> None:
    """Task 2 is woken on CPU 0 at 20 us, which task 4 has until 900 us; scripts end at 440 us."""
    w = World(2, 6).runs(0, 1, 1, 3)
    w.add("switch", begins, 0, prev_task=0, next_task=4, prev_state="R", next_prio=50)
    w.waking(20_000, 1, 2, 0, 3).wakeup(21_000, 0, 2, 0, curr=4)
    w.add("switch", 900_000, 0, prev_task=4, next_task=2, prev_state="S", prev_prio=50)
    w.runs(940_000, 0, 2, 0).runs(990_000, 1, 3, 1)
    (result,), script = simulate(w, (0, 0, 400_000, 440_000), policy)
    assert script["reservations"] == [(0, 4, begins, 440_000)]
    assert result["woken"]["latency_ns"][0].tolist() == [420_000]
    assert (result["cpu_ns"], result["broken"]) == (400_000, 0), "of task 3"
