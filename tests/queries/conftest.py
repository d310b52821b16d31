# SPDX-License-Identifier: GPL-2.0-or-later
"""A synthetic recording and run small enough to work out by hand, as DuckDB tables declared by the forms.

Machine: CPUs 0-3. LLC 0 = {0, 1}, LLC 2 = {2, 3}; node 0 = {0, 1}, node 2 = {2, 3}.

Ten decisions (w = waker, p = prev, c = chosen by the kernel):

    id kind class        w p c  latency   what it is there for
    0  wake stayed       0 1 1  10 us     quiet
    1  wake moved        0 1 0  20 us     to the waker, same LLC
    2  wake moved        0 1 2  30 us     across LLCs, away from both
    3  wake moved        2 1 3  40 us     across LLCs, towards the waker
    4  wake stayed       2 1 1  censored  never ran
    5  wake stayed       2 3 3  50 us     low confidence
    6  fork moved        0 0 1  60 us     no policy has a path
    7  wake pinned       0 1 1  70 us     not the policy's
    8  wake rt           0 1 1  80 us     not the fair class
    9  exec stayed       1 1 1  90 us     no policy has a path

Decision 5 is of a kernel thread, all others are of one task, named `first` and, from decision 4 on, `then`.

So the population is 0-5. Policies: `recorded`; `prev` (stays); `own` decides 0:1 1:0 2:0 3:2 4:0 5:2, latency known for
0 and 1, else [5, 100] us for 2, [7, unbounded) for 3, no estimate for 4, [9, 9] us for 5.

Two blocks of a trial, 6 and 4 wakeups, of which 4 and 2 are telling and the kernel moved 3 and none. `right` is wrong
once, where the kernel moved; `still` moves nothing; with sync=1 `right` also moves one that the kernel left.

A closed loop over the same 10 us: `pinned` in two windows; `fifo`, which diverged after 5 us; `own` as the recorded
kernel, in two replicas; `prev` in two windows of which the second diverged. Latencies of simulated wakeups, us:

    pinned   10 20 .. 60 and one that had not run
    fifo     40 40
    own      replica 0: 1 2 .. 20 in the first window, 21 22 in the second, both onto a busy CPU after 1 us
             replica 1: 2 4 .. 40, and two that had not run, one of them onto a busy CPU
    prev     1 2 .. 100 in the first window, above 80 onto a busy CPU after 1 us

Beside it the recorded decisions 1 and 3 were to busy CPUs, and reached their run queues after 5 and 10 us.

A fleet: recordings A in two windows and B count, C is refused by the quality card and G for too few decisions, of D the
column agrees less than halfway above prev, E has no column, and F failed. The bucket of every latency is 500 (21.8 us),
of 100 of `own` in A's second window 0 (1 ns), the value 0 or no estimate, and its hi is unbounded in 30 of 100 there. B
has a cgroup `/web`, no topology.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest

from rewake.analysis import sql
from rewake.forms import ENUMS, INPUTS, OUTCOMES, TABLES


def make(con: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]], **extra: str) -> None:
    """Creates `table` as the forms declare it (NOT NULL kept), plus `extra` columns, filled with `rows`."""
    declared = [f'"{c.name}" {c.type}{"" if c.nullable else " NOT NULL"}' for c in TABLES[table].columns]
    declared += [f'"{name}" {kind}' for name, kind in extra.items()]
    con.execute(f"CREATE TABLE {table} ({', '.join(declared)})")
    for row in rows:
        names = ", ".join(f'"{n}"' for n in row)
        con.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))


def kind(name: str) -> int:
    return ENUMS["decision_kind"].index(name)


def klass(name: str) -> int:
    return ENUMS["decision_class"].index(name)


def cause(name: str) -> int:
    return ENUMS["migrate_cause"].index(name)


def bits(names: tuple[str, ...], *words: str) -> int:
    return sum(1 << names.index(w) for w in words)


DECISIONS = [
    ("wake", "stayed", 0, 1, 1, 10_000), ("wake", "moved", 0, 1, 0, 20_000), ("wake", "moved", 0, 1, 2, 30_000),
    ("wake", "moved", 2, 1, 3, 40_000), ("wake", "stayed", 2, 1, 1, None), ("wake", "stayed", 2, 3, 3, 50_000),
    ("fork", "moved", 0, 0, 1, 60_000), ("wake", "pinned", 0, 1, 1, 70_000), ("wake", "rt", 0, 1, 1, 80_000),
    ("exec", "stayed", 1, 1, 1, 90_000),
]  # fmt: skip

BUSY = {1: 5_000, 3: 10_000}
"""Decisions to a busy CPU: ns to its run queue."""

ARMS = (("pinned", "pinned", 0), ("fifo", "null", 0), ("own", "factual", 0), ("own", "factual", 1),
        ("prev", "policy", 0))  # fmt: skip

WINDOWS: list[dict[str, Any]] = [
    {"arm": 0, "window_id": 0, "from_ns": 0, "to_ns": 6_000, "wakeups": 5, "wake_moves": 2, "forced_moves": 1,
     "ends": 2, "ended": 2, "makespan_ns": 3_000},
    {"arm": 0, "window_id": 1, "from_ns": 6_000, "to_ns": 10_000, "wakeups": 2, "wake_moves": 1, "missed_moves": 1,
     "ends": 1},
    {"arm": 1, "window_id": 0, "from_ns": 0, "to_ns": 5_000, "wakeups": 2, "diverged": True, "why": "runnable"},
    {"arm": 2, "window_id": 0, "from_ns": 0, "to_ns": 4_000, "wakeups": 20, "wake_moves": 3, "cross_llc": 2,
     "fork_moves": 1, "exec_moves": 2, "cpu_ns": 8_000, "preemptions": 1, "llc_idle_ns": 400, "machine_idle_ns": 800,
     "machine_over_100us": 1, "throttled_ns": 8_000},
    {"arm": 2, "window_id": 1, "from_ns": 4_000, "to_ns": 10_000, "wakeups": 2, "wake_moves": 1, "newidle_moves": 2,
     "cpu_ns": 12_000, "machine_idle_ns": 200},
    {"arm": 3, "window_id": 0, "from_ns": 0, "to_ns": 10_000, "wakeups": 22, "wake_moves": 4, "periodic_moves": 1,
     "cross_llc": 4, "cross_node": 4, "cpu_ns": 20_000, "preemptions": 3, "llc_idle_ns": 1_600, "llc_over_100us": 1,
     "machine_idle_ns": 3_000, "machine_over_100us": 1},
    {"arm": 4, "window_id": 0, "from_ns": 0, "to_ns": 5_000, "wakeups": 100, "cpu_ns": 9_000},
    {"arm": 4, "window_id": 1, "from_ns": 5_000, "to_ns": 6_000, "wakeups": 1, "diverged": True, "why": "early"},
]  # fmt: skip

WOKEN = [  # arm, window, us to the switch-in, whether the chosen CPU was idle
    *((0, i // 5, us, True) for i, us in enumerate((10, 20, 30, 40, 50, 60, None))),
    *((1, 0, 40, True) for _ in range(2)),
    *((2, 0, us, True) for us in range(1, 21)), (2, 1, 21, False), (2, 1, 22, False),
    *((3, 0, us, True) for us in range(2, 41, 2)), (3, 0, None, True), (3, 0, None, False),
    *((4, 0, us, us <= 80) for us in range(1, 101)),
]  # fmt: skip

OWN = [
    # cpu, branch, lo, hi, outcome, inputs
    (1, 0, 10_000, 10_000, ("target_idle",), ()),
    (0, 1, 20_000, 20_000, ("stacked", "idle_missed_llc", "idle_missed_machine"), ("load",)),
    (0, 1, 5_000, 100_000, ("idle_missed_machine", "exposed"), ("load", "sync")),
    (2, 1, 7_000, None, ("exposed", "self_collision"), ("sync",)),
    (0, 0, None, None, (), ()),
    (2, 2, 9_000, 9_000, ("target_idle",), ()),
]  # fmt: skip


def fill(con: duckdb.DuckDBPyConnection, *, topology: bool = True) -> None:
    for table in ("waking", "migrate", "loss"):
        make(con, table, [])
    head = {"id": 0, "ts_ns": 0, "curr_task": 0, "irq_ctx": 0, "task": 9, "prio": 120}
    con.execute("INSERT INTO waking VALUES (0, 0, 0, 0, 0, 9, 120, 1)")
    moves = [("wake", 1, 0), ("wake", 1, 2), ("wake", 1, 3), ("newidle", 3, 2), ("fork", 0, 0), (None, 2, 1)]
    for i, (why, orig, dest) in enumerate(moves):
        row = head | {
            "id": i,
            "cpu": 0,
            "orig_cpu": orig,
            "dest_cpu": dest,
            "cause": None if why is None else cause(why),
        }
        con.execute(
            f"INSERT INTO migrate ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
            list(row.values()),
        )
    con.execute("INSERT INTO loss VALUES (7, 70, 1, 5), (8, 80, 1, NULL), (9, 90, 3, NULL)")
    llc = {0: 0, 1: 0, 2: 2, 3: 2}
    make(con, "cpu", [
        {"cpu": c, "core": c, "llc": llc[c] if topology else None, "node": llc[c] if topology else None} for c in llc
    ])  # fmt: skip
    make(con, "decision", [
        {
            "decision_id": i, "event_id": i, "ts_ns": 1000 * i, "kind": kind(k), "class": klass(c),
            "task": 8 if i == 5 else 9, "waker_cpu": w, "prio": 120, "prev_cpu": p, "chosen_cpu": x,
            "latency_ns": ns, "censored": ns is None, "low_confidence": i == 5, "chosen_idle": i not in BUSY,
            "wakeup_ns": BUSY.get(i, 1_000),
        }
        for i, (k, c, w, p, x, ns) in enumerate(DECISIONS)
    ])  # fmt: skip
    make(con, "task", [
        {"task_id": 8, "tid": 80, "generation": 0, "kthread": True, "source": 0},
        {"task_id": 9, "tid": 90, "generation": 0, "kthread": False, "source": 0},
    ])  # fmt: skip
    make(con, "comm", [{"id": 0, "name": "first"}, {"id": 1, "name": "then"}, {"id": 2, "name": "kernel"}])
    make(con, "task_attr", [
        {"task_id": 8, "comm": 2, "source": 0},
        {"task_id": 9, "to_ns": 4000, "comm": 0, "source": 0},
        {"task_id": 9, "from_ns": 4000, "comm": 1, "source": 0},
    ])  # fmt: skip
    ledger: list[dict[str, Any]] = []
    for i, (k, c, _, p, x, ns) in enumerate(DECISIONS):
        fair = c in ("moved", "stayed") and k == "wake"
        ledger.append(
            {"policy": "recorded", "decision_id": i, "cpu": x if c in ("moved", "stayed") else None, "branch": 0,
             "outcome": 0, "inputs_assumed": 0, "known": True, "lo_ns": ns, "hi_ns": ns, "cpus_scanned": 0}
        )  # fmt: skip
        ledger.append(
            {"policy": "prev", "decision_id": i, "cpu": p if fair else None, "branch": 1, "outcome": 0,
             "inputs_assumed": 0, "known": p == x, "lo_ns": ns if p == x else 1000, "hi_ns": ns if p == x else None,
             "cpus_scanned": 0}
        )  # fmt: skip
        own = OWN[i] if i < len(OWN) else None
        ledger.append(
            {"policy": "own", "decision_id": i, "cpu": own[0] if own else None, "branch": own[1] if own else None,
             "lo_ns": own[2] if own else None, "hi_ns": own[3] if own else None,
             "outcome": bits(OUTCOMES, *own[4]) if own else None, "known": own[0] == x if own else None,
             "inputs_assumed": bits(INPUTS, *own[5]) if own else None, "cpus_scanned": i if own else None}
        )  # fmt: skip
    make(con, "ledger", ledger, policy="VARCHAR", decision_id="BIGINT")
    make(con, "bucket", [])
    blocks = {"right": ((5, 2, 3), (4, 0, 0)), "still": ((3, 0, 0), (4, 0, 0))}
    blocks_sync = {"right": ((4, 2, 4), (4, 0, 0)), "still": ((3, 0, 0), (4, 0, 0))}
    make(con, "trial", [
        {
            "policy": policy, "sync": sync, "from_ns": 5000 * i, "decisions": (6, 4)[i], "telling": (4, 2)[i],
            "agreed": agreed, "moved": (3, 0)[i], "moved_agreed": moved_agreed, "policy_moved": policy_moved,
        }
        for sync, found in (("0", blocks), ("1", blocks_sync), ("auto", blocks))
        for policy, both in found.items()
        for i, (agreed, moved_agreed, policy_moved) in enumerate(both)
    ])  # fmt: skip
    fill_closed(con)
    fill_fleet(con)


def _shards() -> Iterator[dict[str, Any]]:
    head = {"study": "s", "asked": "replay", "mode": "open", "seed": 0, "tool": "1"}
    machine = {
        "machine": "4 CPUs",
        "cpus": 4,
        "llcs": 2,
        "nodes": 1,
        "span_ns": 1000,
        "events": 500,
        "lost": 0,
        "found": 500,
    }
    for task, content, window, about in (
        ("t1", "A", 0, {"kernel": "6.1.0", "made": "2026-11-20T00:00:00Z"}),
        ("t2", "A", 500, {"kernel": "6.1.0", "made": "2026-11-20T00:00:00Z"}),
        ("t3", "B", None, {"kernel": "6.12.1", "llcs": None}),
        ("t4", "C", None, {"kernel": "6.1.0", "refused": "quality REFUSED"}),
        ("t5", "D", None, {"kernel": "6.1.0"}),
        ("t6", "E", None, {"no_column": "too old"}),
        ("t8", "G", None, {"kernel": "6.1.0", "found": 400}),
    ):
        of = head | machine | about | {"task": task, "uri": f"{content}.dat", "content": content, "from_ns": window,
                                       "workload": f"load {content}"}  # fmt: skip
        flat = content == "B"
        lists = {"lo_bucket": [500], "lo_n": [100], "hi_bucket": [500], "hi_n": [100]}
        counts = {"decisions": 100, "would_move": 40, "cross_llc_prev": None if flat else 10, "idle_missed_llc": None,
                  "agreed": 100, "prev_agreed": 60, "moved": 40, "ranked": 100, "no_estimate": 0, "scans": 0,
                  "scanned": 0, "assumed": 0, "exposed": 0}  # fmt: skip
        yield of | counts | lists | {"policy": "recorded", "reference": True, "auto": False}
        if content != "E":
            agreed = {"agreed": 70 if content == "D" else 90}
            yield of | counts | lists | agreed | {"policy": "linux-6", "reference": False, "auto": True}
        own = {"agreed": 50, "would_move": 80, "scans": 10, "scanned": 30, "exposed": 25, "no_estimate": 0}
        if task == "t2":
            own |= {"lo_bucket": [None, 0], "lo_n": [1, 97], "no_estimate": 2,
                    "hi_bucket": [500], "hi_n": [70]}  # fmt: skip
        yield of | counts | lists | own | {"policy": "own", "reference": False, "auto": False}
        if content == "B":
            inner = {"cgroup": "/web", "decisions": 30, "would_move": 30, "agreed": 0, "ranked": 30,
                     "lo_n": [30], "hi_n": [30]}  # fmt: skip
            yield of | counts | lists | inner | {"policy": "own", "reference": False, "auto": False}
    yield head | {"task": "t7", "uri": "F.dat", "content": "F", "error": "trace", "message": "F.dat: cut off"}


def fill_fleet(con: duckdb.DuckDBPyConnection) -> None:
    make(con, "shard", list(_shards()))
    con.execute("SET VARIABLE fleet_min_skill = 0.5")
    con.execute("SET VARIABLE fleet_min_decisions = 500")


def fill_closed(con: duckdb.DuckDBPyConnection) -> None:
    make(
        con, "arm", [dict(zip(("arm", "policy", "kind", "replica"), (i, *a), strict=True)) for i, a in enumerate(ARMS)]
    )
    nothing = {c.name: 0 for c in TABLES["sim_window"].columns if c.type == "BIGINT"}
    nothing |= {"diverged": False, "makespan_ns": None}
    make(con, "sim_window", [nothing | w for w in WINDOWS])
    make(con, "woken", [
        {
            "arm": arm, "window_id": window, "ts_ns": 0, "task": 9, "prev_cpu": 0, "cpu": 0, "idle_target": idle,
            "placed": True, "latency_ns": us and 1000 * us, "wait_ns": us and 1000 * (us - 1),
        }
        for arm, window, us, idle in WOKEN
    ])  # fmt: skip


BRANCHES = {"recorded": ["recorded", "prev"], "prev": ["recorded", "prev"], "own": ["x1", "core", "target"]}


@pytest.fixture
def con() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    fill(connection)
    sql.prepare(connection, BRANCHES)
    return connection


@pytest.fixture
def flat() -> duckdb.DuckDBPyConnection:
    """The same without topology."""
    connection = duckdb.connect()
    fill(connection, topology=False)
    sql.prepare(connection, BRANCHES)
    return connection


@pytest.fixture
def make_table() -> Callable[..., None]:
    return make
