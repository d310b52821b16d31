# SPDX-License-Identifier: GPL-2.0-or-later
"""Open loop: what the ledger says of hand-made recordings, and the invariants that hold for every policy."""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from hypothesis import given, settings
from world import World, schedules

from rewake.forms import ENUMS, INPUTS, OUTCOMES, Recording
from rewake.replay import _engine
from rewake.replay.loop import _lead, _placing, _settle, _tick_at
from rewake.replay.recorded import running, unswitched


def bit(name: str) -> int:
    return 1 << OUTCOMES.index(name)


def test_eight_cold_tasks_pile_up_on_cpu_0() -> None:
    """Every core {i, i+16} half busy: only the linear scan finds idle threads, and always CPU 0 first."""
    w = World(32, 80, smt=2)
    busy = [c for c in range(32) if c >= 9]  # CPUs 0..8 idle, their siblings 16..24 busy
    for k, c in enumerate(busy):
        w.runs(1000 + k, c, c, 40 + k, "R")
    home = [9, 10, 11, 12, 13, 14, 15, 25]
    for k, cpu in enumerate(home):  # sleepers 70..77 went to sleep there long ago
        hog = 40 + busy.index(cpu)
        w.runs(2000 + 2 * k, cpu, hog, 70 + k, "R").runs(2001 + 2 * k, cpu, 70 + k, hog)
    waker = 40 + busy.index(31)
    for k, cpu in enumerate(home):
        t = 50_000_000 + 1000 * k
        w.waking(t, 31, 70 + k, cpu, curr=waker).migrate(t + 100, 31, 70 + k, cpu, 1 + k, curr=waker)
        w.wakeup(t + 200, 31, 70 + k, 1 + k)
    decisions = w.decisions((4, 5))
    assert decisions.counts["resync"] == 0
    assert [r["class"] for r in decisions.rows()] == ["moved"] * 8
    assert all(r["chosen_idle"] for r in decisions.rows())
    replayed = decisions.replay("recorded", "idle-thread-scan")
    assert [row["cpu"] for row in replayed.ledgers[1]] == [0] * 8
    assert [_engine.BRANCHES[row["branch"]] for row in replayed.ledgers[1]] == ["LINEAR"] * 8
    assert replayed.totals[1]["self_collision"] == 7
    assert replayed.totals[0]["self_collision"] == 0
    assert replayed.totals[1]["exposed"] == 7


def test_a_pick_stops_counting_when_its_task_sleeps() -> None:
    w = World(4, 12)
    w.runs(1000, 1, 8, 1).runs(1100, 2, 9, 2)
    w.waking(10000, 0, 8, 1, curr=10).migrate(10100, 0, 8, 1, 3, curr=10).wakeup(10200, 0, 8, 3).runs(
        10300, 3, 3, 8, "R"
    )
    w.runs(20000, 3, 8, 3)  # asleep again: `waker` no longer has it on CPU 0
    w.waking(30000, 0, 9, 2, curr=10).wakeup(30200, 2, 9, 2)
    (waker,) = w.decisions().replay("waker").totals
    assert waker["self_collision"] == 0
    w2 = World(4, 12)
    w2.events = [e for e in w.events if e[1]["ts_ns"] != 20000]
    (waker,) = w2.decisions().replay("waker").totals
    assert waker["self_collision"] == 1


def test_bounds_of_a_busy_and_an_idle_target() -> None:
    """D1: busy: remaining segment, plus a slice; idle: the given range; known: the recorded latency."""
    w = World(4, 12, llcs=2)
    w.runs(1000, 1, 8, 1).runs(1500, 0, 0, 10, "R")
    w.waking(10_000, 0, 8, 1, curr=10).wakeup(10_200, 0, 8, 1).runs(11_000, 1, 1, 8, "R").runs(500_000, 0, 10, 0)
    r = w.decisions().replay("recorded", "waker", "oracle-idle", same_llc=[(7, 9)], cross_llc=[(70, 90)])
    assert (r.ledgers[0][0]["lo_ns"], r.ledgers[0][0]["hi_ns"], r.ledgers[0][0]["known"]) == (1000, 1000, True)
    assert r.ledgers[1][0]["lo_ns"] == 490_000  # until 10 blocks on CPU 0
    # k = 1 + log2(4) = 3; slice = max(0.75 ms * 3, 6 ms * 3 / 2) = 9 ms
    assert r.ledgers[1][0]["hi_ns"] == 490_000 + 9_000_000
    assert r.ledgers[1][0]["outcome"] & bit("stacked")
    assert r.ledgers[1][0]["outcome"] & bit("idle_missed_llc")
    moved = w.decisions().replay("random-idle", same_llc=[(7, 9)], cross_llc=[(70, 90)], seed=3).ledgers[0][0]
    assert moved["known"] or (moved["lo_ns"], moved["hi_ns"]) in {(7, 9), (70, 90)}


@pytest.mark.parametrize(
    ("busy_us", "expected"),
    [(1200, 4), (300, 2)],  # of each 4 ms tick: 27 of 93 is heavy, 6 is not
)
def test_irq_aware_passes_over_a_heavy_cpu(busy_us: int, expected: int) -> None:
    """policies.md E4 I1 from events: CPUs 2 and 4 idle, prev 2. 7 of 8 CPUs are clean, so the threshold is 10."""
    w = World(8, 24)
    for cpu in range(8):
        w.runs(1000 + cpu, cpu, cpu, 10 + cpu, "R")
    for tick in range(48):
        ts = 1_000_000 + tick * 4_000_000
        w.add("irq", ts, 2, entry=True, kind=0, vector=9, curr_task=12)
        w.add("irq", ts + 100, 2, entry=True, kind=1, vector=236, curr_task=12)  # nested: counted once
        w.add("irq", ts + 200, 2, entry=False, kind=1, vector=236, curr_task=12)
        w.add("irq", ts + busy_us * 1000, 2, entry=False, kind=0, vector=9, curr_task=12)
    w.runs(193_000_000, 4, 14, 4).runs(193_100_000, 2, 12, 2)
    w.waking(193_200_000, 0, 12, 2, curr=10).wakeup(193_200_100, 2, 12, 2)
    replayed = w.decisions((4, 12)).replay("linux-4.12", "irq-aware", "irq-aware:threshold=1000")
    plain, aware, control = (rows[0]["cpu"] for rows in replayed.ledgers)
    assert (plain, aware, control) == (2, expected, 2)
    assert replayed.ledgers[1][0]["inputs_assumed"] & (1 << INPUTS.index("irq_load"))


@pytest.mark.parametrize(
    ("policy", "ctx", "second"),
    [
        ("linux-5.9", "hardirq", (0, "X3")),
        ("asym-prefer-prev", "hardirq", (0, "X3")),
        ("linux-5.10", "hardirq", (0, "X3")),
        ("linux-5.10:X3_IN_TASK=1", "hardirq", (2, "CPU")),
        ("linux-5.10:X3_IN_TASK=1", "task", (0, "X3")),
        ("linux-6.12", "hardirq", (2, "SCAN")),  # X3 asks for task context
        ("linux-6.12", "task", (0, "X3")),
    ],
)
def test_an_idle_task_is_a_kthread_of_one_cpu(policy: str, ctx: str, second: tuple[int, str]) -> None:
    """Idle CPU 0 wakes two tasks that slept there. The second stacks on the first, for X3 takes the idle task for a
    per-CPU kthread."""
    w = World(4, 12)
    w.runs(1000, 1, 1, 11, "R")
    w.waking(10_000_000, 0, 8, 0, curr=0, ctx=ctx).wakeup(10_000_100, 0, 8, 0)
    w.waking(10_001_000, 0, 9, 0, curr=0, ctx=ctx).migrate(10_001_050, 0, 9, 0, 2, ctx=ctx).wakeup(10_001_100, 0, 9, 2)
    rows = w.decisions((5, 10)).replay(policy).ledgers[0]
    assert [(row["cpu"], _engine.BRANCHES[row["branch"]]) for row in rows] == [(0, "X1"), second]


@pytest.mark.parametrize("policy", [p["name"] for p in _engine.policies() if not p["reference"]])
def test_a_search_looks_at_the_domains_where_there_are_none(policy: str) -> None:
    """CPU 3 alone is idle, and only LLCs say whether it is near prev: here the waker's CPU, where no affine level is
    looked for, and a CPU from which a waker that p may not join wakes it."""
    w = World(4, 14, masks=["1-3"])
    w.domains = []
    w.tasks["allowed"][9] = 1
    for cpu in range(3):
        w.runs(1000 + cpu, cpu, cpu, 10 + cpu, "R")
    w.runs(2000, 0, 10, 8).runs(2100, 0, 8, 10).runs(2200, 1, 11, 9).runs(2300, 1, 9, 11)
    w.waking(10_000, 0, 8, 0, curr=10).wakeup(10_200, 0, 8, 0)
    w.waking(20_000, 0, 9, 1, curr=10).wakeup(20_200, 1, 9, 1)
    rows = w.decisions().replay(policy).ledgers[0]
    assert [bool(row["inputs_assumed"] & (1 << INPUTS.index("domains"))) for row in rows] == [True, True]


@pytest.mark.parametrize("offline", [0, 4])
def test_the_threshold_of_irq_aware_is_of_the_cpus_that_are_online(offline: int) -> None:
    """CPU 2 of four spends a quarter of its time in interrupts: three clean CPUs are not more than 80 %, so the
    threshold is above its load, and CPU 2 as good as any."""
    w = World(4, 40)
    w.cpus += [w.cpus[0] | {"cpu": c, "core": c, "llc": c, "online": False} for c in range(4, 4 + offline)]
    for cpu in range(4):
        w.runs(1000 + cpu, cpu, cpu, 20 + cpu, "R")
    for ts in range(2_000_000, 490_000_000, 4_000_000):
        w.add("irq", ts, 2, kind=0, vector=9, entry=True, curr_task=22)
        w.add("irq", ts + 1_000_000, 2, kind=0, vector=9, entry=False, curr_task=22)
    w.runs(494_000_000, 3, 23, 3).runs(495_000_000, 2, 22, 2)
    w.waking(496_000_000, 0, 22, 2, curr=20).wakeup(496_000_200, 2, 22, 2)
    replayed = w.decisions((4, 12)).replay("irq-aware", "irq-aware:threshold=10")
    assert [rows[0]["cpu"] for rows in replayed.ledgers] == [2, 3]


def test_buckets_hold_one_percent() -> None:
    w = World(2, 12)
    latencies = [1, 2, 3, 99, 100, 101, 12345, 999_999, 1_000_000, 123_456_789]
    ts = 1000
    w.runs(ts, 1, 8, 1)
    for lat in latencies:
        ts += 1_000_000
        w.waking(ts, 0, 8, 1, curr=0).wakeup(ts, 0, 8, 1).runs(ts + lat, 1, 1, 8, "R")
        ts += lat + 100_000
        w.runs(ts, 1, 8, 1)
    buckets = w.decisions().replay("recorded").recorded
    gamma = 1.01 / 0.99
    assert sum(n for _, n in buckets) == len(latencies)
    seen = [b for b, n in buckets for _ in range(n)]
    for bucket, latency in zip(seen, sorted(latencies), strict=True):
        assert bucket == pytest.approx(math.ceil(math.log(latency) / math.log(gamma) - 1e-9), abs=0)
        assert 2 * gamma**bucket / (gamma + 1) == pytest.approx(latency, rel=0.0101)


POLICIES = ("recorded", "prev", "waker", "random-idle", "oracle-idle", "linux-6.1", "linux-4.5", "idle-thread-scan")


@settings(max_examples=60)
@given(schedules())
def test_invariants_of_every_policy(world: World) -> None:
    if not world.events:
        return
    decisions = world.decisions()
    rows = decisions.rows()
    replayed = decisions.replay(*POLICIES, same_llc=[(5, 50)])
    again = decisions.replay(*POLICIES, same_llc=[(5, 50)])
    assert replayed.ledgers == again.ledgers
    for name, ledger in zip(POLICIES, replayed.ledgers, strict=True):
        alone = decisions.replay(name, same_llc=[(5, 50)]).ledgers[0]
        assert alone == ledger, "a policy must not see its neighbours"
        for row, decision in zip(ledger, rows, strict=True):
            assert row["cpu"] is not None
            assert row["known"] == (row["cpu"] == decision["chosen_cpu"])
            if row["known"]:
                assert row["lo_ns"] == row["hi_ns"] == decision["latency_ns"]
            elif row["lo_ns"] is not None and row["hi_ns"] is not None:
                assert 0 <= row["lo_ns"] <= row["hi_ns"]
            idle = bool(row["outcome"] & bit("target_idle"))
            assert not (idle and row["outcome"] & (bit("idle_missed_llc") | bit("idle_missed_machine")))
            assert row["inputs_assumed"] < 1 << len(INPUTS)
    by_name = dict(zip(POLICIES, replayed.ledgers, strict=True))
    assert all(r["known"] for r in by_name["recorded"])
    assert [r["cpu"] for r in by_name["prev"]] == [d["prev_cpu"] for d in rows]
    assert [r["cpu"] for r in by_name["waker"]] == [d["waker_cpu"] for d in rows]
    for r in by_name["oracle-idle"]:
        assert r["outcome"] & bit("target_idle") or not r["outcome"] & bit("idle_missed_machine")
    assert replayed.totals[0]["self_collision"] == 0


def test_enumerations_of_the_engine_are_those_of_the_forms() -> None:
    assert {name: list(ENUMS[name]) for name in _engine.ENUMS} == _engine.ENUMS
    assert list(_engine.INPUTS) == list(INPUTS)
    assert list(_engine.OUTCOMES) == list(OUTCOMES)


class Ticks:
    """A recording's interrupts and softirqs."""

    n_parts = 1

    def __init__(self, timer: list[int], sched: list[int]) -> None:
        self._ts = {"irq": timer, "softirq": sched}

    def read_part(self, table: str, _part: int, _columns: Any) -> dict[str, Any]:
        ts = np.array(self._ts[table], np.int64)
        code = {
            "kind": ENUMS["irq_kind"].index("local_timer"), "entry": True, "vec": 7,
            "phase": ENUMS["softirq_phase"].index("entry"),
        }  # fmt: skip
        return {"ts_ns": ts} | {name: np.full(len(ts), value) for name, value in code.items()}


def test_ticks_are_known_by_their_softirqs_where_no_timer_is_recorded() -> None:
    tick = 4_000_000
    softirqs = [k * tick + 1_203_000 for k in range(9)] + [k * tick + 700_000 * k for k in range(5)]
    timers = [k * tick + 1_201_000 for k in range(9)]
    assert _tick_at(cast(Recording, Ticks(timers, softirqs)), 250) == 1_201_000
    assert _tick_at(cast(Recording, Ticks([], softirqs)), 250) == 1_200_000
    assert _tick_at(cast(Recording, Ticks([], [])), 250) == 0


class Silent:
    """A recording in which only CPU 0 switches; on CPU 1 a task wakes others, CPU 2 is ticked while idle."""

    n_parts = 2
    manifest: ClassVar[dict[str, Any]] = {}

    def read_part(self, table: str, part: int, _columns: Any) -> dict[str, Any]:
        rows = {("switch", 0): (0, 0, 9), ("waking", 1): (1, 7, 0), ("irq", 1): (2, 2, 0)}.get((table, part))
        columns = zip(("cpu", "curr_task", "prev_task"), rows or (0, 0, 0), strict=True)
        return {name: np.array([value] if rows else [], np.uint32) for name, value in columns}


def test_a_cpu_that_never_switches_runs_what_wakes_others_there() -> None:
    assert running(cast(Recording, Silent()), 4) == [(1, 7), (2, 2)]


class Unswitched:
    """A recording in which only CPU 0 switches. CPU 1 is idle, on CPU 2 one task wakes others, on CPU 3 two do."""

    n_parts = 2

    def read_part(self, table: str, part: int, names: Any) -> dict[str, Any]:
        waking = ([1, 2, 2, 3], [1, 7, 7, 8]) if part else ([3], [9])
        cpu, curr = {"switch": ([0], [0]), "waking": waking}.get(table, ([], []))
        return {name: np.array({"cpu": cpu, "curr_task": curr}[name], np.uint32) for name in names}


def test_a_cpu_where_several_tasks_run_and_none_switches() -> None:
    assert unswitched(cast(Recording, Unswitched()), 4) == [3]


class Placements:
    """What _placing() reads of a recording whose CPU 0 has half the capacity of CPU 1. `moved`: per CPU how many of its
    wakeups moved, and how long each took."""

    n_parts = 1

    def __init__(self, moved: dict[int, tuple[int, int]]) -> None:
        cpu = np.repeat(list(moved), [n for n, _ in moved.values()]).astype(np.uint16)
        took = np.repeat([ns for _, ns in moved.values()], [n for n, _ in moved.values()])
        begin = 100_000 * np.arange(len(cpu), dtype=np.int64)
        head = {"cpu": cpu, "task": np.full(len(cpu), 9, np.uint32)}
        wake = np.full(len(cpu), ENUMS["migrate_cause"].index("wake"), np.uint8)
        self.tables: dict[str, dict[str, Any]] = {
            "waking": head | {"id": 2 * np.arange(len(cpu)), "ts_ns": begin},
            "migrate": head | {"id": 2 * np.arange(len(cpu)) + 1, "ts_ns": begin + took, "cause": wake},
            "switch": {name: np.empty(0, np.int64) for name in ("id", "ts_ns", "prev_task")},
            "cpu": {"cpu": np.arange(2, dtype=np.uint16), "capacity": np.array([512, 1024], np.uint16)},
        }

    def read_part(self, table: str, k: int, names: Any) -> dict[str, Any]:
        return self.tables[table]

    def read(self, table: str, names: Any) -> dict[str, Any]:
        return self.tables[table]


def test_a_placement_takes_as_long_as_the_capacity_of_its_cpu_says_where_too_few_were_timed() -> None:
    def placing(moved: dict[int, tuple[int, int]]) -> list[int]:
        return _placing(cast(Recording, Placements(moved)), 2)

    assert placing({0: (10, 1_900), 1: (200, 1_000)}) == [2_000, 1_000]
    assert placing({0: (150, 1_900), 1: (200, 1_000)}) == [1_900, 1_000], "each by its own"
    assert placing({0: (10, 2_000)}) == [2_000, 1_000]
    assert placing({}) == [0, 0]


def test_a_cpu_of_half_the_capacity_takes_twice_as_long_from_a_change_to_its_event() -> None:
    machine = Placements({})
    assert _lead(cast(Recording, machine), 3, 800, 600) == [(800, 600), (0, 0), (0, 0)]
    assert _lead(cast(Recording, machine), 3, 600, 0) == [(600, 0), (0, 0), (0, 0)]
    for all_of_them in (1024, 512):
        machine.tables["cpu"]["capacity"] = np.array([all_of_them] * 2, np.uint16)
        assert _lead(cast(Recording, machine), 2, 800, 600) == []


def test_a_search_on_a_slow_cpu_sees_less_of_what_others_record_later() -> None:
    assert _settle([2_000, 1_000], [], probes=False) == [2_200, 1_100]
    assert _settle([2_000, 1_000], [], probes=True) == [1_800, 900]
    assert _settle([2_000, 1_000], [(800, 600), (0, 0)], probes=False) == [1_600, 1_100]
    assert _settle([500, 0], [(800, 600)] * 2, probes=False) == [1, 0], "0: at once"
