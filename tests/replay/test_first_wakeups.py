# SPDX-License-Identifier: GPL-2.0-or-later
"""What a task weighs that is placed before it was ever seen to queue."""

from __future__ import annotations

import pytest
from resimulated import simulate
from world import World

NORMAL, IDLE = 0, 2
POLICIES = ("linux-3.8", "linux-3.10")


def unseen(prio: int, fair: int) -> World:
    """Task 19 was on CPU 4 and is woken from CPU 0; both have two tasks of nice 0. If it weighs 1024 it stays in its
    LLC, if 15 or 3 its waker's CPU has no more load with it."""
    w = World(8, 40, llcs=2)
    w.tasks["fair_policy"][19] = fair
    w.runs(1000, 0, 0, 20, "R").runs(1100, 4, 4, 24, "R")
    w.waking(3000, 0, 30, 4, curr=20).wakeup(3200, 4, 30, 4, curr=24)
    w.waking(5000, 0, 31, 0, curr=20).wakeup(5200, 0, 31, 0, curr=20)
    w.waking(9000, 0, 19, 4, curr=20, prio=prio).migrate(9100, 0, 19, 4, 1, curr=20)
    return w.wakeup(9200, 1, 19, 1, prio=prio).runs(9400, 1, 1, 19).runs(20_000, 1, 19, 1)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("prio", "fair", "llc"), [(120, NORMAL, 1), (139, NORMAL, 0), (120, IDLE, 0)])
def test_the_first_wakeup_has_the_weight_that_its_event_and_its_policy_tell(
    prio: int, fair: int, llc: int, policy: str
) -> None:
    row = unseen(prio, fair).decisions().replay(policy).ledgers[0][-1]
    assert row["cpu"] // 4 == llc
    (result,), _ = simulate(unseen(prio, fair), (8000, 8000, 30_000, 30_000), policy)
    assert result["woken"]["cpu"][-1] // 4 == llc
