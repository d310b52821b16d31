# SPDX-License-Identifier: GPL-2.0-or-later
"""Sleepers that are on their run queue still (6.12 and later) in the closed loop: no placement is asked for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from resimulated import FIXED, TYPES, simulate
from world import World

from rewake.forms import ENUMS

A, B = 3, 4
CLASS = {name: np.uint8(ENUMS["decision_class"].index(name)) for name in ("bypass_on_rq", "stayed")}
BUSY, SAME_CPU, BYPASSED = 1, 0, 16


def costs(asked: int, not_asked: int) -> dict[str, Any]:
    """It takes a waker so long to queue its wakee on its own CPU, enough samples of both."""
    rows = [(BUSY, SAME_CPU, True, target, ns, 0, 0) for target, ns in ((0, asked), (BYPASSED, not_asked))] * 40
    return {
        name: np.array([*FIXED[name], *column], TYPES[name])
        for name, column in zip(FIXED, zip(*rows, strict=True), strict=True)
    }


def world() -> World:
    """Task A on CPU 0 wakes B, which slept there and preempts nobody (SCHED_BATCH), and sleeps 10 us later: B runs."""
    w = World(3, 6)
    w.tasks["fair_policy"][B] = 1
    w.runs(0, 0, 0, B).runs(50_000, 0, B, A)
    w.waking(99_000, 0, B, 0, A).wakeup(101_000, 0, B, 0, curr=A).runs(109_000, 0, A, B)
    return w.runs(200_000, 0, B, 0)


def test_who_was_woken_on_its_queue_just_before_a_window_is_on_its_way() -> None:
    """Nothing else tells that it was: before the window is its sched_waking, in it the sched_wakeup."""
    (result,), script = simulate(
        world(), (100_000, 100_000, 390_000, 400_000), "pinned", kernel=(6, 12), told={"class": CLASS["bypass_on_rq"]}
    )
    assert script["stims"] == [] and result["external"] == 0
    assert result["switches"] == 2, "B runs when A sleeps, and nobody in between"


@pytest.mark.parametrize(
    ("minor", "recorded", "waited"),
    [(12, "bypass_on_rq", 10_000), (12, "stayed", 7_000), (8, "stayed", 10_000), (8, "bypass_on_rq", 13_000)],
)
def test_to_ask_for_a_placement_takes_the_waker_its_time(minor: int, recorded: str, waited: int) -> None:
    """By 6.12 B is on its queue still. Where the recorded one was not, A's script has the 3 us in it that it takes to
    ask, and where it was and this one is not (6.8 has no delayed dequeue), it lacks them."""
    (result,), _ = simulate(
        world(), (10_000, 10_000, 390_000, 400_000), "prev", kernel=(6, minor), told={"class": CLASS[recorded]},
        costs=costs(4_000, 1_000),
    )  # fmt: skip
    woken = result["woken"]
    assert woken["placed"].tolist() == [minor == 8]
    assert woken["latency_ns"][0].tolist() == [waited]
