# SPDX-License-Identifier: GPL-2.0-or-later
"""Decision records (policies.md C2-C5, E8) from hand-made events. CPUs 0..n-1 have idle tasks 0..n-1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import World, schedules

from rewake.forms import ENUMS
from rewake.replay import _engine

P, Q, R, S = 8, 9, 10, 11


def asleep(world: World, task: int, cpu: int, ts: int = 1000) -> World:
    """`task` was running on `cpu` from the start and went to sleep at `ts`, leaving it idle."""
    return world.runs(ts, cpu, task, cpu)


def test_moved_with_latency() -> None:
    """E8 D1: waking(p, 5)@0, migrate(p, 5->1)@0, wakeup(p, 1)@0."""
    w = asleep(World(8, 12), P, 5)
    w.waking(9000, 0, P, 5, curr=Q).migrate(9100, 0, P, 5, 1, curr=Q).wakeup(9200, 0, P, 1).runs(9900, 1, 1, P, "R")
    (row,) = w.decisions().rows()
    assert row["class"] == "moved"
    assert (row["waker_cpu"], row["prev_cpu"], row["chosen_cpu"], row["ran_cpu"]) == (0, 5, 1, 1)
    assert (row["wakeup_ns"], row["latency_ns"], row["chosen_idle"]) == (200, 900, True)
    assert (row["waker_task"], row["kind"], row["censored"]) == (Q, "wake", False)
    assert w.decisions().causes == ["wake"]


def test_stayed_through_the_wake_list() -> None:
    """E8 D2: the wakeup fires on the target."""
    w = (
        asleep(World(8, 12, llcs=2), P, 5)
        .waking(20000, 0, P, 5, curr=Q)
        .wakeup(21000, 5, P, 5)
        .runs(21500, 5, 5, P, "R")
    )
    (row,) = w.decisions().rows()
    assert (row["class"], row["chosen_cpu"], row["latency_ns"]) == ("stayed", 5, 1500)


def test_delayed_dequeue_on_6_12() -> None:
    """E8 D3: 6.12, prev's CPU never idle since p blocked, wakeup on the waker's CPU: perhaps no placement."""
    w = World(8, 12, llcs=2).runs(1000, 5, P, Q).waking(90000, 0, P, 5, curr=R).wakeup(90100, 0, P, 5)
    assert w.decisions((6, 12)).rows()[0]["class"] == "maybe_delayed"
    assert w.decisions((6, 1)).rows()[0]["class"] == "stayed"
    assert w.decisions((0, 0)).rows()[0]["class"] == "maybe_delayed", "a kernel that is not known may be one"


@pytest.mark.parametrize(("before", "expected"), [(Q, "maybe_delayed"), (5, "stayed")])
def test_delayed_since_before_the_recording(before: int, expected: str) -> None:
    """6.12: P slept before the first event. CPU 5 was not idle since, or was when the recording began."""
    w = World(8, 12).waking(1000, 0, P, 5, curr=R).wakeup(1100, 0, P, 5).runs(2000, 5, before, P, "R")
    assert w.decisions((6, 12)).rows()[0]["class"] == expected


def test_self() -> None:
    """E8 D4."""
    w = World(8, 12).runs(1000, 0, 0, P, "R").waking(2000, 0, P, 0, curr=P).wakeup(2100, 0, P, 0)
    (row,) = w.decisions().rows()
    assert (row["class"], row["latency_ns"]) == ("self", 0)


def test_fork_is_placed_by_wakeup_new() -> None:
    """E8 D5."""
    w = (
        World(8, 12)
        .add("fork", 900, 0, task=P, child=Q)
        .wakeup(1000, 0, Q, 7, new=True, curr=P)
        .runs(1300, 7, 7, Q, "R")
    )
    (row,) = w.decisions().rows()
    assert (row["kind"], row["class"], row["prev_cpu"], row["chosen_cpu"], row["latency_ns"]) == (
        "fork",
        "moved",
        0,
        7,
        300,
    )


def test_exec_is_moved_by_the_stopper() -> None:
    """E8 D7: migrate(p, 2->6) by migration/2, then sched_process_exec(p) on 6."""
    w = World(8, 12)
    w.tasks["stopper"][R] = True
    w.runs(1000, 2, P, R, "R").migrate(1100, 2, P, 2, 6, curr=R).runs(1200, 2, R, 2).runs(1300, 6, 6, P, "R")
    w.add("exec", 1500, 6, task=P)
    decisions = w.decisions()
    (row,) = decisions.rows()
    assert (row["kind"], row["class"], row["prev_cpu"], row["chosen_cpu"]) == ("exec", "moved", 2, 6)
    assert decisions.causes == ["exec"]
    assert decisions.counts["resync"] == 0


def test_without_sched_migrate_task_sched_wakeup_says_where() -> None:
    """P moves from 5 to 1 and then stays there. Without sched_waking it comes from where it went to sleep."""

    def wakeups(waking: bool) -> World:
        w = asleep(World(8, 12), P, 5)
        for at, prev in ((9000, 5), (19000, 1)):
            if waking:
                w.waking(at, 0, P, prev, curr=Q)
            w.wakeup(at + 200, 0, P, 1, curr=Q).runs(at + 900, 1, 1, P, "R").runs(at + 5000, 1, P, 1)
        return w

    for waking in (True, False):
        decisions = wakeups(waking).decisions(has_waking=waking, has_migrate=False)
        moved, stayed = decisions.rows()
        assert (moved["class"], moved["prev_cpu"], moved["chosen_cpu"]) == ("moved", 5, 1)
        assert (stayed["class"], stayed["prev_cpu"], stayed["chosen_cpu"]) == ("stayed", 1, 1)
        assert decisions.counts["conflicts"] == decisions.counts["resync"] == 0


@pytest.mark.parametrize(("moves", "expected"), [(False, ("stayed", 3, 3)), (True, ("moved", 3, 6))])
def test_a_sleeper_that_is_pulled_before_its_placement_comes_from_there(
    moves: bool, expected: tuple[str, int, int]
) -> None:
    """6.12: sched_waking names CPU 2, on whose run queue it sleeps; CPU 3 pulls it, and then it is placed."""
    w = World(8, 12)
    w.runs(500, 2, P, R, "S").runs(600, 0, 0, Q, "R").runs(700, 3, 3, S, "R")
    w.waking(9000, 0, P, 2, Q).migrate(9500, 3, P, 2, 3, curr=S)
    if moves:
        w.migrate(9800, 0, P, 3, 6, curr=Q)
    w.wakeup(9900, 6 if moves else 3, P, 6 if moves else 3).runs(9950, 6 if moves else 3, 6 if moves else S, P, "R")
    decisions = w.decisions((6, 12))
    (row,) = decisions.rows()
    assert (row["class"], row["prev_cpu"], row["chosen_cpu"]) == expected
    assert decisions.counts["conflicts"] == decisions.counts["prev_mismatch"] == 0


def test_a_wakee_that_is_pulled_after_its_placement_was_placed_where_it_queued() -> None:
    """Its sched_wakeup comes later by the clock of the CPU that queues it."""
    w = World(8, 12).runs(500, 2, P, 2, "S").runs(600, 0, 0, Q, "R").runs(700, 3, 3, S, "R")
    w.waking(9000, 0, P, 2, Q).migrate(9500, 3, P, 2, 3, curr=S).wakeup(9501, 2, P, 2)
    (row,) = w.decisions((6, 12)).rows()
    assert (row["prev_cpu"], row["chosen_cpu"]) == (2, 2)


def test_waker_lost_before_4_3() -> None:
    """E8 D8: 3.8, wakeup(p, 5)@5 in interrupt, no migrate, no sched_waking."""
    w = asleep(World(8, 12, llcs=2), P, 5).add("wakeup", 9000, 5, task=P, target_cpu=5, curr_task=5, irq_ctx=2)
    w.runs(9400, 5, 5, P, "R")
    (row,) = w.decisions((3, 8), has_waking=False).rows()
    assert (row["class"], row["waker_cpu"], row["chosen_cpu"], row["latency_ns"]) == ("waker_lost", None, 5, 400)


@pytest.mark.parametrize(
    ("curr", "ctx", "has_context", "waker"),
    [
        (Q, "task", True, 5), (5, "softirq", True, 5), (Q, "hardirq", True, None),
        (5, "task", True, None),  # CPU 5 empties its wake list as it leaves idle
        (Q, "task", False, None),  # what runs there may have been interrupted
    ],
)  # fmt: skip
def test_the_waker_of_a_wakeup_on_its_own_target(curr: int, ctx: str, has_context: bool, waker: int | None) -> None:
    w = asleep(World(8, 12, llcs=2), P, 5)
    code = ENUMS["irq_ctx"].index(ctx)
    w.add("wakeup", 9000, 5, task=P, target_cpu=5, curr_task=curr, irq_ctx=code).runs(9400, 5, curr, P, "R")
    (row,) = w.decisions((6, 1), has_waking=False, has_context=has_context).rows()
    assert (row["waker_cpu"], row["class"] == "waker_lost") == (waker, waker is None)


@pytest.mark.parametrize(
    ("kernel", "gap", "expected"),
    [
        ((6, 1), 3000, "maybe_on_cpu"),
        ((6, 1), 5001, "stayed"),
        ((5, 7), 3000, "stayed"),
        ((6, 12), 3000, "maybe_on_cpu"),
        ((0, 0), 3000, "maybe_on_cpu"),
    ],
)
def test_maybe_on_cpu_close_to_the_switch_out(kernel: tuple[int, int], gap: int, expected: str) -> None:
    w = asleep(World(8, 12), P, 5, 10000).waking(10000 + gap, 0, P, 5, curr=Q).wakeup(10100 + gap, 5, P, 5)
    assert w.decisions(kernel).rows()[0]["class"] == expected


@pytest.mark.parametrize(
    ("kernel", "instead", "expected"),
    [
        ((6, 1), None, "stayed"),
        ((6, 1), R, "stayed"),
        ((6, 12), None, "stayed"),  # a delayed task is dequeued before its CPU goes idle
        ((6, 12), R, "maybe_on_cpu"),
    ],
)
@pytest.mark.parametrize("waker", [0, 5])
def test_a_wakeup_on_the_wakers_cpu_was_placed(
    kernel: tuple[int, int], instead: int | None, expected: str, waker: int
) -> None:
    """The bypass of a task still on its CPU goes through that CPU's wake list, which none uses that is there itself."""
    w = World(8, 12).runs(1000, 5, 5, P, "R").runs(10000, 5, P, 5 if instead is None else instead)
    w.waking(13000, waker, P, 5, curr=Q, ctx="hardirq").wakeup(13100, waker, P, 5)
    assert w.decisions(kernel).rows()[0]["class"] == expected


def test_maybe_on_cpu_when_the_switch_out_comes_after() -> None:
    w = World(8, 12).runs(1000, 5, 5, P, "R").waking(9000, 0, P, 5, curr=Q).runs(10000, 5, P, 5).wakeup(10500, 5, P, 5)
    w.runs(11000, 5, 5, P, "R")
    (row,) = w.decisions().rows()
    assert (row["class"], row["latency_ns"]) == ("maybe_on_cpu", 2000)


def test_still_queued_is_a_bypass() -> None:
    w = World(8, 12).runs(1000, 5, P, Q, "R").waking(9000, 0, P, 5, curr=R).wakeup(9100, 0, P, 5)
    (row,) = w.decisions().rows()
    assert (row["class"], row["latency_ns"]) == ("bypass_on_rq", None)


@pytest.mark.parametrize(("prio", "expected"), [(50, "rt"), (-1, "dl"), (139, "stayed")])
def test_priority_classes(prio: int, expected: str) -> None:
    w = asleep(World(8, 12), P, 5).waking(20000, 0, P, 5, curr=Q, prio=prio).wakeup(20100, 5, P, 5, prio=prio)
    assert w.decisions().rows()[0]["class"] == expected


def test_pinned_and_observer() -> None:
    w = World(8, 12, masks=["5"])
    w.tasks["allowed"][P] = 1
    w.tasks["observer"][Q] = True
    asleep(w, P, 5)
    asleep(w, Q, 6, 1100)
    w.waking(20000, 0, P, 5, curr=R).wakeup(20100, 5, P, 5).waking(21000, 0, Q, 6, curr=R).wakeup(21100, 6, Q, 6)
    assert [r["class"] for r in w.decisions().rows()] == ["pinned", "observer"]


@pytest.mark.parametrize(("mask", "expected"), [("5", "pinned"), ("5,7", "stayed"), ("5-6", "stayed")])
def test_a_mask_counts_the_cpus_that_are_offline(mask: str, expected: str) -> None:
    """CPU 7 is offline. Only a kthread bound to one CPU gets its wakee by X3."""
    w = World(8, 12, masks=[mask])
    w.cpus[7]["online"] = False
    w.masks[0] = "0-6"
    w.domains = [d | {"span": "0-6"} for d in w.domains if d["cpu"] < 7]
    w.tasks["allowed"][P] = w.tasks["allowed"][Q] = 1
    w.tasks["kthread"][Q] = True
    asleep(w, P, 5)
    w.runs(15000, 5, 5, Q, "R")
    w.waking(20000, 5, R, 5, curr=Q).wakeup(20100, 5, R, 5).waking(21000, 5, P, 5, curr=Q).wakeup(21100, 5, P, 5)
    decisions = w.decisions()
    assert decisions.rows()[1]["class"] == expected
    branch = _engine.BRANCHES[decisions.replay("linux-6.1").ledgers[0][0]["branch"]]
    assert (branch == "X3") == (expected == "pinned")


def test_unclosed_and_censored() -> None:
    w = asleep(World(8, 12), P, 5)
    asleep(w, Q, 6, 1100)
    w.waking(20000, 0, P, 5, curr=R).waking(21000, 0, Q, 6, curr=R).wakeup(21100, 6, Q, 6)
    first, second = w.decisions().rows()
    assert (first["class"], first["chosen_cpu"]) == ("unclosed", None)
    assert (second["class"], second["censored"], second["latency_ns"]) == ("stayed", True, None)


def test_without_sched_wakeup_the_switch_in_closes() -> None:
    """`perf sched record` leaves it out: sched_migrate_task of the waker, else prev, is where the task was put."""
    w = asleep(World(8, 12), P, 5)
    asleep(w, Q, 6, 1100)
    w.waking(20_000, 0, P, 5, curr=R).migrate(20_100, 0, P, 5, 2, curr=R)
    w.waking(20_200, 0, P, 2, curr=R)  # while it waits
    w.migrate(20_300, 0, P, 2, 3, curr=0).runs(30_000, 3, 3, P, "R")  # balanced afterwards
    w.waking(40_000, 0, Q, 6, curr=R).runs(41_000, 6, 6, Q, "R")
    w.waking(50_000, 0, Q, 6, curr=R).runs(70_000, 6, Q, 6)  # woken while it ran on
    rows = w.decisions(wakeups=False).rows()
    assert [(r["class"], r["chosen_cpu"], r["latency_ns"], r["wakeup_ns"]) for r in rows] == [
        ("moved", 2, 10_000, None), ("bypass_on_rq", 2, None, None), ("stayed", 6, 1_000, None),
        ("bypass_on_rq", 6, 0, None),
    ]  # fmt: skip
    assert [r["ran_cpu"] for r in rows] == [3, None, 6, None]


def test_losses_censor_what_waits_there() -> None:
    w = asleep(World(8, 12), P, 5).waking(20000, 0, P, 5, curr=Q).wakeup(20100, 5, P, 5)
    w.add("loss", 21000, 5, lost=3).runs(30000, 5, 5, P, "R")
    (row,) = w.decisions().rows()
    assert (row["censored"], row["latency_ns"]) == (True, None)


def test_after_a_loss_nothing_is_known_of_that_cpu() -> None:
    """A wakeup whose events were lost keeps no CPU busy for ever; the CPU is not idle before it is seen."""
    w = asleep(World(4, 12), P, 2)
    asleep(w, Q, 3, 1100)
    asleep(w, R, 1, 1200)
    w.waking(20_000, 0, P, 2, curr=11).add("loss", 30_000, 2, lost=5)
    w.waking(40_000, 0, Q, 3, curr=11).migrate(40_100, 0, Q, 3, 2, curr=11).wakeup(40_200, 0, Q, 2)
    w.runs(41_000, 2, 2, Q, "R").runs(50_000, 2, Q, 2)
    w.waking(20_060_000, 0, R, 1, curr=11).migrate(20_060_100, 0, R, 1, 2, curr=11).wakeup(20_060_200, 0, R, 2)
    decisions = w.decisions()
    lost, unsure, sure = decisions.rows()
    assert (lost["class"], lost["censored"]) == ("unclosed", True)
    assert (unsure["chosen_idle"], unsure["low_confidence"]) == (False, True)
    assert (sure["chosen_idle"], sure["low_confidence"]) == (True, False)
    assert decisions.counts["resync"] == 1


def test_a_switch_that_is_not_recorded_is_counted_where_it_is_missing() -> None:
    """P leaves CPU 2, which was idle: the switch to it is missing. Q runs on 1 while it sleeps: its wakeup is."""
    w = World(4, 12).runs(1000, 2, Q, 2).runs(2000, 2, P, 2).runs(3000, 1, Q, 1).runs(4000, 1, 1, Q)
    counts = w.decisions().counts
    assert counts["unseen_by_cpu"] == [0, 0, 1, 0]
    assert counts["resync"] == 2


def test_throttled_task_leaves_its_cpu_idle() -> None:
    """A switch to pid 0: nothing runnable is eligible. The waiting task is throttled, the CPU idle, no resync."""
    w = World(2, 12)
    w.tasks["cgroup"] = (np.full(12, 3, np.uint32), np.zeros(12, np.bool_))
    w.runs(500, 1, 1, R, "R").runs(1000, 0, 0, P, "R").runs(2000, 0, P, 0, "R")  # P is preempted, yet CPU 0 goes idle
    w.runs(3000, 1, R, 1).waking(20000, 1, R, 0, curr=1, ctx="hardirq").wakeup(20100, 1, R, 0)
    w.runs(20500, 0, 0, R, "R").runs(30000, 0, R, P)
    decisions = w.decisions()
    (row,) = decisions.rows()
    assert row["chosen_idle"] is True
    assert decisions.counts["throttled"] == 1
    assert decisions.counts["throttled_by_cpu"] == [1, 0]
    assert decisions.counts["throttled_by_cgroup"] == [0, 0, 0, 1]
    assert decisions.counts["resync"] == 0


@pytest.mark.parametrize("limit", [None, 0, 50_000_000])
def test_who_is_woken_has_slept_though_nothing_showed_it(limit: int | None) -> None:
    """P waits on CPU 0, which goes idle: throttled for all that is known, if its group has a limit or is not known.
    But only who has set itself asleep is woken: a switch is missing."""
    w = World(2, 12)
    if limit is not None:
        w.groups = [(0, 100, 0, 0), (0, 100, limit, 2 * limit)]
        w.tasks["group"] = np.ones(12, np.uint16)
    w.runs(500, 1, 1, R, "R").runs(1000, 0, 0, P, "R").runs(2000, 0, P, 0, "R")
    w.waking(20000, 1, P, 0, curr=R).wakeup(20100, 0, P, 0).runs(20500, 0, 0, P, "R")
    decisions = w.decisions()
    (row,) = decisions.rows()
    assert (row["class"], row["chosen_idle"], row["low_confidence"]) == ("stayed", True, True)
    counts = decisions.counts
    assert (counts["resync"], counts["unseen_by_cpu"], counts["throttled"]) == (1, [1, 0], int(limit != 0))


def test_a_switch_to_who_was_running_hides_others() -> None:
    """Compact Perfetto traces: who is switched out is who was switched in before."""
    counts = World(2, 12).runs(1000, 1, P, 1).runs(2000, 1, 1, 1, "R").decisions().counts
    assert (counts["resync"], counts["unseen_by_cpu"]) == (1, [0, 1])


def test_pending_wakeup_takes_the_cpu_at_the_decision() -> None:
    """F.2: the chosen CPU is taken from the decision on, not from the sched_wakeup that comes later."""
    w = asleep(World(4, 12), P, 2)
    asleep(w, Q, 2, 1000)
    w = World(4, 12).runs(1000, 2, P, Q).runs(2000, 2, Q, 2)
    w.waking(20000, 0, P, 2, curr=R).waking(20200, 0, Q, 2, curr=R).wakeup(21000, 2, P, 2).wakeup(21100, 2, Q, 2)
    assert [r["chosen_idle"] for r in w.decisions().rows()] == [True, False]


def test_migration_causes() -> None:
    w = World(4, 12).runs(900, 3, 3, P, "R").runs(1000, 3, P, Q, "R")  # P waits on 3
    w.migrate(1500, 3, P, 3, 2, curr=Q, ctx="softirq")
    w.migrate(2000, 1, P, 2, 1, curr=1)
    w.migrate(2500, 0, P, 1, 2, curr=R)
    assert w.decisions().causes == ["periodic", "newidle", "unknown"]


@settings(max_examples=60)
@given(schedules(), st.integers(3, 12))
def test_valid_schedules_never_resync_and_batches_do_not_matter(world: World, cut: int) -> None:
    if not world.events:
        return
    whole = world.decisions()
    assert whole.counts["resync"] == 0
    assert whole.counts["conflicts"] == 0
    assert {r["class"] for r in whole.rows()} <= {"moved", "stayed"}
    pieces = world.decisions(at=range(cut, len(world.events), cut))
    for a, b in zip(whole.rows(), pieces.rows(), strict=True):
        assert a == b
    one = whole.replay("recorded", "prev", "waker", "oracle-idle", "linux-6.1", "idle-thread-scan")
    several = pieces.replay("recorded", "prev", "waker", "oracle-idle", "linux-6.1", "idle-thread-scan")
    for a_rows, b_rows in zip(one.ledgers, several.ledgers, strict=True):
        for a, b in zip(a_rows, b_rows, strict=True):
            # The end of a running segment is looked for one batch ahead at most.
            keys = a.keys() - {"lo_ns", "hi_ns"}
            assert {k: a[k] for k in keys} == {k: b[k] for k in keys}


def test_a_fork_of_4_5_migrates_its_child_to_where_it_is() -> None:
    """E8 D6: set_task_cpu tells of every child: migrate(child, 3->3)@3, then wakeup_new."""
    w = World(8, 12).add("fork", 900, 3, task=P, child=Q).migrate(950, 3, Q, 3, 3, curr=P)
    w.wakeup(1000, 3, Q, 3, new=True, curr=P)
    decisions = w.decisions((4, 5))
    (row,) = decisions.rows()
    assert (row["kind"], row["class"], row["prev_cpu"], row["chosen_cpu"]) == ("fork", "stayed", 3, 3)
    assert decisions.counts["resync"] == 0
