# SPDX-License-Identifier: GPL-2.0-or-later
"""Masks that sched_setaffinity changed during the recording: from the numbers that probes counted, and from where tasks
ran."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import World

from rewake.forms import ENUMS
from rewake.replay import affinity
from rewake.replay.affinity import ENOUGH, Masks

Decision = tuple[int, int | None, int]
"""Task, number of allowed CPUs as probed, chosen CPU."""


class Tables:
    """What affinity.infer() reads of a recording; the snapshot's mask of every task is 0-7."""

    def __init__(self, decisions: list[Decision]) -> None:
        task, _, chosen = zip(*decisions, strict=True) if decisions else ((), (), ())
        self.tables: dict[str, dict[str, Any]] = {
            "decision": {"task": np.array(task, np.uint32), "chosen_cpu": np.array(chosen, np.uint16)},
            "task_attr": {
                "task_id": np.arange(4, dtype=np.uint32),
                "allowed": (np.array(["0-7"] * 4, object), np.zeros(4, np.bool_)),
            },
        }

    def read(self, table: str, names: Any = None) -> dict[str, Any]:
        return self.tables[table]


def infer(decisions: list[Decision], names: tuple[int, ...] = (0, 1, 1, 2)) -> list[str | None]:
    counts = [n for _, n, _ in decisions]
    truth = {
        "nallowed": (np.array([n or 0 for n in counts], np.int32), np.array([n is None for n in counts], np.bool_))
    }
    found: Masks = affinity.infer(Tables(decisions), truth, np.array(names, np.int64), 8)  # type: ignore[arg-type]
    return [None if none else found.lists[k] for k, none in zip(found.of.tolist(), found.none.tolist(), strict=True)]


def test_a_mask_is_known_when_every_cpu_of_it_was_used() -> None:
    two = [(1, 2, 4), (1, 2, 5), (1, 2, 4)]
    assert infer(two) == [None, None, "4,5"]
    assert infer([(1, 8, 4), (1, None, 5), (1, 8, 4)]) == [None] * 3, "the snapshot's number, or none"
    assert infer([(1, 2, 4), (2, 2, 5), (1, 2, 4), (3, 2, 4)]) == [None, None, "4,5", None], "with tasks of its name"
    assert infer([*two, (1, 8, 0), (1, 2, 6), (1, 2, 7), (1, 2, 6), (1, 2, 6)])[-2:] == ["6,7", "6,7"], "another pair"
    assert infer([(1, 3, 4)] * (3 * ENOUGH) + [(1, 3, 5)])[-1] == "4", "so often that the others do not matter"
    assert infer([]) == []


decisions = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([None, 1, 2, 3, 8]), st.integers(0, 7)), min_size=1, max_size=40
)


@given(decisions, st.data())
def test_no_mask_depends_on_where_its_own_decision_went(rows: list[Decision], data: st.DataObject) -> None:
    i = data.draw(st.integers(0, len(rows) - 1))
    other = [*rows[:i], (*rows[i][:2], data.draw(st.integers(0, 7))), *rows[i + 1 :]]
    assert infer(rows)[: i + 1] == infer(other)[: i + 1]


class Moves:
    """What affinity.from_moves() reads: tasks 0 to 3 are of one process and 4 of none that is known; those in `moved`
    are moved at time 0, a millisecond apart, by a stopper."""

    def __init__(self, moved: list[int], placed: list[tuple[int, int]]) -> None:
        active = ENUMS["migrate_cause"].index("active")
        n, m = len(placed), len(moved)
        known = np.zeros(5, np.bool_)
        self.tables: dict[str, dict[str, Any]] = {
            "migrate": {
                "ts_ns": 1_000_000 * np.arange(m), "task": np.array(moved, np.uint32),
                "cause": (np.full(m, active, np.uint8), np.zeros(m, np.bool_)),
            },
            "task": {"task_id": np.arange(5, dtype=np.uint32), "tgid": (np.full(5, 70, np.uint32), known)},
            "decision": {
                "ts_ns": 100_000_000 + np.arange(n), "task": np.array([t for t, _ in placed], np.uint32),
                "chosen_cpu": np.array([c for _, c in placed], np.uint16),
            },
        }  # fmt: skip
        known[4] = True

    def read(self, table: str, names: Any = None) -> dict[str, Any]:
        return self.tables[table]


def after_moves(moved: list[int], placed: list[tuple[int, int]]) -> list[str | None]:
    """The masks of the placements, on a machine with 8 CPUs."""
    found = affinity.from_moves(Moves(moved, placed), 8)  # type: ignore[arg-type]
    if found is None:
        return [None] * len(placed)
    return [None if none else found.lists[k] for k, none in zip(found.of.tolist(), found.none.tolist(), strict=True)]


def test_tasks_of_a_process_that_are_moved_together_have_a_new_mask() -> None:
    placed = [(k % 4, 2 + k % 3) for k in range(5 * ENOUGH)] + [(4, 2)]
    learnt = 3 + 3 * ENOUGH
    found = after_moves([0, 1, 2], placed)
    assert found == [None] * learnt + ["2,3,4"] * (5 * ENOUGH - learnt) + [None]
    assert after_moves([0, 1, 1], placed) == after_moves([0, 1, 4], placed) == [None] * len(placed), "two are balanced"
    assert after_moves([0, 1, 2], [*placed, (0, 7), (0, 2)])[-2:] == ["2,3,4", None], "until one is elsewhere"


def test_changes_go_back_to_the_call_and_hold_for_the_whole_process() -> None:
    placed = [(k % 4, 2 + k % 3) for k in range(4 * ENOUGH)]
    wider = [*placed, *[(0, 2 + k % 4) for k in range(6 * ENOUGH)]]
    at, grew = 2_000_000, 100_000_000 + len(placed) + 3
    for rows, expected in (
        (placed, [(at, "2,3,4")]),
        (wider, [(at, "2,3,4"), (grew, "2,3,4,5")]),
        ([*placed, *[(1, cpu) for cpu in (0, 1, 5, 6, 7)]], [(at, "2,3,4"), (100_000_000 + len(placed) + 4, None)]),
    ):
        moves = Moves([0, 1, 2], rows)
        masks = affinity.from_moves(moves, 8)  # type: ignore[arg-type]
        assert masks is not None
        found = affinity.changes(moves, masks)  # type: ignore[arg-type]
        said = [(ts, None if k == affinity.ANY else masks.lists[k]) for ts, task, k in found if task == 0]
        assert said == expected
        assert [task for ts, task, _ in found if ts == at] == [0, 1, 2, 3], (
            "not 4, which is of no process that is known"
        )


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 7)), min_size=1, max_size=60),
    st.data(),
)
def test_no_mask_after_moves_depends_on_where_its_own_decision_went(
    rows: list[tuple[int, int]], data: st.DataObject
) -> None:
    rows = [*([(0, 1)] * (ENOUGH + 1)), *rows]
    i = data.draw(st.integers(0, len(rows) - 1))
    other = [*rows[:i], (rows[i][0], data.draw(st.integers(0, 7))), *rows[i + 1 :]]
    assert after_moves([0, 1, 2], rows)[: i + 1] == after_moves([0, 1, 2], other)[: i + 1]


@pytest.mark.parametrize("strays", [False, True])
def test_a_task_that_runs_outside_its_mask_may_use_all_cpus_from_then_on(strays: bool) -> None:
    """Task 8 may use CPUs 0 and 1; all but CPU 3 are busy when it is woken, and 3 was chosen."""
    w = World(4, 10, masks=["0-1"])
    w.tasks["allowed"][8] = 1
    for cpu in (0, 1, 2):
        w.runs(1000 + cpu, cpu, cpu, 4 + cpu, "R")
    if strays:
        w.runs(2000, 3, 3, 8, "R").runs(3000, 3, 8, 3)
    else:
        w.runs(2000, 3, 3, 7, "R").runs(3000, 3, 7, 3)
    w.waking(50_000, 0, 8, 1, curr=4).migrate(50_100, 0, 8, 1, 3, curr=4).wakeup(50_200, 0, 8, 3, curr=4)
    w.runs(60_000, 3, 3, 8, "R")
    row = next(r for r in w.decisions().replay("oracle-idle").ledgers[0] if r["cpu"] is not None)
    assert (row["cpu"] == 3) is strays
