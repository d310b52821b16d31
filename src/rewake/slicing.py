# SPDX-License-Identifier: GPL-2.0-or-later
"""A window of a recording as a recording of its own, and a redacted copy of one.

Numbers of events, tasks and decisions stay those of the whole, and decisions are copied, not worked out again: what was
recorded of a wakeup does not change because less of the trace is kept. All tasks stay with their attributes and
generations. What ran at the window's start is kept in the manifest (`running_at_start`). What a replay works out from
earlier events (PELT, wakee_flips, recent CPUs) starts anew at the window, as it does at the start of any recording.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rewake import streams
from rewake.errors import UsageError
from rewake.forms import ENUMS, EVENT_TABLES, MACHINE_TABLES, Columns, Recording, RecordingWriter
from rewake.redact import Redactor

Progress = Callable[[str], None]
Window = tuple[int | None, int | None]
"""Nanoseconds after the recording's first event; None: its start, its end."""


def slice_recording(
    recording: Recording, out: Path, window: Window = (None, None), redact: Path | None = None,
    progress: Progress | None = None,
) -> Recording:  # fmt: skip
    """Writes the events at or after the window's begin and before its end to `out`. UsageError when there are none."""
    redactor = None if redact is None else Redactor(redact)
    if out.exists() and out.resolve() == recording.path.resolve():
        raise UsageError(f"{out}: a recording cannot be sliced into itself: give another name to -o")
    lo, hi = _events_in(recording, window)
    manifest = dict(recording.manifest)
    with RecordingWriter(out) as writer:
        _copy_parts(recording, writer, lo, hi, progress or (lambda _: None))
        for name in MACHINE_TABLES:
            columns = recording.read(name)
            writer.write(name, _states_at(columns, recording, lo) if name == "cpu_state" else columns)
        task, attr, comm, cgroup = (recording.read(t) for t in ("task", "task_attr", "comm", "cgroup"))
        if redactor is not None:
            task, comm = redactor.tasks(task, attr, comm)
            cgroup = redactor.cgroup(cgroup)
        for name, columns in (("task", task), ("task_attr", attr), ("comm", comm), ("cgroup", cgroup)):
            writer.write(name, columns)
        evidence = recording.path / "topology.xml"
        if evidence.is_file() and redactor is None:
            writer.put_file(evidence.name, evidence.read_bytes())
        if window != (None, None):
            manifest |= _counted(recording, lo, hi, window)
        writer.manifest = manifest if redactor is None else redactor.manifest(manifest)
        writer.commit()
    return Recording(out, recent=writer.recent)


def _events_in(recording: Recording, window: Window) -> tuple[int, int]:
    """Numbers of the events in the window, as [first, last + 1)."""
    start = int(recording.manifest.get("first_ns") or 0)
    begin, end = (None if edge is None else start + edge for edge in window)
    lo = hi = None
    for ids, ts in _heads(recording):
        after = ids[ts >= begin] if begin is not None else ids
        before = ids[ts < end] if end is not None else ids
        if len(after):
            lo = int(after.min()) if lo is None else min(lo, int(after.min()))
        if len(before):
            hi = max(hi or 0, int(before.max()) + 1)
    if lo is None or hi is None or lo >= hi:
        span = (recording.manifest.get("span_ns") or 0) / 1e9
        raise UsageError(f"{recording.given}: no events in the window: the recording is {span:.3f} s long")
    return lo, hi


def _heads(recording: Recording) -> Any:
    """(id, ts_ns) of each part of each event table."""
    for k in range(recording.n_parts):
        for table in EVENT_TABLES:
            part = recording.read_part(table, k, ("id", "ts_ns"))
            if len(part["id"]):
                yield part["id"], part["ts_ns"]


def _copy_parts(recording: Recording, writer: RecordingWriter, lo: int, hi: int, report: Progress) -> None:
    """Copies the rows of [lo, hi); parts stay parts, so that events and decisions keep together."""
    first: int | None = None
    for k in range(recording.n_parts):
        found: dict[str, Columns] = {}
        for table in (*EVENT_TABLES, "decision"):
            columns = recording.read_part(table, k)
            ids = columns["event_id" if table == "decision" else "id"]
            assert isinstance(ids, np.ndarray)
            keep = (ids >= lo) & (ids < hi)
            if keep.any():
                found[table] = columns if keep.all() else {n: _rows(c, keep) for n, c in columns.items()}
        if found and first is None:
            first = k
        for table, columns in found.items():
            writer.write_part(table, k - (first or 0), columns)
        report(f"part {k + 1} of {recording.n_parts}")


def _rows(column: Any, keep: Any) -> Any:
    return (column[0][keep], column[1][keep]) if isinstance(column, tuple) else column[keep]


def _states_at(columns: Columns, recording: Recording, lo: int) -> Columns:
    """The states of the CPUs at the window's start and after it."""
    start = min(int(ts[ids >= lo].min()) for ids, ts in _heads(recording) if (ids >= lo).any())
    cpu, since = columns["cpu"], columns["from_ns"]
    assert isinstance(cpu, np.ndarray) and isinstance(since, np.ndarray)
    last = {int(c): i for i, (c, t) in enumerate(zip(cpu, since, strict=True)) if t <= start}
    keep = since > start
    keep[list(last.values())] = True
    return {name: _rows(column, keep) for name, column in columns.items()}


_GAPS_BEHIND = """
    SELECT l.cpu, ({last} - greatest(coalesce(e.ts_ns, {first}), {first}))::BIGINT
    FROM (SELECT cpu, min(id) AS id FROM loss WHERE id >= {hi} GROUP BY cpu) l
    LEFT JOIN (SELECT cpu, max(ts_ns) AS ts_ns FROM ({every}) ANTI JOIN loss USING (id) GROUP BY cpu) e ON l.cpu = e.cpu
    WHERE NOT EXISTS (FROM ({behind}) b WHERE b.cpu = l.cpu AND b.id < l.id)
"""
"""CPUs with a gap that begins in the window and ends behind it, and how long they are blind there. Their lost events
are counted where the gap ends: how many fall into the window nobody knows."""


def _counted(recording: Recording, lo: int, hi: int, window: Window) -> dict[str, Any]:
    """What the manifest says of the window rather than of the whole."""
    con = recording.connect((*EVENT_TABLES, "decision"))
    here = f"id >= {lo} AND id < {hi}"
    every, behind = (
        " UNION ALL BY NAME ".join(f"SELECT id, ts_ns, cpu FROM {t} WHERE {where}" for t in EVENT_TABLES)
        for where in (here, f"id >= {hi}")
    )
    try:
        first, last, total, back = con.execute(
            f"SELECT min(ts_ns), max(ts_ns), count(*), count_if(back) FROM"
            f" (SELECT ts_ns, ts_ns < lag(ts_ns) OVER (ORDER BY id) AS back FROM ({every}))"
        ).fetchall()[0]
        gaps = con.execute(
            f"""
            SELECT l.cpu, coalesce(sum(l.lost), 0)::BIGINT, count(*),
                sum(greatest(l.ts_ns - coalesce(e.ts_ns, {first}), 0))::BIGINT
            FROM (SELECT * FROM loss WHERE {here}) l
            ASOF LEFT JOIN (SELECT id, cpu, ts_ns FROM ({every}) ANTI JOIN loss USING (id)) e
            ON l.cpu = e.cpu AND l.id > e.id
            GROUP BY l.cpu
            """
        ).fetchall()
        ends = con.execute(_GAPS_BEHIND.format(hi=hi, first=first, last=last, every=every, behind=behind)).fetchall()
        before = con.execute(
            f"SELECT cpu, arg_max(next_task, id) FROM switch WHERE id < {lo} GROUP BY cpu ORDER BY cpu"
        ).fetchall()
        decision = con.execute(
            f"SELECT min(decision_id) FROM decision WHERE event_id >= {lo} AND event_id < {hi}"
        ).fetchall()[0][0]
        events = _events_by_name(con, recording.manifest, here)
    finally:
        con.close()
    lost = {cpu: {"cpu": cpu, "lost": n, "gaps": marks, "blind_ns": blind} for cpu, n, marks, blind in gaps}
    nothing = {"lost": 0, "gaps": 0, "blind_ns": 0}
    for cpu, blind in ends:
        gap = lost.setdefault(cpu, {"cpu": cpu, **nothing})
        gap["gaps"] += 1
        gap["blind_ns"] += blind
    loss = [lost.get(c["cpu"], {"cpu": c["cpu"], **nothing}) for c in recording.manifest.get("loss") or []]
    running = {int(c): int(t) for c, t in recording.manifest.get("running_at_start") or ()}
    running |= {int(c): int(t) for c, t in before}
    old = recording.manifest
    told = streams.within(old, first, last)
    damage = [*((old.get("slice") or {}).get("damage") or ()), *told.pop("damage")]
    edges = [old.get("id"), "slice", str(lo), str(hi)]
    return {
        "id": hashlib.sha256("\0".join(map(str, edges)).encode()).hexdigest(),
        "slice": {"of": old.get("id"), "window_ns": [*window], "events": [lo, hi - 1], "damage": damage},
        "first_ns": first, "last_ns": last, "span_ns": last - first, "events": events, "events_total": total,
        "skipped": {}, "wakeup_failed": None, "steps_back": back, "loss": loss, "lost": sum(c["lost"] for c in loss),
        "running_at_start": sorted(running.items()), "first_decision": decision or 0,
        "replay": None, **told,
    }  # fmt: skip


def _events_by_name(con: Any, manifest: dict[str, Any], here: str) -> dict[str, int]:
    """Rows of the window by event name. Names of which the tables do not tell which is which are counted together."""
    names = manifest.get("events") or {}
    found: dict[str, int] = {}
    plain = {
        "switch": "sched_switch", "waking": "sched_waking", "migrate": "sched_migrate_task",
        "fork": "sched_process_fork", "exec": "sched_process_exec", "exit": "sched_process_exit", "idle": "cpu_idle",
        "freq": "cpu_frequency",
    }  # fmt: skip
    for table, name in plain.items():
        found[name] = con.execute(f"SELECT count(*) FROM {table} WHERE {here}").fetchall()[0][0]
    queries = {
        "wakeup": "if(is_new, 'sched_wakeup_new', 'sched_wakeup')",
        "irq": f"{list(ENUMS['irq_kind'])}[kind + 1] || if(entry, '_entry', '_exit')",
        "softirq": "'softirq_' || ['raise', 'entry', 'exit'][phase + 1]",
        "ipi": "'ipi_' || ['send', 'entry', 'exit'][phase + 1]",
        "probe": "'select_' || ['in', 'out'][phase + 1]",
    }
    for table, name in queries.items():
        rows = con.execute(f"SELECT {name} AS name, count(*) FROM {table} WHERE {here} GROUP BY ALL").fetchall()
        found |= dict(rows)
    for edge in ("_entry", "_exit"):
        if f"device{edge}" in found:
            found[f"irq_handler{edge}"] = found.pop(f"device{edge}")
    sent = [n for n in ("ipi_raise", "ipi_send_cpu", "ipi_send_cpumask") if names.get(n)]
    if "ipi_send" in found and len(sent) == 1:
        found[sent[0]] = found.pop("ipi_send")
    return dict(sorted((name, n) for name, n in found.items() if n))
