# SPDX-License-Identifier: GPL-2.0-or-later
"""When a task is on a wake list, and when nobody sees it there any more (replay/wake_lists.py)."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from world import World

from rewake.forms import ENUMS, Recording
from rewake.replay import _engine, wake_lists

LITTLE, BIG = 0, 1
CAPACITY = (512, 1024)
EVERY = 50_000
TIMES = 150
"""Enough of them for a median of their own."""


class Lists:
    """CPU 0 (512) and CPU 1 (1024). Every 50 us a CPU is interrupted for its wake list and queues two tasks, 6 and 8 us
    after that on CPU 0, half as late on CPU 1 (`takes`, ns: the first); and a probe sees a search end on it, whose
    result is recorded 2 us later on CPU 0, 1 us later on CPU 1. `sends`: as much later again it interrupts another CPU,
    and 10 us later again once more, for a task that stays."""

    n_parts = 1

    def __init__(
        self, kernel: str = "6.1.0", *, vectors: bool, probed: bool = False, sends: bool = False, takes: int = 3_000
    ) -> None:
        self.manifest = {"kernel": kernel}
        rows: list[tuple[int, str, dict[str, int]]] = []
        for cpu in (LITTLE, BIG):
            slow = 1024 // CAPACITY[cpu]
            for ts in range(cpu * EVERY // 2, TIMES * EVERY, EVERY):
                idle = {"cpu": cpu, "curr_task": cpu}
                if vectors:
                    kind = ENUMS["irq_kind"].index("call_function_single")
                    ipi = [("irq", idle | {"kind": kind, "entry": entry}) for entry in (1, 0)]
                else:
                    phases = [ENUMS["ipi_phase"].index(name) for name in ("entry", "exit")]
                    ipi = [("ipi", idle | {"phase": phase}) for phase in phases]
                queued = ("wakeup", idle | {"target_cpu": cpu, "task": 8})
                rows += [(ts, *ipi[0]), (ts + takes * slow, *queued), (ts + 4_000 * slow, *queued)]
                rows.append((ts + 5_000 * slow, *ipi[1]))
                if probed:
                    rows += [(ts + 20_000, "probe", {"cpu": cpu, "phase": 0})]
                    rows += [(ts + 21_000, "probe", {"cpu": cpu, "phase": 1})]
                cause = ENUMS["migrate_cause"].index("wake")
                moved = ts + 21_000 + 1_000 * slow
                rows += [(moved - 500, "waking", {"cpu": cpu}), (moved, "migrate", {"cpu": cpu, "cause": cause})]
                if sends:
                    send = ("ipi", {"cpu": cpu, "curr_task": 9, "phase": ENUMS["ipi_phase"].index("send")})
                    rows += [(moved + 1_000 * slow, *send), (moved + 10_000, "waking", {"cpu": cpu})]
                    rows.append((moved + 10_000 + 1_000 * slow, *send))
        self.tables: dict[str, list[dict[str, int]]] = {}
        for k, (ts, table, row) in enumerate(sorted(rows, key=lambda row: row[0])):
            self.tables.setdefault(table, []).append({"id": k, "ts_ns": ts} | row)

    def read_part(self, table: str, k: int, names: Any) -> dict[str, Any]:
        rows = self.tables.get(table, [])
        return {name: np.array([row[name] for row in rows], np.int64) for name in names} | (
            {"entry": np.array([row["entry"] for row in rows], np.bool_)} if "entry" in names else {}
        )

    def read(self, table: str, names: Any) -> dict[str, Any]:
        return {"cpu": np.arange(2, dtype=np.uint16), "capacity": np.array(CAPACITY, np.uint16)}


def lists(**how: Any) -> Recording:
    return cast(Recording, Lists(**how))


@pytest.mark.parametrize(
    ("kernel", "empty"), [("5.4.0", True), ("6.1.0-50", True), ("6.2.0", False), ("6.12.1", False)]
)
def test_only_old_kernels_clear_the_list_first(kernel: str, empty: bool) -> None:
    assert wake_lists.seen_empty(lists(kernel=kernel, vectors=True)) is empty


@pytest.mark.parametrize("vectors", [True, False])
def test_how_long_a_list_takes_to_empty_is_measured_by_capacity(vectors: bool) -> None:
    """To the first of its tasks; where less than 1.5 us of that remain it cannot be told."""
    assert wake_lists.clearing(lists(vectors=vectors), 2) == [2_160, 1_080]
    assert wake_lists.clearing(lists(vectors=vectors, takes=2_200), 2) == [1_584, 0]
    assert wake_lists.clearing(lists(vectors=vectors, takes=2_200), 2, agree=True) == [2_200, 1_100], "it can"


def test_interrupts_of_cpus_that_take_long() -> None:
    found = wake_lists.interrupts(lists(vectors=False), 0, [2_400, 0])
    assert set(np.asarray(found["cpu"]).tolist()) == {LITTLE}
    assert np.asarray(found["ts_ns"]).tolist() == list(range(0, TIMES * EVERY, EVERY)), "entries only"


def test_a_task_is_listed_later_where_the_waker_is_slow() -> None:
    assert wake_lists.listing(lists(vectors=True), 2, [2_000, 1_000], probes=True) == ([1_000, 500], [200, 100])


def test_with_probes_it_is_measured_as_their_searches_take_longer() -> None:
    expected = [2_000, 1_000]
    probed = lists(vectors=True, probed=True)
    assert wake_lists.listing(probed, 2, [20_000, 10_000], probes=True) == (expected, expected)
    longer = [3_000, 1_500]
    assert wake_lists.listing(probed, 2, [20_000, 10_000], probes=True, agree=True) == (longer, longer)
    assert wake_lists.listing(probed, 2, [2_000, 1_000], probes=False) == ([1_000, 500], [200, 100]), "they are ignored"


@pytest.mark.parametrize("vectors", [True, False])
def test_where_the_interrupts_are_recorded_as_they_are_sent_it_is_measured(vectors: bool) -> None:
    """Not by those for tasks that stay; these go by the search."""
    sent = lists(vectors=vectors, sends=True)
    assert wake_lists.listing(sent, 2, [20_000, 10_000], probes=False) == ([2_000, 1_000], [2_000, 1_000])


@pytest.mark.parametrize(("clearing", "idle"), [(0, 0), (4_000, 0), (2_000, 1)])
def test_who_searches_meanwhile_finds_the_cpu_idle(clearing: int, idle: int) -> None:
    """8 is put on CPU 1's list, which an interrupt at 52 us empties; at 55 us 9 is woken, which slept there, too."""
    w = World(4, 12)
    w.runs(1_000, 1, 8, 9).runs(1_100, 1, 9, 1).runs(1_200, 0, 0, 10, "R").runs(1_300, 2, 2, 11, "R")
    w.waking(50_000, 0, 8, 1, curr=10).add("ipi", 52_000, 1, curr_task=1, phase=ENUMS["ipi_phase"].index("entry"))
    w.waking(55_000, 2, 9, 1, curr=11).wakeup(58_000, 1, 8, 1).wakeup(58_500, 1, 9, 1)
    decisions = w.decisions((6, 1))
    batch = dict(decisions.batches[0])
    batch["wake_list"] = {name: batch["ipi"][name] for name in ("id", "ts_ns", "cpu")}
    options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0, "clearing": [0, clearing, 0, 0]}
    loop = _engine.OpenLoop(decisions.recorded, [("prev", {})], 0, options, [], [], World.running(decisions.batches))
    loop.run(batch, None, decisions.parts[0])
    outcome = loop.ledger(0)["outcome"][0]
    assert [int(o) & 1 for o in outcome] == [1, idle]


def test_a_policy_may_follow_the_interrupts_that_empty_wake_lists() -> None:
    """On x86 these are in the table of interrupts, too: one event then, which both hear."""
    w = World(4, 12)
    w.runs(1_000, 1, 8, 1).runs(1_200, 0, 0, 10, "R").runs(1_300, 2, 2, 11, "R")
    kind = ENUMS["irq_kind"].index("call_function_single")
    w.waking(50_000, 0, 8, 1, curr=10)
    w.add("irq", 52_000, 1, curr_task=1, kind=kind, entry=True).wakeup(54_000, 1, 8, 1)
    w.add("irq", 60_000, 1, curr_task=1, kind=kind, entry=False).runs(61_000, 1, 1, 8)
    decisions = w.decisions((6, 1))
    batch = dict(decisions.batches[0])
    irq: Any = batch["irq"]
    batch["wake_list"] = {name: irq[name][:1] for name in ("id", "ts_ns", "cpu")}
    options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0, "clearing": [0, 2_000, 0, 0]}
    running = World.running(decisions.batches)
    loop = _engine.OpenLoop(decisions.recorded, [("irq-aware", {})], 0, options, [], [], running)
    loop.run(batch, None, decisions.parts[0])
    assert len(loop.ledger(0)["cpu"][0]) == 1
    batch["wake_list"] = {name: irq[name] for name in ("id", "ts_ns", "cpu")} | {"id": irq["id"] - irq["id"][0]}
    with pytest.raises(ValueError, match="used twice"):
        loop.run(batch, None, decisions.parts[0])
