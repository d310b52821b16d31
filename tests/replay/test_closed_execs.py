# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks that exec in the closed loop: the policy sends them somewhere, and their CPU's stopper moves them there."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from resimulated import simulate, whole
from world import World, schedules

A, B, STOPPER = 3, 4, 5
WINDOW = (0, 0, 390_000, 400_000)


def execs(moves: bool) -> World:
    """Task A runs on CPU 0 and execs at 100 us, B, which may run nowhere else, waits behind it. Where A moves, the
    stopper has CPU 0 for 10 us, and the event comes 30 us after that, on CPU 1."""
    w = World(3, 6, masks=["0"])
    w.tasks["stopper"][STOPPER] = True
    w.tasks["allowed"][B] = 1
    w.runs(0, 0, 0, A).waking(20_000, 0, B, 0, A, ctx="hardirq").wakeup(21_000, 0, B, 0, curr=A)
    if not moves:
        w.add("exec", 100_000, 0, task=A, filename="x")
        return w.runs(300_000, 0, A, B).runs(350_000, 0, B, 0)
    w.waking(98_000, 0, STOPPER, 0, A, prio=0).wakeup(99_000, 0, STOPPER, 0, curr=A, prio=0)
    w.add("switch", 100_000, 0, prev_task=A, next_task=STOPPER, prev_state="R", next_prio=0)
    w.migrate(105_000, 0, A, 0, 1, STOPPER)
    w.add("switch", 110_000, 0, prev_task=STOPPER, next_task=B, prev_state="S", prev_prio=0)
    w.runs(112_000, 1, 1, A).runs(130_000, 0, B, 0)
    w.add("exec", 140_000, 1, task=A, filename="x")
    return w.runs(300_000, 1, A, 1)


def run(world: World, policy: str, **arm: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    (result,), script = simulate(world, WINDOW, policy, **arm)
    assert result["broken"] == 0
    return result, script


def ops(script: dict[str, Any], task: int) -> list[tuple[int, str]]:
    return [(work // 1024, kind) for work, kind, _ in script["tasks"][task]["ops"]]


def waited(result: dict[str, Any]) -> int:
    """By B."""
    return int(result["woken"]["latency_ns"][0][0])


def test_an_exec_is_decided_where_the_stopper_takes_the_cpu_and_its_time_is_no_reservation() -> None:
    _, script = run(execs(True), "pinned")
    assert ops(script, A) == [(100_000, "exec"), (188_000, "block")]
    assert script["reservations"] == []
    _, script = run(execs(False), "pinned")
    assert ops(script, A) == [(100_000, "exec"), (200_000, "block")]


def test_who_execs_goes_where_it_went() -> None:
    """B gets the CPU when the stopper is done with it."""
    result, _ = run(execs(True), "pinned")
    assert result["exec_moves"] == 1 and result["forced_moves"] == 0
    assert waited(result) == 90_000
    result, _ = run(execs(False), "pinned")
    assert result["exec_moves"] == 0 and waited(result) > 200_000


def test_who_execs_goes_where_the_policy_sends_it() -> None:
    """linux-6.1 knows of an idle CPU, where the recorded kernel left the task, too; prev leaves it where it is."""
    result, _ = run(execs(False), "linux-6.1")
    assert result["exec_moves"] == 1 and waited(result) == 80_000, "no stopper was seen: it takes no time"
    result, _ = run(execs(True), "prev")
    assert result["exec_moves"] == 0 and waited(result) > 200_000


def test_an_exec_that_moved_nobody_was_decided_before_its_event() -> None:
    """By as much work as one that did: 30 us, of which 28 it ran."""
    w = execs(True)
    w.tasks["allowed"][B] = 0
    w.runs(310_000, 1, 1, B).add("exec", 350_000, 1, task=B, filename="x").runs(380_000, 1, B, 1)
    _, script = run(w, "pinned")
    assert ops(script, B)[1:] == [(12_000, "exec"), (58_000, "block")]


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(execs=True))
def test_execs_break_nothing(world: World) -> None:
    window = whole(world)
    if window is None:
        return
    policies = ("pinned", "linux-4.12", "linux-6.12", "wakeup-buddy", "irq-aware", "oracle-idle")
    results, _ = simulate(world, window, *policies)
    assert [r["broken"] for r in results] == [0] * len(policies)
