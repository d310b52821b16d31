# SPDX-License-Identifier: GPL-2.0-or-later
"""When a search looks at each CPU: what recordings tell of it, and what replay makes of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from world import World

from rewake.forms import ENUMS
from rewake.replay import _engine, looks
from rewake.replay.unseen import BLOCK_NS, FOLDS, fold_of

WAKE = ENUMS["migrate_cause"].index("wake")


class Tables:
    """A recording of two parts: wakeups one a block, of each of which the search took `took`."""

    n_parts = 2

    def __init__(self, took: Sequence[int]) -> None:
        n = len(took)
        ids, ts = 10 * np.arange(n), BLOCK_NS * np.arange(n)
        task, cpu = np.arange(n) % 7, np.arange(n) % 4
        none = np.zeros(n, np.bool_)
        self.tables: dict[str, dict[str, Any]] = {
            "decision": {"event_id": ids, "ts_ns": ts, "task": task, "waker_cpu": (cpu, none)},
            "migrate": {"id": ids + 1, "ts_ns": ts + np.array(took), "task": task, "cpu": cpu,
                        "cause": (np.full(n, WAKE), none)},
            "probe": {"id": ids + 1, "ts_ns": ts + np.array(took), "cpu": cpu, "phase": np.ones(n, np.uint8)},
        }  # fmt: skip

    def read(self, table: str, names: Sequence[str]) -> dict[str, Any]:
        return {name: self.tables[table][name] for name in names}

    def read_part(self, table: str, k: int, names: Sequence[str]) -> dict[str, Any]:
        half = len(self.tables["decision"]["ts_ns"]) // 2
        here = slice(0, half) if k == 0 else slice(half, None)
        cut = {True: lambda c: tuple(x[here] for x in c), False: lambda c: c[here]}
        return {name: cut[isinstance(column, tuple)](column) for name, column in self.read(table, names).items()}


def searches(n: int = 400) -> tuple[Any, list[int]]:
    """How many CPUs each examined, and what it took: 1 us and 70 ns each; now and then an interrupt."""
    searched = (np.arange(n) * 7 % 5).astype(np.int16)
    return searched, [1_000 + 70 * k + (5_000 if i % 9 == 8 else 0) for i, k in enumerate(searched.tolist())]


AHEAD = 600
"""How long before its event others see that a CPU is idle."""


def lines(
    tables: Tables, searched: Any, truth: Any = None, *, probed: bool = False, capacity: Sequence[int] = (1024,) * 4
) -> list[tuple[int, int]]:
    found = looks.calibrate(tables, searched, truth, probed=probed, capacity=list(capacity), ahead=AHEAD)  # type: ignore[arg-type]
    return found.lines


def test_searches_of_every_length_tell_what_a_cpu_takes() -> None:
    searched, took = searches()
    assert lines(Tables(took), searched) == [(1_000 + AHEAD - looks._TAIL, 70)] * FOLDS
    assert lines(Tables(took), searched, probed=True)[0] == (1_000 + AHEAD - looks._TAIL_PROBED, 70)
    few = np.where(searched < 3, searched, -1).astype(np.int16)
    assert lines(Tables(took), few) == [(0, 0)] * FOLDS, "of two lengths"
    assert lines(Tables([1_000] * len(took)), searched) == [(0, 0)] * FOLDS, "no longer for more CPUs: not told"
    assert lines(Tables([]), np.empty(0, np.int16)) == [(0, 0)] * FOLDS


def test_a_slow_cpu_takes_longer_for_its_searches() -> None:
    """CPUs 0 and 2 are half as fast as 1 and 3: 2 us and 140 ns a CPU; and one cannot tell for the other."""
    searched, took = searches()
    took = [t * (1 + (k + 1) % 2) for k, t in enumerate(took)]
    slow, fast = (2_000 + AHEAD - 2 * looks._TAIL, 140), (1_000 + AHEAD - looks._TAIL, 70)
    capacity = (512, 1024, 512, 1024)
    assert lines(Tables(took), searched, capacity=capacity) == [slow] * FOLDS + [fast] * FOLDS
    found = looks.calibrate(Tables(took), searched, None, probed=False, capacity=list(capacity), ahead=AHEAD)  # type: ignore[arg-type]
    decisions = Tables(took).tables["decision"]
    which = found.line_of(decisions, 0)
    assert (which // FOLDS == np.arange(len(took)) % 2).all()
    assert (which % FOLDS == fold_of(decisions["ts_ns"], 0)).all()
    only_fast = np.where(np.arange(len(took)) % 2, searched, -1).astype(np.int16)
    assert lines(Tables(took), only_fast, capacity=capacity) == [(0, 0)] * FOLDS + [fast] * FOLDS
    many = looks.calibrate(Tables([]), np.empty(0, np.int16), None, probed=False, capacity=list(range(1, 99)), ahead=0)  # type: ignore[arg-type]
    assert len(many.lines) == FOLDS


def test_probes_time_the_call() -> None:
    searched, took = searches()
    tables = Tables(took)
    decision = tables.tables["decision"]
    none = np.zeros(len(took), np.bool_)
    truth = {"probe_id": (decision["event_id"], none), "probe_ns": (decision["ts_ns"] + 300, none)}
    assert lines(tables, searched, truth, probed=True) == [(700 + AHEAD - looks._TAIL, 70)] * FOLDS


def test_no_fold_hears_its_own_searches() -> None:
    searched, took = searches()
    fold = fold_of(np.arange(len(took), dtype=np.int64) * BLOCK_NS, 0)
    other = [t + 40 * int(k) if f == 2 else t for t, k, f in zip(took, searched, fold, strict=True)]
    before, after = (lines(Tables(t), searched) for t in (took, other))
    assert after[2] == before[2]


@pytest.mark.parametrize(("from_", "chosen"), [(300, 3), (700, 2), (None, 2)])
def test_replay_looks_at_each_cpu_when_the_search_came_to_it(from_: int | None, chosen: int) -> None:
    """CPUs 0 and 1 are busy, 2 goes idle 700 ns after the wakeup, 3 is idle; the placement ends 2 us after it began."""
    w = World(4, 12)
    w.runs(1_000, 1, 1, 8).runs(1_100, 2, 2, 7).runs(1_200, 0, 0, 10).runs(1_300, 3, 11, 3)
    w.waking(60_000, 0, 9, 1, curr=10).runs(60_700, 2, 7, 2).wakeup(64_000, 3, 9, 3)
    decisions = w.decisions((6, 1))
    options: Any = {
        "sync": False,
        "hz": 250,
        "migration_cost": 500_000,
        "inferred": 0,
        "settle": [2_000] * 4,
    }
    if from_ is not None:
        options["looks"] = [(0, 0), (from_, 50)]
    running = World.running(decisions.batches)
    loop = _engine.OpenLoop(decisions.recorded, [("linux-6.1", {})], 0, options, [], [], running)
    part = dict(decisions.parts[0]) | {"looks": np.ones(len(decisions.parts[0]["event_id"]), np.uint8)}
    loop.run(decisions.batches[0], None, part)
    assert loop.ledger(0)["cpu"][0].tolist() == [chosen]


@pytest.mark.parametrize(("idle_at", "recent"), [(60_700, 1), (None, 2)])
def test_a_choice_that_comes_out_where_the_placement_ends_leaves_behind_what_is_left_there(
    idle_at: int | None, recent: int
) -> None:
    """recent_used_cpu of task 9, before CPU 1, after it stayed on CPU 2. That goes idle 700 ns after the wakeup, behind
    the look at it as inferred, by which it would have gone to CPU 3; or it stays busy, and the choice comes out
    nowhere."""
    w = World(4, 12)
    w.runs(1_000, 2, 2, 10, "R").runs(1_100, 0, 0, 7, "R").runs(1_200, 1, 9, 11).runs(1_300, 3, 3, 6, "R")
    w.waking(10_000, 0, 9, 1, curr=7).migrate(10_100, 0, 9, 1, 2, curr=7).wakeup(10_200, 0, 9, 2)
    w.runs(20_000, 2, 10, 9, "R").runs(30_000, 2, 9, 10).runs(31_000, 3, 6, 3)
    w.waking(60_000, 0, 9, 2, curr=7)
    if idle_at is not None:
        w.runs(idle_at, 2, 10, 2)
    w.wakeup(64_000, 2, 9, 2)
    w.runs(65_000, 2, 10 if idle_at is None else 2, 9, "R")
    w.runs(70_000, 2, 9, 2).waking(90_000, 0, 9, 2, curr=7).wakeup(94_000, 2, 9, 2)
    decisions = w.decisions((6, 1))
    options: Any = {
        "sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0, "settle": [2_000] * 4,
        "looks": [(300, 50)], "own": [True], "log_inputs": True,
    }  # fmt: skip
    loop = _engine.OpenLoop(
        decisions.recorded, [("linux-6.1", {})], 0, options, [], [], World.running(decisions.batches)
    )
    loop.run(decisions.batches[0], None, decisions.parts[0])
    assert loop.ledger(0)["cpu"][0][1] == 3
    assert loop.inputs()["recent_cpu"][2] == recent
