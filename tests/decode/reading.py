# SPDX-License-Identifier: GPL-2.0-or-later
"""Helpers of the decode tests: a decoded file as plain Python rows, and a slow reference of what the rows should be.

The reference works on records, whether given to the writer or read by libtracecmd (oracle.c).
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewake.collectors._decode import PerfData, TraceDat
from rewake.forms import ENUMS, values_of

SHARED = Path(__file__).parents[3] / "shared"
Key = tuple[int, int]
"""A task as (tid, generation); the idle tasks are (0, CPU)."""
ROLES = ("curr_task", "task", "child", "prev_task", "next_task")
STATES = {0: "R", 0x100: "R+", **{1 << i: s for i, s in enumerate(("S", "D", "T", "t", "X", "Z", "P", "I"))}}


# --- what the decoder says


@dataclass
class Decoded:
    """All of a file: rows in order of id (table name in `table`, NULL as None), header and end."""

    header: dict[str, Any]
    rows: list[dict[str, Any]]
    end: dict[str, Any]
    batches: int

    def keys(self) -> list[Key]:
        tasks = self.end["tasks"]
        return list(zip(tasks["tid"].tolist(), tasks["generation"].tolist(), strict=True))

    def table(self, name: str) -> list[dict[str, Any]]:
        return [{k: v for k, v in r.items() if k != "table"} for r in self.rows if r["table"] == name]

    def resolved(self) -> list[dict[str, Any]]:
        """Rows with tasks as keys, without ids."""
        keys = self.keys()
        out = []
        for r in self.rows:
            row = {k: keys[v] if k in ROLES and v is not None else v for k, v in r.items() if k != "id"}
            out.append(row)
        return out

    def names(self) -> list[tuple[Key, int, str]]:
        keys, names, comm = self.keys(), self.end["names"], self.end["comm"]["name"]
        columns = (names["task_id"].tolist(), names["from_ns"].tolist(), names["comm"].tolist())
        return [(keys[t], ns, comm[c]) for t, ns, c in zip(*columns, strict=True)]


def opened(path: Path | str, batch_events: int = 1_000_000) -> TraceDat | PerfData:
    """The decoder of what the file is by its first bytes."""
    perf = Path(path).is_file() and Path(path).read_bytes()[:8] in (b"PERFILE2", b"2ELIFREP", b"PERFFILE")
    return (PerfData if perf else TraceDat)(str(path), batch_events)


def decode(path: Path | str, batch_events: int = 1_000_000, reader: Any = opened) -> Decoded:
    trace = reader(str(path), batch_events)
    rows: list[dict[str, Any]] = []
    batches = 0
    while (batch := trace.next_batch()) is not None:
        batches += 1
        assert sum(len(c["id"]) for c in batch.values()) <= batch_events
        part = []
        for table, columns in batch.items():
            names = list(columns)
            for row in zip(*map(values_of, columns.values()), strict=True):
                part.append({"table": table, **dict(zip(names, row, strict=True))})
        part.sort(key=lambda r: r["id"])
        rows += part
    assert [r["id"] for r in rows] == list(range(len(rows)))
    return Decoded(trace.header, rows, trace.finish(), batches)


def count(path: Path | str) -> dict[str, Any]:
    """The end of a file, its rows only counted (`rows`)."""
    trace = opened(path)
    rows = 0
    while (batch := trace.next_batch()) is not None:
        rows += sum(len(c["id"]) for c in batch.values())
    return {**trace.finish(), "rows": rows}


# --- what it should say


@dataclass
class Record:
    """One record as the kernel wrote it. `lost`: None when nothing was lost before it, -1 an unknown number."""

    ts: int
    cpu: int
    event: str
    fields: Mapping[str, Any]
    pid: int = 0
    flags: int = 0
    lost: int | None = None


def unescape(text: str) -> bytes:
    """The bytes that an escaped name stands for."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), text.encode())


def name_bytes(v: Any) -> bytes:
    raw = v.encode() if isinstance(v, str) else bytes(v)
    return raw.split(b"\0")[0][:16]


VECTORS = {k: i for i, k in enumerate(ENUMS["irq_kind"])}
SOFTIRQ = {"softirq_raise": 0, "softirq_entry": 1, "softirq_exit": 2}
IPI = {"ipi_raise": 0, "ipi_send_cpu": 0, "ipi_send_cpumask": 0, "ipi_entry": 1, "ipi_exit": 2}
PROBE = {
    "prev_cpu": "prev", "wake_flags": "flags", "recent_cpu": "recent", "flips": "flips", "util": "util", "load": "load",
    "nallowed": "nallowed", "nr_idle_scan": "nis", "has_idle_cores": "hic", "rq_load": "qload", "rq_nr": "qnr",
}  # fmt: skip


@dataclass
class Reference:
    """Records in (time, cpu, sequence) order to rows, names and counts."""

    cpus: int
    state: Callable[[int], str] = lambda v: STATES[v]
    newest: dict[int, Key] = field(default_factory=dict)
    dead: set[Key] = field(default_factory=set)
    comm: dict[Key, bytes] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    names: list[tuple[Key, int, bytes]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    failed: int = 0

    def see(self, tid: int, cpu: int) -> Key:
        if tid == 0:
            return (0, cpu)
        key = self.newest.get(tid)
        if key is None or key in self.dead:
            key = self.newest[tid] = (tid, 0 if key is None else key[1] + 1)
        return key

    def name(self, key: Key, v: Any, ts: int) -> None:
        raw = name_bytes(v)
        if self.comm.get(key) != raw:
            self.comm[key] = raw
            self.names.append((key, ts, raw))

    def run(self, records: Iterable[Record]) -> Reference:
        for r in records:
            if r.lost is not None:
                self.rows.append({"table": "loss", "ts_ns": r.ts, "cpu": r.cpu, "lost": None if r.lost < 0 else r.lost})
            self.counts[r.event] += 1
            self.record(r)
        return self

    def record(self, r: Record) -> None:
        f = r.fields
        head = {"ts_ns": r.ts, "cpu": r.cpu}
        irq_ctx = 3 if r.flags & 0x40 else 2 if r.flags & 8 else 1 if r.flags & 16 else 0

        def add(table: str, **columns: Any) -> None:
            self.rows.append({"table": table, **head, **columns})

        def a_cpu(v: Any) -> int | None:
            return v if v is not None and 0 <= v < self.cpus else None

        if r.event == "sched_switch":
            prev = self.see(f["prev_pid"], r.cpu)
            self.name(prev, f["prev_comm"], r.ts)
            state = self.state(f["prev_state"])
            if state in "XZ" and prev[0]:
                self.dead.add(prev)
            after = self.see(f["next_pid"], r.cpu)
            self.name(after, f["next_comm"], r.ts)
            add("switch", prev_task=prev, prev_prio=f["prev_prio"], prev_state=ENUMS["prev_state"].index(state),
                next_task=after, next_prio=f["next_prio"])  # fmt: skip
        elif r.event in ("sched_waking", "sched_wakeup", "sched_wakeup_new"):
            if f.get("success", 1) == 0:
                self.failed += 1
                return
            curr = self.see(r.pid, r.cpu)
            task = self.see(f["pid"], f["target_cpu"])
            self.name(task, f["comm"], r.ts)
            new = {} if r.event == "sched_waking" else {"is_new": r.event == "sched_wakeup_new"}
            add("wakeup" if new else "waking", curr_task=curr, irq_ctx=irq_ctx, task=task, prio=f["prio"],
                target_cpu=f["target_cpu"], **new)  # fmt: skip
        elif r.event == "sched_migrate_task":
            curr, task = self.see(r.pid, r.cpu), self.see(f["pid"], r.cpu)
            self.name(task, f["comm"], r.ts)
            add("migrate", curr_task=curr, irq_ctx=irq_ctx, task=task, prio=f["prio"], orig_cpu=f["orig_cpu"],
                dest_cpu=f["dest_cpu"], cause=None)  # fmt: skip
        elif r.event == "sched_process_fork":
            parent = self.see(f["parent_pid"], r.cpu)
            self.name(parent, f["parent_comm"], r.ts)
            tid = f["child_pid"]
            if tid:
                old = self.newest.get(tid)
                self.newest[tid] = (tid, 0 if old is None else old[1] + 1)
            child = self.newest[tid] if tid else (0, r.cpu)
            self.name(child, f["child_comm"], r.ts)
            add("fork", task=parent, child=child)
        elif r.event == "sched_process_exec":
            add("exec", task=self.see(f["pid"], r.cpu))
        elif r.event == "sched_process_exit":
            task = self.see(f["pid"], r.cpu)
            self.name(task, f["comm"], r.ts)
            add("exit", task=task, prio=f["prio"])
        elif r.event in ("irq_handler_entry", "irq_handler_exit"):
            add("irq", curr_task=self.see(r.pid, r.cpu), kind=0, vector=f["irq"], entry=r.event.endswith("entry"))
        elif "vector" in f:
            name, _, edge = r.event.rpartition("_")
            kind = VECTORS.get(name, VECTORS["other"])
            add("irq", curr_task=self.see(r.pid, r.cpu), kind=kind, vector=f["vector"], entry=edge == "entry")
        elif r.event in SOFTIRQ:
            add("softirq", curr_task=self.see(r.pid, r.cpu), vec=f["vec"], phase=SOFTIRQ[r.event])
        elif r.event in IPI:
            mask = f.get("target_cpus", f.get("cpumask", 0))
            one = mask.bit_length() - 1 if mask and mask & (mask - 1) == 0 else None
            add("ipi", curr_task=self.see(r.pid, r.cpu), phase=IPI[r.event], target_cpu=a_cpu(f.get("cpu", one)))
        elif r.event == "cpu_idle":
            add("idle", idle_cpu=f["cpu_id"], state=None if f["state"] == 0xFFFFFFFF else f["state"])
        elif r.event == "cpu_frequency":
            add("freq", freq_cpu=f["cpu_id"], khz=f["state"])
        elif r.event in ("select_in", "select_out"):
            out = r.event == "select_out"
            columns: dict[str, Any] = {c: None if out else f[p] for c, p in PROBE.items()}
            columns["prev_cpu"], columns["recent_cpu"] = a_cpu(columns["prev_cpu"]), a_cpu(columns["recent_cpu"])
            curr = self.see(r.pid, r.cpu)
            add("probe", curr_task=curr, phase=int(out), task=None if out else self.see(f["pid"], r.cpu),
                **columns, chosen_cpu=a_cpu(f["cpu"]) if out else None)  # fmt: skip


def in_order(records: Sequence[Record]) -> list[Record]:
    """(time, cpu, sequence) order; the records of a CPU come in sequence."""
    return sorted(records, key=lambda r: (r.ts, r.cpu))


def same(got: Decoded, want: Reference) -> None:
    """Every row, in order, and every name."""
    rows = got.resolved()
    for i, (a, b) in enumerate(zip(rows, want.rows, strict=False)):
        assert a == b, f"row {i}"
    assert len(rows) == len(want.rows)
    assert [(k, ns, unescape(n)) for k, ns, n in got.names()] == want.names
    assert got.end["event_counts"] == dict(want.counts)
    assert got.end["wakeup_failed"] == want.failed


# --- what libtracecmd says


def oracle_records(oracle: Path, path: Path) -> list[Record]:
    """Every record of a file as libtracecmd reads it; array fields as bytes (masks as numbers)."""
    text = subprocess.run([oracle, path], capture_output=True, check=True).stdout.decode("ascii")
    out = []
    for line in text.splitlines():
        ts, cpu, lost, number, event, flags, pid, *fields = line.split("\t")
        f: dict[str, Any] = {}
        for item in fields:
            name, _, v = item.partition("=")
            if name in ("target_cpus", "cpumask"):
                f[name] = int.from_bytes(bytes.fromhex(v), "little")
            elif name.endswith("comm"):
                f[name] = bytes.fromhex(v)
            elif name != "name" and name != "filename":
                f[name] = int(v) if v.lstrip("-").isdigit() else v
        name = event.partition(":")[2] or f"unknown:{number}"
        out.append(Record(int(ts), int(cpu), name, f, int(pid), int(flags), int(lost) or None))
    return out
