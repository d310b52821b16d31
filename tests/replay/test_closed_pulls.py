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
