# SPDX-License-Identifier: GPL-2.0-or-later
"""Task tables: the tasks of the events joined with the snapshot's threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rewake import forms, membership, tasks

IDLE, FORK, SIGHT = 0, 1, 2


@dataclass
class Row:
    """A thread of the snapshot; kthreadd and an ordinary shell unless a test says otherwise."""

    tid: int
    comm: str
    when: str = "before"
    tgid: int = 0
    allowed: str | None = "0-3"
    policy: int | None = 0
    nice: int | None = 0
    kthread: bool | None = False
    cgroup: str | None = None


KTHREADD = Row(2, "kthreadd", kthread=True)


def decoded(*rows: dict[str, Any], names: list[tuple[int, int, str]] | None = None) -> dict[str, Any]:
    """decode's finish(): `rows` follow the idle tasks 0-3; `names` are (task_id, from_ns, comm)."""
    every = [{"tid": 0, "source": IDLE}] * 4 + list(rows)

    def column(key: str, dtype: Any, default: Any) -> Any:
        values = [r.get(key, default) for r in every]
        return np.array([v or 0 for v in values], dtype), np.array([v is None for v in values], np.bool_)

    names = names or []
    comms = sorted({n for _, _, n in names})
    return {
        "tasks": {
            "task_id": np.arange(len(every), dtype=np.uint32),
            "tid": column("tid", np.uint32, 0)[0], "generation": column("generation", np.uint32, 0)[0],
            "parent": column("parent", np.uint32, None), "source": column("source", np.uint8, SIGHT)[0],
            "first_ns": column("first_ns", np.int64, 0), "exit_ns": column("exit_ns", np.int64, None),
        },
        "names": {
            "task_id": np.array([t for t, _, _ in names], np.uint32),
            "from_ns": np.array([f for _, f, _ in names], np.int64),
            "comm": np.array([comms.index(n) for _, _, n in names], np.uint32),
        },
        "comm": {"id": np.arange(len(comms)), "name": comms},
    }  # fmt: skip


def build(
    found: dict[str, Any], *threads: Row, cgroups: tuple[str, ...] = (), observers: tuple[int, ...] = (),
    wakings: tuple[tuple[int, int, int], ...] = (),
) -> tuple[Any, Any, list[str]]:  # fmt: skip
    """(tasks by id, attribute rows by task id, notes) as plain dictionaries with names instead of codes.

    `wakings`: (current task, interrupt context, wakee), each in a part of its own.
    """
    parts = [dict(zip(("curr_task", "irq_ctx", "task"), np.array([w], np.uint32).T, strict=True)) for w in wakings]
    made = tasks.build(found, threads, {"path": np.array(cgroups, object)}, 4, observers, parts)
    names = list(made.comm["name"])

    def rows(columns: forms.Columns) -> list[dict[str, Any]]:
        lists = {k: forms.values_of(v) for k, v in columns.items()}
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]

    attrs: dict[int, list[dict[str, Any]]] = {}
    for row in rows(made.task_attr):
        row["comm"] = None if row["comm"] is None else names[row["comm"]]
        row["source"] = forms.ENUMS["attr_source"][row["source"]]
        attrs.setdefault(row["task_id"], []).append(row)
    return rows(made.task), attrs, made.notes


def test_a_thread_of_before_describes_the_task_that_was_there() -> None:
    found = decoded({"tid": 7}, names=[(4, 5, "sh")])
    row = Row(7, "sh", tgid=6, allowed="1", policy=3, nice=5, cgroup="/a/b")
    task, attr, notes = build(found, KTHREADD, row, cgroups=("/", "/a/b"))
    assert (task[4]["tgid"], task[4]["kthread"]) == (6, False)
    assert attr[4] == [
        {
            "task_id": 4, "from_ns": None, "to_ns": None, "comm": "sh", "policy": 3, "nice": 5, "cgroup": 1,
            "allowed": "1", "source": "snapshot",
        }
    ]  # fmt: skip
    assert notes == []


def test_before_wins_over_main_and_after_over_nothing() -> None:
    found = decoded({"tid": 7}, {"tid": 8}, names=[(4, 5, "a"), (5, 5, "b")])
    _, attr, notes = build(
        found, KTHREADD, Row(7, "a", "main", allowed="0"), Row(7, "a", "before", allowed="1"),
        Row(7, "a", "after", allowed="2"), Row(8, "b", "after", allowed="3"),
    )  # fmt: skip
    assert (attr[4][0]["allowed"], attr[5][0]["allowed"]) == ("1", "3")
    assert notes == ["1 tasks changed allowed CPUs, policy or nice while the trace ran: first values kept"]


def test_a_tid_born_in_the_trace_is_not_the_thread_of_before() -> None:
    found = decoded({"tid": 7, "source": FORK, "parent": None}, names=[(4, 5, "new")])
    task, attr, _ = build(found, KTHREADD, Row(7, "old", allowed="1"))
    assert attr[4][0]["allowed"] is None
    assert len(task) == 6  # only kthreadd was added: the old holder of tid 7 is gone


def test_observers_are_the_first_tasks_of_their_ids() -> None:
    found = decoded({"tid": 7}, {"tid": 7, "generation": 1, "source": FORK, "parent": None}, {"tid": 8})
    task, _, _ = build(found, KTHREADD, observers=(7,))
    assert [t["observer"] for t in task[4:7]] == [True, False, False]
    task, _, _ = build(found, KTHREADD)
    assert {t["observer"] for t in task} == {None}, "the capture does not say"
    # Ids of a pid namespace are not those of the events.
    task, _, notes = build(found, Row(1, "init"), observers=(7,))
    assert {t["observer"] for t in task} == {None} and "pid namespace" in notes[0]


def test_generations_of_a_tid() -> None:
    found = decoded(
        {"tid": 7, "exit_ns": 50}, {"tid": 7, "generation": 1, "source": FORK, "parent": None},
        names=[(4, 0, "old"), (5, 60, "new")],
    )  # fmt: skip
    _, attr, _ = build(found, KTHREADD, Row(7, "old", allowed="1"), Row(7, "new", "after", allowed="2"))
    assert (attr[4][0]["allowed"], attr[5][0]["allowed"]) == ("1", "2")


def test_a_dead_task_is_not_the_thread_of_after() -> None:
    found = decoded({"tid": 7, "exit_ns": 50}, names=[(4, 0, "a")])
    _, attr, _ = build(found, KTHREADD, Row(7, "other", "after", allowed="2"))
    assert (attr[4][0]["allowed"], attr[4][0]["source"]) == (None, "event")


def test_children_inherit_what_the_snapshot_does_not_say() -> None:
    found = decoded(
        {"tid": 7}, {"tid": 8, "source": FORK, "parent": 4}, {"tid": 9, "source": FORK, "parent": 5},
        {"tid": 10, "source": FORK, "parent": 4},
        names=[(4, 0, "a"), (5, 1, "b"), (6, 2, "c"), (7, 3, "d")],
    )  # fmt: skip
    task, attr, _ = build(
        found, KTHREADD, Row(7, "a", allowed="2", policy=5, nice=3, cgroup="/x"), Row(10, "d", "after", allowed="0"),
        cgroups=("/x",),
    )  # fmt: skip
    for child in (5, 6):
        got = attr[child][0]
        assert (got["allowed"], got["policy"], got["nice"], got["cgroup"]) == ("2", 5, 3, 0)
        assert got["source"] == "inferred"
        assert (task[child]["kthread"], task[child]["tgid"]) == (False, None)
    assert (attr[7][0]["allowed"], attr[7][0]["source"]) == ("0", "snapshot")


def test_cgroups_that_no_snapshot_tells_are_those_of_parents_then_of_who_wakes_whom() -> None:
    in_a, in_b, kthread, dead, child, late = 4, 5, 6, 7, 8, 9
    found = decoded(
        {"tid": 20}, {"tid": 21}, {"tid": 22}, {"tid": 30, "exit_ns": 9},
        {"tid": 31, "source": FORK, "parent": dead, "exit_ns": 9}, {"tid": 32, "source": FORK, "parent": in_b},
        names=[(k, 0, "t") for k in range(4, 10)],
    )  # fmt: skip
    threads = (
        KTHREADD, Row(20, "t", "main", cgroup="/a"), Row(21, "t", "main", cgroup="/b"),
        Row(22, "t", "main", cgroup="/", kthread=True), Row(32, "t", "after", nice=5),
    )  # fmt: skip
    cgroups = ("/", "/a", "/b")
    wakings = (
        [(kthread, 0, dead)] * 5 + [(in_b, 1, dead)] * 4 + [(dead, 0, in_a)] * 2 + [(in_b, 0, dead), (child, 0, in_b)]
    )
    _, attr, _ = build(found, *threads, cgroups=cgroups, wakings=tuple(wakings))
    assert [attr[k][0]["cgroup"] for k in (in_a, in_b, kthread, dead, child, late)] == [1, 2, 0, 1, 1, 2]
    assert [attr[k][0]["source"] for k in (in_a, dead, child, late)] == ["snapshot", "inferred", "inferred", "snapshot"]
    assert attr[late][0]["nice"] == 5
    _, attr, _ = build(found, *threads, cgroups=cgroups, wakings=tuple(wakings[:-4]))
    assert attr[dead][0]["cgroup"] is None, "kernel threads and interrupts say nothing"


def test_of_equally_many_wakeups_the_lower_cgroup_has_it_and_votes_go_on() -> None:
    woken = {(1, 9): 2, (9, 2): 2, (9, 8): 1, (7, 8): 1, (5, 6): 1}
    assert membership.infer({6, 7, 8, 9}, {1: 4, 2: 3}, {}, woken) == {9: 3, 8: 3, 7: 3}


def test_children_of_kthreadd_are_kernel_threads_with_masks_of_their_own() -> None:
    found = decoded(
        {"tid": 2}, {"tid": 8, "source": FORK, "parent": 4}, {"tid": 9, "source": FORK, "parent": 4},
        names=[(4, 0, "kthreadd"), (5, 1, "kworker/3:1H"), (6, 1, "kworker/u8:1")],
    )  # fmt: skip
    task, attr, _ = build(found, KTHREADD)
    assert [task[i]["kthread"] for i in (4, 5, 6)] == [True, True, True]
    assert (attr[5][0]["allowed"], attr[5][0]["source"]) == ("3", "inferred")
    assert attr[6][0]["allowed"] is None


def test_per_cpu_kernel_threads_by_name_without_snapshot() -> None:
    names = ["ksoftirqd/2", "migration/0", "kworker/1:0", "irq/3-eth0", "rcuop/1", "kworker/9:0", "app/1", "cpuhp/01"]
    found = decoded(*({"tid": 10 + i} for i in range(len(names))), names=[(4 + i, 0, n) for i, n in enumerate(names)])
    task, attr, _ = build(found)
    assert [attr[4 + i][0]["allowed"] for i in range(len(names))] == ["2", "0", "1", None, None, None, None, "1"]
    assert [task[4 + i]["kthread"] for i in range(4)] == [True, True, True, None]


def test_the_snapshot_has_the_last_word_on_a_kernel_threads_mask() -> None:
    found = decoded({"tid": 7}, {"tid": 8}, names=[(4, 0, "kworker/1:0"), (5, 0, "kworker/1:5")])
    row = Row(7, "kworker/1:0", kthread=True, allowed="0-3")  # an unbound worker of a CPU that went away
    _, attr, _ = build(found, KTHREADD, row, Row(8, "kworker/1:5", kthread=False, allowed=None))
    assert (attr[4][0]["allowed"], attr[5][0]["allowed"]) == ("0-3", None)


def test_silent_threads_of_the_snapshot_become_tasks() -> None:
    task, attr, _ = build(decoded(), KTHREADD, Row(30, "sleeper", tgid=29), Row(31, "later", "after"))
    assert [(t["tid"], t["source"], t["first_ns"]) for t in task[4:]] == [(2, 3, None), (30, 3, None)]
    assert attr[5][0]["comm"] == "sleeper"


def test_a_pid_namespace_is_not_joined() -> None:
    found = decoded({"tid": 7}, names=[(4, 0, "a")])
    task, attr, notes = build(found, Row(1, "sh"), Row(7, "other", allowed="1"))
    assert (len(task), attr[4][0]["allowed"]) == (5, None)
    assert "pid namespace" in notes[0]


def test_a_row_for_each_name_that_a_task_carried() -> None:
    found = decoded({"tid": 7}, names=[(4, 5, "sh"), (4, 90, "make"), (4, 95, "cc")])
    _, attr, _ = build(found, KTHREADD, Row(7, "sh", allowed="1"))
    got = [(r["from_ns"], r["to_ns"], r["comm"], r["allowed"]) for r in attr[4]]
    assert got == [(None, 90, "sh", "1"), (90, 95, "make", "1"), (95, None, "cc", "1")]


def test_the_tables_fit_the_declaration(tmp_path: Any) -> None:
    made = tasks.build(decoded({"tid": 7}), [KTHREADD], {}, 4)
    with forms.RecordingWriter(tmp_path / "a.rewake") as writer:
        writer.write("task", made.task)
        writer.write("task_attr", made.task_attr)
        writer.write("comm", made.comm)
