# SPDX-License-Identifier: GPL-2.0-or-later
"""From a trace file to a recording: decode by batches, join the snapshot, find the decisions, write the manifest."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache as memoize
from pathlib import Path
from typing import Any

import numpy as np

from rewake import __version__, cache, raced, streams, tasks
from rewake.errors import TraceError
from rewake.formats import Format, Reader
from rewake.forms import (
    EVENT_TABLES,
    NOT_RECORDED,
    SCHEMA_VERSION,
    Columns,
    Recording,
    RecordingWriter,
    empty,
    kernel_version,
    with_null,
)
from rewake.identify import identify
from rewake.redact import Redactor

Progress = Callable[[str], None]


def import_trace(
    path: Path | str,
    topology: Path | str | None = None,
    out: Path | str | None = None,
    strict: bool = False,
    progress: Progress | None = None,
    redact: Path | None = None,
) -> Recording:
    """Imports a trace of any supported format, found by its content.

    `topology` is a snapshot archive or directory, an lstopo XML or a synthetic description; None: what lies beside the
    trace, else what the trace says of its machine. `out` None: into the cache, where an earlier import of the same
    bytes is found again. `strict` refuses input that is degraded in any way. `redact`: file of the key under which
    names are replaced (redact.py). Raises TraceError; a failed import leaves nothing behind.
    """
    from rewake.collectors import snapshot

    trace = Path(path)
    kind = identify(trace)
    own = trace if kind.holds_snapshot else snapshot.beside(trace)
    where = topology if topology is not None else own
    report = progress or (lambda _: None)
    report("hashing")
    digest = _file_digest(trace)
    machine = _machine_digest(where)
    redactor = None if redact is None else Redactor(redact)
    key = _digest([digest, machine or "", str(SCHEMA_VERSION), code_digest(), *(redactor.mark if redactor else ())])

    written: list[RecordingWriter] = []
    kept: list[Recording] = []

    def build(target: Path, strict: bool = False) -> None:
        with RecordingWriter(target) as writer:
            writer.manifest["id"] = _identity(digest, machine)
            with kind.open(trace) as reader:
                _write(writer, trace, reader, kind, digest, where, report, redactor)
            if strict:
                _refuse_degraded(writer.manifest, trace)
            writer.commit()
            written.append(writer)

    def check(found: Path) -> None:
        recording = Recording(found)
        recording.check()
        kept.append(recording)

    if out is not None:
        build(Path(out), strict)
        found = Path(out)
    else:
        found, _ = cache.fetch(f"{key}.rewake", build, check)
    recording = kept[0] if kept else Recording(found, recent=written[-1].recent)
    if out is None:
        recording.given = trace
    if strict:
        _refuse_degraded(recording.manifest, trace)
    return recording


# --- identity ---


def identity(path: Path | str, topology: Path | str | None = None) -> str:
    """The `id` that the recording of a trace gets, without importing it. TraceError for what cannot be read."""
    from rewake.collectors import snapshot

    trace = Path(path)
    kind = identify(trace)
    where = topology if topology is not None else trace if kind.holds_snapshot else snapshot.beside(trace)
    return _identity(_file_digest(trace), _machine_digest(where))


def _identity(digest: str, machine: str | None) -> str:
    return _digest([digest, machine or "", str(SCHEMA_VERSION)])


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error


def _machine_digest(where: Path | str | None) -> str | None:
    """Of a snapshot file, of all files of a snapshot directory, or of a synthetic description."""
    if where is None:
        return None
    path = Path(where)
    if os.path.isfile(path):  # no error where a description is longer than a name may be
        return _file_digest(path)
    if os.path.isdir(path):
        files = sorted(f for f in path.rglob("*") if f.is_file())
        return _digest([x for f in files for x in (str(f.relative_to(path)), _file_digest(f))])
    return _digest([str(where)])


@memoize
def code_digest() -> str:
    """Of everything that decides what a recording holds: no build takes another build's recordings for its own."""
    here = Path(__file__).parent
    rooms = [p for room in ("collectors", "replay") for p in (here / room).resolve().rglob("*")]
    own = [*here.glob("*.py"), *(here / "forms").glob("*.py")]
    files = sorted(p for p in rooms + own if p.suffix in (".py", ".so"))
    return _digest([__version__, *(_file_digest(p) for p in files)])


# --- the pipeline ---


def _write(
    writer: RecordingWriter, trace: Path, reader: Reader, kind: Format, digest: str, where: Path | str | None,
    report: Progress, redactor: Redactor | None,
) -> None:  # fmt: skip
    from rewake.collectors import snapshot
    from rewake.replay import probes
    from rewake.replay.decisions import build_decisions

    header = dict(reader.header)
    report("topology")
    machine = snapshot.load(where) if where is not None else snapshot.of_trace(header)
    capture = machine.capture or {}
    partial = kind.holds_snapshot or capture.get("mode") == "flight" or "cpus" in capture
    n_cpus = _cpus_of(machine, header, where, sure=bool(header.get("all_cpus")) and not partial)
    reader.reserve_idle(n_cpus)
    ran, put = _write_events(writer, reader, report)
    decoded = reader.finish()

    known = map(int, with_null(machine.cpu["cpu"])[0])
    outside = sorted(ran.difference(known)) if where is not None and len(machine.cpu["cpu"]) else []
    if outside:
        writer.manifest["outside"] = outside
    notes = list(machine.notes)
    _write_machine(writer, machine, int(header["cpus"]), n_cpus, notes)
    notes += _write_tasks(writer, machine, decoded, n_cpus, redactor)
    if machine.topology_xml is not None and redactor is None:
        writer.put_file("topology.xml", machine.topology_xml)
    source = {
        "name": trace.name, "format": kind.name, "version": header.get("version"),
        "compression": header.get("compression"), "packed": kind.packed, "bytes": trace.stat().st_size,
        "sha256": digest,
    }  # fmt: skip
    writer.manifest |= {"tool": {"name": "rewake", "version": __version__}, "source": source}
    writer.manifest |= _described(machine, header, decoded, put, notes)
    if (slept := raced.mend(writer, writer.manifest["kernel"])) is not None:
        notes.append(slept)
    report("decisions")
    if (why := probes.foreign(writer)) is not None:
        writer.manifest["problems"].append(why)
        for k in range(writer.n_parts):
            writer.write_part("probe", k, empty(EVENT_TABLES["probe"]))
    build_decisions(writer)
    if redactor is not None:
        writer.manifest = redactor.manifest(writer.manifest)


def _write_events(writer: RecordingWriter, reader: Reader, report: Progress) -> tuple[set[int], Counter[int]]:
    """All batches, a part each; returns the CPUs that switched, and how often a task was put on each CPU."""
    seen = 0
    part = 0
    ran: set[int] = set()
    put: Counter[int] = Counter()
    while batch := reader.next_batch():
        for table, columns in batch.items():
            writer.write_part(table, part, columns)
            seen += len(columns["id"])
        if "switch" in batch:
            ran.update(map(int, np.unique(batch["switch"]["cpu"])))
        for table, column in (("wakeup", "target_cpu"), ("migrate", "dest_cpu")):
            if table in batch:
                put.update(dict(enumerate(np.bincount(np.asarray(batch[table][column])).tolist())))
        part += 1
        batch = None  # before the next one is made: never two in memory
        report(f"decoded {seen:,} events")
    return ran, put


def _write_tasks(
    writer: RecordingWriter, machine: Any, decoded: dict[str, Any], n_cpus: int, redactor: Redactor | None
) -> list[str]:
    """Task tables, from what was decoded and from the snapshot; returns what is to be said of them."""
    wakings = (writer.read_part("waking", k, ("curr_task", "irq_ctx", "task")) for k in range(writer.n_parts))
    tables = tasks.build(decoded, machine.threads, machine.cgroup, n_cpus, machine.observers, wakings)
    task, comm, cgroup = tables.task, tables.comm, machine.cgroup
    if redactor is not None:
        task, comm = redactor.tasks(task, tables.task_attr, comm)
        cgroup = redactor.cgroup(cgroup)
    writer.write("cgroup", cgroup)
    writer.write("task", task)
    writer.write("task_attr", tables.task_attr)
    writer.write("comm", comm)
    return tables.notes


def _described(
    machine: Any, header: Mapping[str, Any], decoded: Mapping[str, Any], put: Mapping[int, int], notes: list[str]
) -> dict[str, Any]:
    """What the manifest says of the recorded kernel, its events and the machine; adds to `notes` where the trace and
    the snapshot differ. `put`: how often a task was put on each CPU."""
    kernel = header.get("kernel") or machine.kernel
    if machine.kernel and header.get("kernel") and machine.kernel != header["kernel"]:
        notes.append(f"the snapshot is of kernel {machine.kernel}, the trace of {header['kernel']}")
    uname = header.get("uname") or machine.uname
    clock = header.get("clock") or machine.trace_clock
    first, last = decoded.get("first_ns"), decoded.get("last_ns")
    losses = _losses(decoded["lost"], machine.capture or {})
    found = decoded.get("streams") or ()
    kept = _recorded_cpus(machine.capture) or _asked_for(header, machine)
    some = any(line.startswith("recorded for some tasks only") for line in decoded.get("missing") or ())
    lacking = [] if some else streams.unrecorded(found, put, kept)
    return {
        "snapshot": {
            "sources": machine.sources, "threads": len(machine.threads), "clock": machine.trace_clock,
        },
        "kernel": kernel,
        "uname": uname,
        "clock": clock,
        "clock_offset_ns": machine.clock_offset.get(str(clock)),
        "first_ns": first,
        "last_ns": last,
        "span_ns": last - first if first is not None and last is not None else 0,
        "events": dict(sorted(decoded["event_counts"].items())),
        "events_total": sum(decoded["event_counts"].values()),
        "skipped": dict(sorted(decoded["skipped"].items())),
        "loss": losses,
        "lost": sum(c.get("lost") or 0 for c in losses),
        "steps_back": decoded["steps_back"],
        "wakeup_failed": decoded["wakeup_failed"],
        "problems": [*decoded["problems"], *streams.problems(found), *lacking],
        "window": streams.window(found),
        "silences": streams.silences(found),
        "contexts": decoded.get("contexts", True),
        "missing": [*_absent(decoded["event_counts"]), *decoded.get("missing", [])],
        "notes": notes,
        "features": dict(sorted(machine.features.items())),
        "sysctl": dict(sorted(machine.sysctl.items())),
        "hz": machine.hz,
        "guest": True if header.get("is_guest") else machine.guest,
        "steal_pct": machine.steal_pct,
        "exit_latency_us": machine.exit_latency,
        "energy_aware": machine.energy_aware,
        "capture": machine.capture,
        "recorded_cpus": kept,
        **_states(kernel, uname, machine),
    }  # fmt: skip


def _cpus_of(machine: Any, header: Mapping[str, Any], where: Path | str | None, sure: bool) -> int:
    """CPUs of the recorded machine: those of the trace and of the snapshot. TraceError where the two cannot be of one
    machine, if the trace is `sure` to know all CPUs (a capture leaves out those without a record)."""
    traced = int(header["cpus"])
    numbers, known = machine.cpu_state["cpu"], [int(cpu) for cpu in machine.cpu["cpu"]]
    online = int(np.count_nonzero(with_null(machine.cpu_state["online"])[0])) if len(numbers) else 0
    if sure and online > traced:
        raise TraceError(
            f"{where}: of a machine with {online} CPUs online, and the trace is of one with {traced}: give the snapshot"
            " or topology of the machine that was recorded with --topology"
        )
    return max([traced, *(cpu + 1 for cpu in known)])


def _write_machine(writer: RecordingWriter, machine: Any, traced: int, n_cpus: int, notes: list[str]) -> None:
    """Machine tables; of `n_cpus` CPUs those that the snapshot lacks get rows of NULLs."""
    cpu, state = dict(machine.cpu), dict(machine.cpu_state)
    known = len(cpu["cpu"])
    missing = np.setdiff1d(np.arange(n_cpus, dtype=np.uint16), cpu["cpu"])
    if len(missing):
        if known:
            notes.append(f"{len(missing)} of {n_cpus} CPUs are not in the topology: unknown there")
        n = len(missing)
        unknown = (np.zeros(n, np.uint16), np.ones(n, np.bool_))
        cpu = _rows_added(cpu, {"cpu": missing, **{k: unknown for k in cpu if k != "cpu"}})
        state = _rows_added(
            state,
            {
                "cpu": missing, "from_ns": np.zeros(n, np.int64), "online": np.ones(n, np.bool_),
                "isolated": np.zeros(n, np.bool_), "root_domain": unknown, "capacity": unknown,
            },
        )  # fmt: skip
    writer.write("cpu", cpu)
    writer.write("cpu_state", state)
    writer.write("domain", machine.domain)
    # An offline CPU has no LLC but itself.
    up = np.isin(with_null(cpu["cpu"])[0], with_null(state["cpu"])[0][with_null(state["online"])[0]])
    count = {name: _distinct(cpu[name], up) for name in ("core", "llc", "node", "package")}
    writer.manifest["topology"] = "snapshot" if known else None
    writer.manifest["machine"] = {
        "cpus": max(traced, int(np.count_nonzero(up))), "cores": count["core"], "llcs": count["llc"],
        "nodes": count["node"], "packages": count["package"],
    }  # fmt: skip


def _rows_added(columns: Columns, more: Columns) -> Columns:
    """Both, in the order of `cpu`."""
    joined: Columns = {}
    order = np.argsort(np.concatenate([with_null(columns["cpu"])[0], with_null(more["cpu"])[0]]), kind="stable")
    for name in columns:
        (a, a_null), (b, b_null) = with_null(columns[name]), with_null(more[name])
        joined[name] = (np.concatenate([a, b])[order], np.concatenate([a_null, b_null])[order])
    return joined


def _distinct(column: Any, rows: Any) -> int | None:
    """How many there are in these rows; None when it is unknown to all of them."""
    values, null = with_null(column)
    known = values[~null & rows]
    return len(np.unique(known)) if len(known) else None


_WITHOUT = {
    "sched_waking": "a wakeup is seen when it is done, and the waker of one that its target's CPU queued not at all",
    "sched_wakeup": "when a wakeup reached its run queue is in no event",
    "sched_migrate_task": (
        "where a wakeup put its task is told by sched_wakeup, and what the load balancer moves is seen when it runs"
    ),
}
"""What it means that an event of wakeups was not recorded."""


def _absent(events: Mapping[str, int]) -> list[str]:
    return [NOT_RECORDED.format(event) + what for event, what in _WITHOUT.items() if not events.get(event)]


def _losses(marks: list[dict[str, Any]], capture: dict[str, Any]) -> list[dict[str, Any]]:
    """Losses per CPU. A full page has no room for the number that it lost, a full buffer that is not overwritten marks
    nothing: the kernel's own counters know."""
    losses = [dict(c) for c in marks]
    if capture.get("mode") != "flight":  # what a flight recorder overwrote lies before its window
        for counted in capture.get("kernel") or []:
            if counted["cpu"] < len(losses):
                mine = losses[counted["cpu"]]
                mine["lost"] = max(
                    mine["lost"], sum(counted.get(k, 0) for k in ("overrun", "commit_overrun", "dropped"))
                )
    return losses


def _recorded_cpus(capture: dict[str, Any] | None) -> list[int] | None:
    """The CPUs that the capture was confined to; None: all."""
    from rewake.collectors.snapshot.cpulist import parse_list

    listed = (capture or {}).get("cpus")
    return sorted(parse_list(str(listed))) if listed else None


def _asked_for(header: Mapping[str, Any], machine: Any) -> list[int] | None:
    """The CPUs that the trace says it was confined to (`perf record -C`); None: it does not say, or all online."""
    asked = sorted(header.get("recorded_cpus") or ())
    numbers, online = with_null(machine.cpu_state["cpu"])[0], with_null(machine.cpu_state["online"])[0]
    return asked if asked and not set(map(int, numbers[online.astype(bool)])) <= set(asked) else None


def _states(kernel: str | None, uname: str | None, machine: Any) -> dict[str, bool | None]:
    """What decides who places tasks: by the snapshot, else as far as the kernel's name tells; None: not known."""
    version = kernel_version(kernel)

    def known(said: bool | None, since: tuple[int, int]) -> bool | None:
        return False if said is None and (0, 0) < version < since else said

    # trace-cmd and perf write `uname -srm`, without the version ("#1 SMP PREEMPT_RT ...") which alone tells.
    versions = [u for u in (uname, machine.uname) if u is not None and " #" in u]
    by_name = any(re.search(r"\bPREEMPT[_ ]RT\b", u) for u in versions) if versions else None
    return {
        "sched_ext": known(machine.sched_ext, (6, 12)),
        "core_scheduling": known(machine.core_scheduling, (5, 14)),
        "preempt_rt": by_name if machine.preempt_rt is None else machine.preempt_rt,
    }


def _refuse_degraded(manifest: dict[str, Any], trace: Path) -> None:
    """--strict: nothing lost or out of order, nothing that decode had to step over, all CPUs over the same time."""
    from rewake.analysis.quality import MAX_RESYNC_PER_1000_SWITCHES

    reasons = [str(p) for p in manifest["problems"]]
    gaps = sum(c.get("gaps") or 0 for c in manifest["loss"])
    if manifest["lost"] or gaps:
        reasons.append(f"{manifest['lost']} events lost in {gaps} gaps")
    if manifest["steps_back"]:
        reasons.append(f"{manifest['steps_back']} timestamps step back")
    resync = (manifest.get("replay") or {}).get("resync") or 0
    if resync * 1000 > MAX_RESYNC_PER_1000_SWITCHES * (manifest["events"].get("sched_switch") or resync):
        reasons.append(f"{resync} switches contradict what came before: events are missing, or the CPUs' clocks differ")
    if reasons:
        raise TraceError(f"{trace}: refused by --strict: " + "; ".join(reasons))
