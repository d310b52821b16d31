# SPDX-License-Identifier: GPL-2.0-or-later
"""Forks and execs are decided before the events that open them (replay/early.py)."""

from __future__ import annotations

from typing import Any, cast

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world import World, schedules

from rewake.forms import ENUMS, Recording
from rewake.replay import early

KIND, CAUSE = ENUMS["decision_kind"].index, ENUMS["migrate_cause"].index
WAKE, FORK, EXEC = KIND("wake"), KIND("fork"), KIND("exec")
STOPPER, CHILD = 2, 3

Rows = list[tuple[Any, ...]]

_DECISION = "event_id BIGINT, ts_ns BIGINT, kind UTINYINT, task UINTEGER, prev_cpu USMALLINT, chosen_cpu USMALLINT"


class Told:
    """A recording of these rows. `decisions`: (event, ts, kind, task, prev, chosen)."""

    def __init__(self, decisions: Rows, *, switch: Rows = (), migrate: Rows = (), waking: Rows = (), wakeup: Rows = ()):  # type: ignore[assignment]
        self.decisions = decisions
        columns = "id BIGINT, ts_ns BIGINT, cpu USMALLINT"
        self.tables = {
            "switch": (f"{columns}, next_task UINTEGER", switch),
            "migrate": (f"{columns}, task UINTEGER, curr_task UINTEGER, cause UTINYINT, irq_ctx UTINYINT", migrate),
            "waking": (f"{columns}, task UINTEGER", waking),
            "wakeup": (f"{columns}, task UINTEGER, is_new BOOLEAN", wakeup),
            "task_attr": ("task_id UINTEGER, cgroup UINTEGER", [(CHILD, 1), (7, 1), (8, 2)]),
            "decision": (
                f"decision_id BIGINT, {_DECISION}",
                [(k, *row) for k, row in enumerate(decisions)],
            ),
        }

    def connect(self, names: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
        con = duckdb.connect()
        for name in names:
            columns, rows = self.tables[name]
            con.execute(f"CREATE TABLE {name} ({columns})")
            for row in rows:
                con.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        return con

    def read(self, table: str, names: tuple[str, ...]) -> dict[str, Any]:
        assert table == "decision"
        at = {"ts_ns": 1, "kind": 2}
        return {name: np.array([row[at[name]] for row in self.decisions], np.int64) for name in names}


def decided(told: Told, truth: Any = None) -> list[int] | None:
    found = early.decided(cast(Recording, told), truth)
    return None if found is None else found.tolist()


def moved(event: int, ts: int, task: int = 5) -> tuple[tuple[Any, ...], Rows, Rows, Rows]:
    """An exec on CPU 1, 200 us after the task got it; 10 us before that the stopper had moved it from CPU 0, where the
    task had woken it 14 us before."""
    return (
        (event, ts, EXEC, task, 0, 1),
        [(event - 1, ts - 200_000, 1, task)],
        [(event - 2, ts - 210_000, 0, task, STOPPER, CAUSE("exec"), 0)],
        [(event - 3, ts - 224_000, 0, STOPPER)],
    )


def test_an_exec_that_moved_was_decided_when_the_stopper_was_woken() -> None:
    row, switch, migrate, waking = moved(10, 1_000_000)
    assert decided(Told([row], switch=switch, migrate=migrate, waking=waking)) == [776_000]


def test_an_exec_that_stayed_was_decided_as_long_before_as_those_that_moved_ran_until_theirs() -> None:
    row, switch, migrate, waking = moved(10, 1_000_000)
    execs = [row, (20, 2_000_000, EXEC, 6, 2, 2), (30, 3_000_000, EXEC, 7, 2, 2)]
    switch = [*switch, (11, 1_500_000, 2, 6), (21, 2_900_000, 2, 7)]
    told = Told(execs, switch=switch, migrate=migrate, waking=waking)
    assert decided(told) == [776_000, 1_800_000, 2_900_000], "not before it ran"


def test_where_no_exec_moved_nothing_tells_of_those_that_stayed() -> None:
    assert decided(Told([(20, 2_000_000, EXEC, 6, 2, 2)], switch=[(11, 1_500_000, 2, 6)])) is None


def queueing(n: int, task: int) -> dict[str, Rows]:
    """`n` wakeups move the task, and its waker queues it 3 to 4 us later."""
    at = [(2 * k, 10_000 * k, 3_000 + 1_000 * k // n) for k in range(n)]
    return {
        "migrate": [(event, ts, 0, task, 4, CAUSE("wake"), 0) for event, ts, _ in at],
        "wakeup": [(event + 1, ts + ns, 0, task, False) for event, ts, ns in at],
    }


@pytest.mark.parametrize(
    ("n", "task", "expected"),
    [(40, 7, [-1, 996_975]), (19, 7, None), (40, 8, None)],
    ids=["told", "few", "other cgroup"],
)
def test_a_fork_was_decided_as_long_before_as_queueing_takes(n: int, task: int, expected: list[int] | None) -> None:
    told = Told([(90, 900_000, WAKE, 5, 0, 0), (100, 1_000_000, FORK, CHILD, 0, 0)], **queueing(n, task))
    assert decided(told) == expected


def test_where_the_call_was_seen_it_is_when_that_returned() -> None:
    row, switch, migrate, waking = moved(10, 1_000_000)
    rows = [row, (20, 2_000_000, FORK, CHILD, 0, 1), (30, 3_000_000, WAKE, 5, 0, 1), (40, 4_000_000, FORK, CHILD, 0, 1)]
    truth = {"returned_ns": (np.array([770_000, 1_990_000, 2_990_000, 0]), np.array([False, False, False, True]))}
    told = Told(rows, switch=switch, migrate=migrate, waking=waking)
    assert decided(told, truth) == [770_000, 1_990_000, -1, -1], "wakeups have their own way"


def exec_on_a_busy_machine() -> World:
    """Task 4 execs on CPU 0, where 8 waits behind it, and goes to CPU 1, the one that is idle. From 95 us on that is
    CPU 2, and from 100 us on 11 waits behind 4."""
    w = World(4, 12)
    w.tasks["stopper"][9] = True
    w.runs(1_000, 0, 0, 4, "R").runs(1_100, 2, 2, 6, "R").runs(1_200, 3, 3, 7, "R")
    w.waking(20_000, 0, 8, 0, 4).wakeup(21_000, 0, 8, 0, curr=4)
    w.waking(50_000, 0, 9, 0, 4, prio=0).wakeup(51_000, 0, 9, 0, curr=4)
    w.runs(52_000, 0, 4, 9, "R").migrate(53_000, 0, 4, 0, 1, 9).runs(54_000, 0, 9, 8)
    w.runs(55_000, 1, 1, 4, "R").runs(95_000, 2, 6, 2)
    w.waking(100_000, 3, 11, 1, 7).wakeup(101_000, 3, 11, 1, curr=7)
    return w.add("exec", 150_000, 1, task=4).waking(160_000, 3, 10, 3, 7).wakeup(161_000, 3, 10, 3, curr=7)


def test_an_exec_is_decided_on_the_machine_of_then() -> None:
    """Linux 6.1 sends it where a CPU is idle as it wakes the stopper, and not as its event comes."""
    decisions = exec_on_a_busy_machine().decisions()
    row = next(k for k, r in enumerate(decisions.rows()) if r["kind"] == "exec")
    late = decisions.replay("linux-6.1").ledgers[0]
    at = np.full(len(late), -1)
    at[row] = 50_000
    decisions.parts[0]["decided"] = at
    then = decisions.replay("linux-6.1").ledgers[0]
    assert (then[row]["cpu"], late[row]["cpu"]) == (1, 2)
    assert then[:row] == late[:row] and then[row + 1 :] == late[row + 1 :]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(schedules(execs=True), st.data())
def test_whenever_execs_are_decided_all_are_and_no_wakeup_changes(world: World, data: st.DataObject) -> None:
    """In any part, and with parts that end in between."""
    cut = sorted(data.draw(st.sets(st.integers(1, 200), max_size=2)) & set(range(len(world.events))))
    decisions = world.decisions(at=cut)
    policies = ("prev", "linux-6.1", "linux-4.12", "irq-aware", "oracle-idle")
    plain = decisions.replay(*policies)
    for part in decisions.parts:
        kind, ts = np.asarray(part["kind"]), np.asarray(part["ts_ns"])
        before = np.array([data.draw(st.integers(0, 200_000)) for _ in kind], np.int64)
        part["decided"] = np.where(kind == EXEC, np.maximum(ts - before, 0), -1)
    early_ = decisions.replay(*policies)
    for a, b in zip(plain.ledgers, early_.ledgers, strict=True):
        assert len(a) == len(b)
        for row, x, y in zip(decisions.rows(), a, b, strict=True):
            assert (x["cpu"] is None) == (y["cpu"] is None)
            if row["kind"] == "wake":
                assert x["cpu"] == y["cpu"]
