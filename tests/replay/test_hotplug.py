# SPDX-License-Identifier: GPL-2.0-or-later
"""CPUs that go offline and come back, from the switches of their own kernel threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pytest
from world import World

from rewake.replay import _engine, hotplug
from rewake.replay.recorded import SCHED_SOFTIRQ

MS = 1_000_000
NAMES = {4: "cpuhp/1", 5: "migration/1", 6: "cpuhp/0", 7: "load"}


class Switches:
    """What hotplug reads of a recording: (ms, CPU, next task)."""

    def __init__(self, rows: list[tuple[float, int, int]]) -> None:
        self._con = duckdb.connect()
        self._con.execute("CREATE TABLE comm (id UINTEGER, name VARCHAR)")
        self._con.execute("CREATE TABLE task_attr (task_id UINTEGER, comm UINTEGER)")
        self._con.execute("CREATE TABLE switch (id BIGINT, ts_ns BIGINT, cpu USMALLINT, next_task UINTEGER)")
        for task, name in NAMES.items():
            self._con.execute("INSERT INTO comm VALUES (?, ?)", [task + 100, name])
            self._con.execute(
                "INSERT INTO task_attr VALUES (?, ?), (?, ?)", [task, task + 100] * 2
            )  # twice, as renamed
        for i, (ms, cpu, task) in enumerate(sorted(rows)):
            self._con.execute("INSERT INTO switch VALUES (?, ?, ?, ?)", [i, int(ms * MS), cpu, task])

    def connect(self, _: tuple[str, ...]) -> Any:
        return self._con.cursor()


DOWN = [(10.0, 1, 4), (10.1, 1, 1), (30.0, 1, 4), (36.0, 1, 1), (37.0, 1, 4), (37.2, 1, 1), (38.0, 1, 5)]
UP = [(100.0, 1, 5), (100.1, 1, 4), (100.2, 1, 1), (101.0, 1, 4), (107.0, 1, 7)]


def test_a_cpu_that_goes_and_comes_back() -> None:
    other = [(0.0, 0, 7), (40.0, 0, 6), (41.0, 0, 7), (50.0, 0, 0)]
    (found,) = hotplug.away(Switches([*other, *DOWN, *UP]))  # type: ignore[arg-type]
    assert found == hotplug.Away(1, 10 * MS, (30 * MS, 36 * MS), 38 * MS, (101 * MS, 107 * MS))
    assert hotplug.shapes([found]) == [
        (10 * MS, [1], [], False, False),
        (30 * MS, [1], [], False, True),
        (36 * MS, [], [1], False, False),
        (38 * MS, [], [1], True, False),
        (101 * MS, [], [1], True, True),
        (107 * MS, [], [], False, False),
    ]


@pytest.mark.parametrize("later", [110, 200, 600, 2000])
def test_a_cpu_that_goes_twice(later: int) -> None:
    """In between it is online, however soon it goes again."""
    again = [(ms + later, cpu, task) for ms, cpu, task in [*DOWN, *UP]]
    first, second = hotplug.away(Switches([*DOWN, *UP, *again]))  # type: ignore[arg-type]
    assert first == hotplug.Away(1, 10 * MS, (30 * MS, 36 * MS), 38 * MS, (101 * MS, 107 * MS))
    assert second == hotplug.Away(1, *_later(first[1:], later * MS))


def _later(times: Any, by: int) -> list[Any]:
    return [(t[0] + by, t[1] + by) if isinstance(t, tuple) else t + by for t in times]


def test_a_cpu_that_stays_away() -> None:
    (found,) = hotplug.away(Switches(DOWN))  # type: ignore[arg-type]
    assert found.returns == (hotplug.NEVER, hotplug.NEVER)
    assert hotplug.shapes([found])[-1] == (38 * MS, [], [1], True, False)


@pytest.mark.parametrize("rows", [[], [(10.0, 1, 5), (10.005, 1, 7)], [(10.0, 1, 5), (90.0, 1, 7)], DOWN[:-1]])
def test_a_stopper_alone_or_cpuhp_alone_is_no_hotplug(rows: list[tuple[float, int, int]]) -> None:
    assert not hotplug.away(Switches(rows))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "cpu", "branch"),
    [
        (None, 7, "SCAN"),  # the first idle thread behind the target
        ((0, [], [7], True, False), 1, "SCAN"),  # the next one
        ((0, [], [], False, True), 0, "X6"),  # no domains, no search
        ((0, [7], [], False, False), 0, "FALLBACK"),  # found, but takes no more tasks: lowest allowed CPU
    ],
)
def test_the_policies_have_the_machine_of_that_time(shape: hotplug.Shape | None, cpu: int, branch: str) -> None:
    w = World(8, 16, smt=2)  # cores {0, 4} .. {3, 7}, one LLC; 1, 2 and 7 are idle
    for k, c in enumerate((0, 3, 4, 5)):
        w.runs(1000 + k, c, c, 9 + k, "R")
    w.runs(2000, 2, 14, 2).runs(3000, 6, 6, 13, "R")
    w.waking(1_000_000, 3, 8, 0, curr=10).migrate(1_000_100, 3, 8, 0, 1, curr=10).wakeup(1_000_200, 3, 8, 1)
    replayed = w.decisions().replay("linux-6.12", shapes=[shape] if shape else [])
    (row,) = replayed.ledgers[0]
    assert (row["cpu"], _engine.BRANCHES[row["branch"]]) == (cpu, branch)


def gone(*cpus: int) -> list[hotplug.Shape]:
    """They have been offline from the start."""
    return [(0, [], list(cpus), True, True), (1, [], list(cpus), True, False)]


def decided(w: World, shapes: list[hotplug.Shape], policy: str) -> tuple[int, str]:
    row = w.decisions((6, 12)).replay(policy, shapes=shapes, sync=True).ledgers[0][-1]
    return row["cpu"], _engine.BRANCHES[row["branch"]]


@pytest.mark.parametrize("policy", ["linux-5.15", "linux-6.1", "linux-6.12"])
def test_without_a_pair_of_siblings_there_is_no_smt(policy: str) -> None:
    """The second threads of all cores are offline, and 5 of 8 CPUs busy: nr_idle_scan ends the search, which idle cores
    would have let go on."""

    def busy(smt: int) -> World:
        w = World(8 * smt, 40, smt=smt)
        for c in range(5):
            w.runs(1000, c, c, 20 + c, "R")
        for t in range(5 * MS, 2000 * MS, 5 * MS):
            w.runs(t, 5, 5, 30, "R").runs(t + 20_000, 5, 30, 5)
            w.waking(t + 4 * MS, 5, 30, 5, curr=5, ctx="hardirq").wakeup(t + 4 * MS + 100, 5, 30, 5, curr=5)
        return w.waking(2000 * MS + 1000, 0, 19, 0, curr=20).wakeup(2000 * MS + 1200, 0, 19, 0, curr=20)

    assert decided(busy(2), gone(*range(8, 16)), policy) == decided(busy(1), [], policy) == (0, "TARGET")


def test_a_cluster_of_one_cpu_is_none() -> None:
    """CPUs 0, 2, 4 and 6 are left of clusters of two. Prev 4 is in the LLC of CPU 0, and nothing lies between."""
    w = World(8, 40)
    for c in range(8):
        w.cpus[c]["cluster"] = c // 2 * 2
        w.domains[c]["level"] = 1
        w._domain(c, 0, "CLS", f"{c // 2 * 2}-{c // 2 * 2 + 1}", "SD_CLUSTER SD_SHARE_PKG_RESOURCES")
    w.runs(1000, 0, 0, 20, "R").runs(2000, 4, 4, 19, "R").runs(2 * MS, 4, 19, 4)
    w.waking(200 * MS, 0, 19, 4, curr=20).wakeup(200 * MS + 200, 0, 19, 4, curr=20)
    assert decided(w, [], "linux-6.12") == (1, "SCAN")
    assert decided(w, gone(1, 3, 5, 7), "linux-6.12") == (4, "X2")


@pytest.mark.parametrize("policy", ["linux-5.9", "linux-5.10", "linux-6.1", "linux-6.12"])
def test_cpus_of_one_capacity_that_are_left_are_symmetric(policy: str) -> None:
    """The big CPUs are offline: prev 2, idle, fits as any other, though the wakee could fill it."""
    w = World(8, 40)
    for c in w.cpus[:4]:
        c["capacity"] = 446
    w.runs(1000, 0, 0, 20, "R").runs(2000, 2, 2, 19, "R").runs(900 * MS, 2, 19, 2)
    w.waking(901 * MS, 0, 19, 2, curr=20).wakeup(901 * MS + 200, 0, 19, 2, curr=20)
    assert decided(w, [], policy)[0] == 4
    assert decided(w, gone(4, 5, 6, 7), policy) == (2, "X2")


@pytest.mark.parametrize("policy", ["linux-3.8", "linux-4.5"])
def test_groups_follow_the_lowest_cpu_that_is_left(policy: str) -> None:
    """Idle are cores {2, 6} and {1, 5}, of which 5 comes last once 1 is offline."""
    w = World(8, 40, smt=2)
    for c in (0, 3, 4, 7):
        w.runs(1000, c, c, 20 + c, "R")
    for c in (1, 2, 5, 6):
        w.runs(1000, c, 20 + c, c)
    w.waking(2 * MS, 0, 19, 0, curr=20).wakeup(2 * MS + 200, 0, 19, 0, curr=20)
    assert decided(w, [], policy) == (1, "RING")
    assert decided(w, gone(1), policy) == (2, "RING")


@pytest.mark.parametrize("policy", ["linux-6.0", "linux-6.1", "linux-6.12"])
def test_half_a_node_is_allowed_half_the_imbalance(policy: str) -> None:
    """imb_numa_nr of two nodes of 16 CPUs is 2, so a second task stays at home; of nodes of 8 it is 1."""
    w = World(32, 80, llcs=2)
    for c, cpu in enumerate(w.cpus):
        cpu["node"] = c // 16
        w.runs(1000, c, 40 + c, c)
    w.domains = [d | {"name": "NUMA", "flags": f"SD_NUMA {d['flags']}"} if d["level"] else d for d in w.domains]
    w.runs(2000, 0, 0, 40, "R").wakeup(2 * MS, 0, 39, 1, new=True, curr=40)
    assert decided(w, [], policy)[0] in range(1, 16)
    assert decided(w, gone(*range(8, 16), *range(24, 32)), policy)[0] in range(16, 24)


def test_offline_is_offline_however_long() -> None:
    """Prev 5 went offline, or was before the recording began: nobody tells what its cache was, so 1 is as near as 6."""

    def asked(w: World) -> World:
        w.runs(1000, 0, 0, 20, "R").runs(2000, 4, 4, 24, "R")
        return w.waking(2 * MS, 0, 19, 5, curr=20).migrate(2 * MS + 100, 0, 19, 5, 4).wakeup(2 * MS + 200, 4, 19, 4)

    before = World(8, 40, llcs=2)
    before.cpus[5]["online"] = False
    before.domains = [d for d in before.domains if d["cpu"] != 5]
    assert decided(asked(World(8, 40, llcs=2)), gone(5), "oracle-idle")[0] == 1
    assert decided(asked(before), [], "oracle-idle")[0] == 1


def halved(*wakeups: int) -> World:
    """CPUs 0 and 1 are busy, 0 with two tasks: it asks idle CPUs to balance, at every tick. The others have been idle
    since 20 ms. A task that was on CPU 1 is woken at these times, in ms."""
    w = World(8, 40)
    w.runs(1000, 0, 0, 20, "R").runs(2000, 1, 1, 21, "R").wakeup(3000, 0, 30, 0, curr=20)
    for c in range(2, 8):
        w.runs(20 * MS + c, c, 20 + c, c)
    for ms in wakeups:
        w.waking(ms * MS, 0, 19, 1, curr=20).wakeup(ms * MS + 200, 1, 19, 1, curr=21)
        w.runs(ms * MS + 1000, 1, 21, 19, "R").runs(ms * MS + 2000, 1, 19, 21)
    return w


def searched(w: World, *, at: int, balances: Sequence[int] = ()) -> list[bool]:
    """Whether the bound lets a search begin, where CPUs 4 to 7 leave in that ms. `balances`: when CPU 3 is known to
    balance; nothing: it is not known who does."""
    for ms in balances:
        w.add("softirq", ms * MS, 3, vec=SCHED_SOFTIRQ, phase=0)
    w.events.sort(key=lambda e: e[1]["ts_ns"])
    decisions = w.decisions((6, 12))
    for batch in decisions.batches if balances else []:
        batch["balance"] = {name: batch["softirq"][name] for name in ("id", "ts_ns", "cpu")}
    shapes = [(at * MS, [], [4, 5, 6, 7], True, True), (at * MS + 1, [], [4, 5, 6, 7], True, False)]
    (ledger,) = decisions.replay("linux-6.12", shapes=shapes).ledgers
    return [_engine.BRANCHES[row["branch"]] == "SCAN" for row in ledger]


@pytest.mark.parametrize("at", [97, 105, 109, 117])
def test_domains_that_were_just_built_are_balanced_at_their_own_intervals(at: int) -> None:
    """Of 4 CPUs these are 4 ms: with the next tick nr_idle_scan is no longer 0. Of 8 CPUs they were up to 16 ms,
    counted from when those were last balanced."""
    times = [*range(at - 2, at), *range(at + 1, at + 20)]
    first = at // 4 * 4 + 4
    assert searched(halved(*times), at=at) == [ms < at or ms >= first for ms in times]


@pytest.mark.parametrize("wakeups", [[90, 112], [90, 108, 112]])
def test_what_is_balanced_after_a_rebuild_counts_from_then_on(wakeups: list[int]) -> None:
    """At 110 ms, whether or not somebody was woken between."""
    found = searched(halved(*wakeups), at=100, balances=(40, 110))
    assert found == [not 100 <= ms < 110 for ms in wakeups]
