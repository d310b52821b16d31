# SPDX-License-Identifier: GPL-2.0-or-later
"""Buddies from events (policies.md B2, E2 BC1, BC4, BC5), for the seed and for a hybrid.

All wakeups are synchronous. Related tasks are then put on the waker's CPU without a search, which no other rule does
here: prev is idle, so an unrelated task stays there.
"""

from __future__ import annotations

import pytest
from world import World

from rewake.replay import _engine

A, B, C, T, N = 10, 11, 12, 13, 14
POLICIES = ("wakeup-buddy", "wakeup-buddy@linux-5.10", "wakeup-buddy@linux-6.1")


class Pair:
    """A on CPU 0 and B on CPU 1 wake each other in turn; A runs at the start."""

    def __init__(self) -> None:
        self.world = World(4, 16)
        self.ts = 100_000
        self.world.runs(self.ts, 0, 0, A, "R").runs(self.ts + 1, 1, B, 1).runs(self.ts + 2, 2, C, 2)
        self.world.runs(self.ts + 3, 3, T, 3)

    def step(self) -> int:
        self.ts += 100_000
        return self.ts

    def wakes(self, waker: int, cpu: int, wakee: int, home: int) -> Pair:
        """The waker sleeps right after; the wakee runs."""
        t = self.step()
        self.world.waking(t, cpu, wakee, home, curr=waker).wakeup(t + 100, home, wakee, home)
        self.world.runs(t + 20_000, home, home, wakee, "R").runs(t + 40_000, cpu, waker, cpu)
        return self

    def rounds(self, n: int) -> Pair:
        for _ in range(n):
            self.wakes(A, 0, B, 1).wakes(B, 1, A, 0)
        return self

    def passing(self, task: int, home: int, ctx: str = "task") -> Pair:
        """A, or an interrupt during A, wakes another task; A goes on."""
        t = self.step()
        self.world.waking(t, 0, task, home, curr=A, ctx=ctx).wakeup(t + 100, home, task, home)
        self.world.runs(t + 20_000, home, home, task, "R").runs(t + 40_000, home, task, home)
        return self

    def related(self, policy: str) -> list[bool]:
        """Of each decision, whether the policy took p and curr for buddies."""
        decisions = self.world.decisions((4, 5))
        (ledger,) = decisions.replay(policy, sync=True).ledgers
        wakes = [
            row for row, d in zip(ledger, decisions.rows(), strict=True) if d["class"] in ("stayed", "moved")
            and d["kind"] == "wake"
        ]  # fmt: skip
        return [_engine.BRANCHES[row["branch"]] == "NOSEARCH" for row in wakes]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_tenth_wakeup_of_a_direction_is_the_first_of_buddies(policy: str) -> None:
    """BC1; the other direction, one wakeup later, follows at once."""
    related = Pair().rounds(12).related(policy)
    assert related == [False] * 18 + [True] * 6
    assert Pair().rounds(6).related(f"{policy}:ref=2") == [False] * 6 + [True] * 6


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ctx", ["task", "hardirq"])
def test_another_wakeup_ends_it_also_from_an_interrupt(policy: str, ctx: str) -> None:
    """BC2, BC4: what an interrupt wakes is charged to the task that it interrupts."""
    related = Pair().rounds(10).passing(T, 3, ctx).rounds(10).related(policy)
    assert related[18:20] == [True, True]
    assert related[20:] == [False] * 18 + [True] * 3, "T, then A's count of nine; B's own did not end"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_wakeup_of_a_queued_task_counts_nothing(policy: str) -> None:
    """BC5: C wakes B, which runs: no placement, and B's waker stays A."""
    pair = Pair().rounds(10)
    pair.wakes(A, 0, B, 1)
    t = pair.step()
    pair.world.waking(t, 2, B, 1, curr=C).wakeup(t + 100, 2, B, 1)
    pair.wakes(B, 1, A, 0).rounds(1)
    rows = pair.world.decisions((4, 5)).rows()
    assert [r["class"] for r in rows].count("bypass_on_rq") == 1
    assert pair.related(policy)[18:] == [True] * 6


@pytest.mark.parametrize("policy", POLICIES)
def test_a_fork_counts_also_where_forks_are_not_replayed(policy: str) -> None:
    """B2: the parent's wakee is the child then."""
    pair = Pair().rounds(10)
    t = pair.step()
    pair.world.add("fork", t, 0, task=A, child=N).wakeup(t + 10_000, 0, N, 2, new=True, curr=A)
    pair.world.runs(t + 30_000, 2, 2, N, "R").runs(t + 50_000, 2, N, 2)
    related = pair.rounds(10).related(policy)
    assert related[18:20] == [True, True]
    assert related[20:] == [False] * 17 + [True] * 3
