# SPDX-License-Identifier: GPL-2.0-or-later
"""Devices that stall, in the closed loop: whoever asked meanwhile is answered when they go on."""

from __future__ import annotations

from collections.abc import Sequence

from resimulated import simulate
from world import World

TASKS = (4, 5, 6)
ASKS = [False] * 4 + [True] * 3
STALL = 900_000


def disk(stalled: Sequence[int] = TASKS) -> World:
    """Tasks 4 to 6, on CPUs 0 to 2, ask every 100 us and are answered 5 us later; asked at 690, the disk answers those
    in `stalled` at 900, 1 us after each other."""
    w = World(4, 7)
    for cpu, task in enumerate(TASKS):
        w.runs(0, cpu, cpu, task)
        for asked in range(90_000 + 1_000 * cpu, 1_200_000, 100_000):
            stall = task in stalled and 690_000 <= asked < 700_000
            if task in stalled and 700_000 <= asked < STALL:
                continue
            answer = STALL + 1_000 * cpu if stall else asked + 5_000
            w.runs(asked, cpu, task, cpu)
            w.waking(answer, cpu, task, cpu, cpu, ctx="hardirq").wakeup(answer + 1_000, cpu, task, cpu)
            w.runs(answer + 3_000, cpu, cpu, task)
    w.events.sort(key=lambda event: event[1]["ts_ns"])
    return w


def answers(w: World, *handlers: tuple[int, int, int]) -> dict[int, list[int]]:
    """By task: when it is answered, us."""
    (result,), _ = simulate(w, (0, 0, 1_150_000, 1_200_000), "prev", handlers=handlers, asks=ASKS)
    assert result["broken"] == 0
    woken = result["woken"]
    return {t: (woken["ts_ns"][woken["task"] == t] // 1000).tolist() for t in TASKS}


def test_while_nothing_changes_answers_come_as_recorded() -> None:
    found = answers(disk())
    assert found[4] == [*range(95, 600, 100), 900, 995, 1095]
    assert found[6] == [*range(97, 600, 100), 902, 997, 1097]


def test_who_asks_a_device_that_stalls_is_answered_with_the_others() -> None:
    """An interrupt has the CPU of task 4 when it should ask: it does so 30 us later, and is in step again."""
    found = answers(disk(), (0, 685_000, 720_000))
    assert found == answers(disk())


def test_who_asks_once_it_goes_on_is_answered_at_once() -> None:
    assert answers(disk(), (0, 685_000, 880_000))[4][6] == 900
    assert answers(disk(), (0, 685_000, 950_000))[4][6] == 955


def test_it_takes_several_to_tell_a_stall() -> None:
    """Two that are answered late: each so late as it was in the recording."""
    assert answers(disk(stalled=(4, 5)), (0, 685_000, 720_000))[4][6] == 930
