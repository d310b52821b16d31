# SPDX-License-Identifier: GPL-2.0-or-later
"""Task tables from two witnesses: the tasks that the events name, and the thread lists of the snapshot.

Rows of the snapshot's `before` and `main` describe the tasks that existed when the trace began; rows of `after` those
alive at its end. What the snapshot does not say of a forked task is taken from its parent and marked as inferred, and
so is the cgroup of whoever no snapshot lists (membership.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rewake import membership
from rewake.forms import ENUMS, Columns, values_of

_FORK = ENUMS["task_source"].index("fork")
_SNAPSHOT_TASK = ENUMS["task_source"].index("snapshot")
_ATTR = {name: code for code, name in enumerate(ENUMS["attr_source"])}
_KTHREADD = 2

# Kernel threads that are bound to the CPU in their name. `irq/N-…`, `rcuo*/N` and `kworker/uN:…` carry other numbers.
_PER_CPU = re.compile(
    r"(?:kworker|ksoftirqd|migration|cpuhp|idle_inject|rcuc|watchdog|posixcputmr|ktimers|ktimersoftd|irq_work"
    r"|backlog_napi|stopper)/(\d{1,5})(?::\d+H?)?"
)


class Thread(Protocol):
    """A row of the snapshot's thread lists (collectors.snapshot)."""

    @property
    def tid(self) -> int: ...
    @property
    def tgid(self) -> int: ...
    @property
    def comm(self) -> str: ...
    @property
    def allowed(self) -> str | None: ...
    @property
    def policy(self) -> int | None: ...
    @property
    def nice(self) -> int | None: ...
    @property
    def kthread(self) -> bool | None: ...
    @property
    def cgroup(self) -> str | None: ...
    @property
    def when(self) -> str: ...


@dataclass
class _Task:
    task_id: int
    tid: int
    generation: int
    parent: int | None
    source: int
    first_ns: int | None
    exit_ns: int | None
    tgid: int | None = None
    kthread: bool | None = None
    allowed: str | None = None
    policy: int | None = None
    nice: int | None = None
    cgroup: int | None = None
    said_by: str = ""
    observer: bool | None = None
    comms: list[tuple[int, int]] = field(default_factory=list)
    """(from_ns, comm id) in time order."""


@dataclass(frozen=True)
class TaskTables:
    """Columns of `task`, `task_attr` and `comm`, and what is to be said about how they came to be."""

    task: Columns
    task_attr: Columns
    comm: Columns
    notes: list[str]


def build(
    decoded: dict[str, Any], threads: Sequence[Thread], cgroup: Columns, n_cpus: int,
    observers: Collection[int] = (), wakings: Iterable[Columns] = (),
) -> TaskTables:  # fmt: skip
    """Joins what decode's `finish()` returned with the snapshot's threads. `cgroup`: columns of that table.

    `observers`: thread ids of the collector, all alive when the trace began. `wakings`: columns curr_task, irq_ctx and
    task of that table; read only where cgroups are to be inferred from them.
    """
    tasks = _read_tasks(decoded["tasks"])
    names = [str(n) for n in decoded["comm"]["name"]]
    comm_id = {name: i for i, name in enumerate(names)}
    changed = decoded["names"]
    for task_id, from_ns, comm in zip(*(values_of(changed[k]) for k in ("task_id", "from_ns", "comm")), strict=True):
        tasks[task_id].comms.append((from_ns, comm))

    notes: list[str] = []
    if threads and not any(t.tid == _KTHREADD and t.comm == "kthreadd" for t in threads):
        notes.append("the thread list has no kthreadd, so it is from a pid namespace: not joined with the trace")
        threads, observers = [], ()
    paths = values_of(cgroup["path"]) if "path" in cgroup else []
    _join(tasks, threads, {path: i for i, path in enumerate(paths)}, comm_id, names, notes)
    _mark(tasks, frozenset(observers))
    _inherit(tasks)
    if threads and len(paths) > 1:
        _find_cgroups(tasks, wakings)
    _bind_by_name(tasks, names, n_cpus)
    return TaskTables(_task_columns(tasks), _attr_columns(tasks), _comm_columns(names), notes)


def _read_tasks(columns: Columns) -> list[_Task]:
    keys = ("task_id", "tid", "generation", "parent", "source", "first_ns", "exit_ns")
    tasks = [_Task(*row) for row in zip(*(values_of(columns[k]) for k in keys), strict=True)]
    if any(t.task_id != i for i, t in enumerate(tasks)):
        raise ValueError("decode's task ids are not dense")
    return tasks


def _join(
    tasks: list[_Task], threads: Sequence[Thread], cgroups: dict[str, int], comm_id: dict[str, int], names: list[str],
    notes: list[str],
) -> None:  # fmt: skip
    first: dict[int, _Task] = {}
    last: dict[int, _Task] = {}
    for task in tasks:
        if task.tid != 0:
            first.setdefault(task.tid, task)
            last[task.tid] = task
    at_start: dict[int, Thread] = {}
    for when in ("main", "before"):  # before is the closer to the first event
        at_start.update((t.tid, t) for t in threads if t.when == when)
    for tid, row in sorted(at_start.items()):
        found = first.get(tid)
        if found is None:  # alive but silent: it still occupies its tid and its CPU mask
            found = _Task(len(tasks), tid, 0, None, _SNAPSHOT_TASK, None, None)
            tasks.append(found)
        elif found.source == _FORK:  # born in the trace: the row is of an earlier holder of the tid
            continue
        _say(found, row, cgroups, comm_id, names)
    changed = 0
    for row in threads:
        alive = last.get(row.tid)
        if row.when != "after" or alive is None or alive.exit_ns is not None:
            continue
        if alive.said_by != "snapshot":
            _say(alive, row, cgroups, comm_id, names)
        elif (alive.allowed, alive.policy, alive.nice) != (row.allowed, row.policy, row.nice):
            changed += 1
    if changed:
        notes.append(f"{changed} tasks changed allowed CPUs, policy or nice while the trace ran: first values kept")


def _say(task: _Task, row: Thread, cgroups: dict[str, int], comm_id: dict[str, int], names: list[str]) -> None:
    task.tgid, task.kthread, task.allowed = row.tgid, row.kthread, row.allowed
    task.policy = row.policy if row.policy is not None and row.policy < len(ENUMS["policy_class"]) else None
    task.nice, task.cgroup = row.nice, cgroups.get(row.cgroup) if row.cgroup is not None else None
    task.said_by = "snapshot"
    if not task.comms:
        if row.comm not in comm_id:
            comm_id[row.comm] = len(names)
            names.append(row.comm)
        task.comms.append((0, comm_id[row.comm]))


def _mark(tasks: list[_Task], observers: frozenset[int]) -> None:
    """The first task of each of the collector's ids; a later one of the same id is somebody else."""
    if not observers:
        return
    for task in tasks:
        task.observer = task.tid in observers and task.generation == 0


def _inherit(tasks: list[_Task]) -> None:
    """A child starts with its parent's attributes; parents come before their children."""
    for task in tasks:
        if task.parent is None or task.parent >= task.task_id:
            continue
        parent = tasks[task.parent]
        if task.kthread is None:
            task.kthread = True if parent.tid == _KTHREADD else parent.kthread
        # kthreadd's children get their mask and priority from whoever asked for them.
        if task.said_by or parent.tid == _KTHREADD or not parent.said_by:
            continue
        task.allowed, task.policy = parent.allowed, parent.policy
        task.nice, task.cgroup = parent.nice, parent.cgroup
        task.said_by = "inferred"


def _find_cgroups(tasks: list[_Task], wakings: Iterable[Columns]) -> None:
    users = {t.task_id for t in tasks if t.tid != 0 and t.kthread is not True}
    unknown = {t.task_id for t in tasks if t.task_id in users and t.cgroup is None and t.first_ns is not None}
    if not unknown:
        return
    known = {t.task_id: t.cgroup for t in tasks if t.task_id in users and t.cgroup is not None}
    parents = {t.task_id: t.parent for t in tasks if t.parent is not None and t.parent in users}
    is_user = np.zeros(len(tasks), np.bool_)
    is_user[list(users)] = True
    woken: Counter[tuple[int, int]] = Counter()
    for columns in wakings:
        curr, irq, wakee = (np.asarray(columns[k]) for k in ("curr_task", "irq_ctx", "task"))
        among = (irq == 0) & is_user[curr] & is_user[wakee]
        woken.update(membership.pairs(curr[among], wakee[among]))
    for task_id, cgroup in membership.infer(unknown, known, parents, woken).items():
        tasks[task_id].cgroup = cgroup
        tasks[task_id].said_by = tasks[task_id].said_by or "inferred"


def _bind_by_name(tasks: list[_Task], names: list[str], n_cpus: int) -> None:
    """Per-CPU kernel threads that no snapshot describes."""
    for task in tasks:
        if task.allowed is not None or task.kthread is False or not task.comms:
            continue
        match = _PER_CPU.fullmatch(names[task.comms[0][1]])
        if match and int(match[1]) < n_cpus:
            task.allowed, task.kthread = str(int(match[1])), True
            task.said_by = task.said_by or "inferred"


def _nullable(values: list[Any], dtype: Any) -> tuple[Any, Any]:
    if dtype is object:
        return np.array(values, dtype=object), np.array([v is None for v in values], dtype=np.bool_)
    return np.array([0 if v is None else v for v in values], dtype), np.array([v is None for v in values], np.bool_)


def _task_columns(tasks: list[_Task]) -> Columns:
    return {
        "task_id": np.arange(len(tasks), dtype=np.uint32),
        "tid": np.array([t.tid for t in tasks], np.uint32),
        "generation": np.array([t.generation for t in tasks], np.uint32),
        "tgid": _nullable([t.tgid for t in tasks], np.uint32),
        "parent": _nullable([t.parent for t in tasks], np.uint32),
        "kthread": _nullable([t.kthread for t in tasks], np.bool_),
        "observer": _nullable([t.observer for t in tasks], np.bool_),
        "source": np.array([t.source for t in tasks], np.uint8),
        "first_ns": _nullable([t.first_ns for t in tasks], np.int64),
        "exit_ns": _nullable([t.exit_ns for t in tasks], np.int64),
    }


def _attr_columns(tasks: list[_Task]) -> Columns:
    """One row per task and name it carried; the first is valid from the start, the last to the end."""
    rows: list[tuple[_Task, int | None, int | None, int | None]] = []
    for task in tasks:
        comms: list[tuple[int | None, int | None]] = [*task.comms]
        if not comms and task.said_by:
            comms = [(None, None)]
        for i, (from_ns, comm) in enumerate(comms):
            to_ns = comms[i + 1][0] if i + 1 < len(comms) else None
            rows.append((task, from_ns if i else None, to_ns, comm))
    return {
        "task_id": np.array([r[0].task_id for r in rows], np.uint32),
        "from_ns": _nullable([r[1] for r in rows], np.int64),
        "to_ns": _nullable([r[2] for r in rows], np.int64),
        "comm": _nullable([r[3] for r in rows], np.uint32),
        "policy": _nullable([r[0].policy for r in rows], np.uint8),
        "nice": _nullable([r[0].nice for r in rows], np.int16),
        "cgroup": _nullable([r[0].cgroup for r in rows], np.uint32),
        "allowed": _nullable([r[0].allowed for r in rows], object),
        "source": np.array([_ATTR[r[0].said_by or "event"] for r in rows], np.uint8),
    }


def _comm_columns(names: list[str]) -> Columns:
    return {"id": np.arange(len(names), dtype=np.uint32), "name": np.array(names, dtype=object)}
