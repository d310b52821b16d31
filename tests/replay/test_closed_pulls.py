# SPDX-License-Identifier: GPL-2.0-or-later
"""Whom balancing finds on a run queue, beside those that wait: sleepers that have not left it, and who is never hot."""

from __future__ import annotations

from typing import Any

import pytest
from resimulated import simulate, survey
from world import World

US, MS = 1_000, 1_000_000
PULLS: dict[str, Any] = {"balance": "recorded-rate", "pulls": [[1.0] * 20] * 4}
HERE, OTHER, ELSEWHERE = 2, 3, 4
SCHED_IDLE = 2


def pulls(world: World, since: int, kernel: tuple[int, int]) -> int:
    """When CPU 1 goes idle, at 3 ms."""
    (result,), _ = simulate(world, (since, since, 3_500 * US, 4 * MS), "prev", kernel=kernel, **PULLS)
    assert result["broken"] == 0
    return int(result["newidle_moves"])


def asleep_ahead() -> World:
    """Task 2 has run 1 ms longer than 3 when it sleeps, at 2 ms: its dequeue is delayed (6.12+). Then 3 runs alone."""
    w = World(2, 5).runs(0, 0, 0, HERE).runs(0, 1, 1, ELSEWHERE)
    w.waking(990 * US, 1, OTHER, 0, ELSEWHERE).wakeup(MS, 0, OTHER, 0, curr=HERE)
    return w.runs(2 * MS, 0, HERE, OTHER).runs(3 * MS, 1, ELSEWHERE, 1)


@pytest.mark.parametrize(
    ("kernel", "moves"), [((6, 6), 0), ((6, 12), 1), ((6, 13), 1), ((6, 14), 0), ((7, 2), 0)],
)  # fmt: skip
def test_balancing_moves_who_sleeps_and_has_not_left(kernel: tuple[int, int], moves: int) -> None:
    """Only in 6.12 and 6.13, once: on the other CPU it is picked next, and leaves."""
    assert pulls(asleep_ahead(), 2_100 * US, kernel) == moves


def test_it_is_a_chance_to_pull_there() -> None:
    for kernel, chances in (((6, 12), 1), ((6, 14), 0)):
        assert sum(map(sum, survey(asleep_ahead(), kernel=kernel)["chances"])) == chances, kernel


@pytest.mark.parametrize(("policy", "moves"), [(0, 0), (SCHED_IDLE, 1)])
def test_who_is_of_idle_policy_is_never_hot(policy: int, moves: int) -> None:
    """Task 3 ran on CPU 0 until 100 us before CPU 1 goes idle."""
    w = World(2, 5)
    w.tasks["fair_policy"][OTHER] = policy
    w.runs(0, 0, 0, OTHER).runs(0, 1, 1, ELSEWHERE)
    w.waking(2_890 * US, 1, HERE, 0, ELSEWHERE).wakeup(2_897 * US, 0, HERE, 0, curr=OTHER)
    w.runs(2_900 * US, 0, OTHER, HERE, "R").runs(3 * MS, 1, ELSEWHERE, 1)
    assert pulls(w, 2_950 * US, (6, 1)) == moves


WHILE_IT_LEAVES: dict[str, Any] = PULLS | {"pull_ns": 6 * US, "pulled_ns": 3 * US, "major": 6, "minor": 1}


def pulled_as_it_leaves(woken_at: int) -> World:
    """Task 3 sleeps, and CPU 0, which it leaves at 103 us, pulls 4 from CPU 1 at 100. Task 5 wakes 3 from CPU 2."""
    w = World(3, 7).runs(0, 0, 0, 3).runs(0, 1, 1, 6).runs(0, 2, 2, 5)
    w.waking(50 * US, 2, 4, 1, 5).wakeup(51 * US, 1, 4, 1, curr=6)
    w.migrate(100 * US, 0, 4, 1, 0, curr=3).waking(woken_at, 2, 3, 0, 5)
    w.runs(103 * US, 0, 3, 4).wakeup(104 * US, 0, 3, 0, curr=4)
    w.runs(200 * US, 0, 4, 3).runs(210 * US, 0, 3, 0).runs(300 * US, 1, 6, 1).runs(300 * US, 2, 5, 2)
    w.events.sort(key=lambda event: event[1]["ts_ns"])
    return w


@pytest.mark.parametrize(("pull", "works"), [(0, 103 * US), (6 * US, 97 * US)])
def test_a_task_is_asleep_before_its_cpu_pulls_another(pull: int, works: int) -> None:
    """Where placement is forced the pull is, too, and the task leaves with it."""
    world, window = pulled_as_it_leaves(102 * US), (0, 0, 350 * US, 351 * US)
    (result,), script = simulate(world, window, "prev", **WHILE_IT_LEAVES | {"pull_ns": pull})
    assert script["tasks"][3]["ops"][0][:2] == (works * 1024, "block")
    assert (result["broken"], result["newidle_moves"]) == (0, 1)
    (result,), script = simulate(world, window, "pinned", pull_ns=pull)
    assert script["tasks"][3]["ops"][0][:2] == (103 * US * 1024, "block")


@pytest.mark.parametrize(("woken_at", "asked"), [(100_600, False), (101_000, True)])
def test_who_sleeps_as_its_cpu_pulls_is_left_there_until_the_other_is_queued(woken_at: int, asked: bool) -> None:
    """That is a quarter of the way from the pull (100 us) to the switch; then the policy is asked."""
    (result,), _ = simulate(pulled_as_it_leaves(woken_at), (0, 0, 150 * US, 351 * US), "prev", **WHILE_IT_LEAVES)
    woken = result["woken"]
    assert (result["broken"], result["newidle_moves"]) == (0, 1)
    assert woken["placed"][woken["task"] == 3].tolist() == [asked]
