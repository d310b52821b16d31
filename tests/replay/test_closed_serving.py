# SPDX-License-Identifier: GPL-2.0-or-later
"""Who answers whom in the closed loop: tasks that wait for an answer wait for one other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from resimulated import survey
from world import World


def asked(order: Sequence[int], rounds: int) -> World:
    """Tasks 4 and 5 ask the next one of `order`, each in turn, and sleep until it has answered."""
    w = World(4, 8)
    w.runs(0, 0, 0, 4).runs(0, 1, 1, 5)
    t = 0
    for _ in range(rounds):
        for by in order:
            for client, cpu in ((4, 0), (5, 1)):
                t += 100_000
                other = by - 4
                w.waking(t, cpu, by, other, client).wakeup(t + 1_000, other, by, other, curr=other)
                w.runs(t + 3_000, other, other, by).runs(t + 10_000, cpu, client, cpu)
                w.waking(t + 30_000, other, client, cpu, by).wakeup(t + 31_000, cpu, client, cpu)
                w.runs(t + 33_000, cpu, cpu, client).runs(t + 40_000, other, by, other)
    return w


@pytest.mark.parametrize(("order", "found"), [
    ([6] * 6, [6]),
    ([6] * 5 + [7], [6]),
    ([6, 6, 7, 7, 7, 6], []),
])  # fmt: skip
def test_a_server_answers_those_who_wait_for_it_alone(order: Sequence[int], found: list[int]) -> None:
    """Those who are woken now by one, now by the other wait for whoever comes: readers, or senders that need room."""
    servers = survey(asked(order, 30))["servers"]
    assert [t for t in (6, 7) if servers[t]] == found
