# SPDX-License-Identifier: GPL-2.0-or-later
"""What the events alone do not say: topology, scheduler domains, tasks and settings of the recorded machine."""

from __future__ import annotations

import errno
import hashlib
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rewake.collectors.snapshot import archive, captured, domains, embedded, guest, hwloc, power, sessions, tasks
from rewake.collectors.snapshot.cpulist import MAX_CPUS, format_list, parse_list
from rewake.collectors.snapshot.files import Files, PackedFiles
from rewake.errors import TraceError
from rewake.forms import Array, Columns, kernel_version

_SYNTHETIC = re.compile(r"\s*[A-Za-z]\w*:\d+(\([^)]*\))?(\s+[A-Za-z]\w*:\d+(\([^)]*\))?|\s*\[[^\]]*\])*\s*")
_XML_BYTES = 64 << 20
_CPU_DIR = "sys/devices/system/cpu"


@dataclass
class Snapshot:
    """A machine: columns of the tables `cpu`, `cpu_state`, `domain` and `cgroup`, the rest as plain values.

    `kernel` is the release, `hz` CONFIG_HZ, `clock_offset` how far the scheduler's clock is ahead of each trace
    clock, ns, `topology_xml` hwloc's export, `guest` whether a hypervisor ran it,
    `steal_pct` how much of its CPU time that took while the trace ran, `energy_aware` whether wakeups may be placed by
    energy; None: not in the snapshot. `exit_latency` is in us per cpuidle state, by CPU number. `capture` is what the
    collector says of itself, `observers` its thread ids. `notes` say what was missing or contradictory. `sources` are
    names with the SHA-256 of what was read.
    """

    cpu: Columns = field(default_factory=dict)
    cpu_state: Columns = field(default_factory=dict)
    domain: Columns = field(default_factory=dict)
    cgroup: Columns = field(default_factory=dict)
    threads: list[tasks.Thread] = field(default_factory=list)
    features: dict[str, bool] = field(default_factory=dict)
    sysctl: dict[str, str] = field(default_factory=dict)
    uname: str | None = None
    kernel: str | None = None
    trace_clock: str | None = None
    topology_xml: bytes | None = None
    hz: int | None = None
    clock_offset: dict[str, int] = field(default_factory=dict)
    guest: bool | None = None
    steal_pct: float | None = None
    exit_latency: dict[str, list[int]] = field(default_factory=dict)
    energy_aware: bool | None = None
    sched_ext: bool | None = None
    core_scheduling: bool | None = None
    preempt_rt: bool | None = None
    capture: dict[str, Any] | None = None
    observers: frozenset[int] = frozenset()
    notes: list[str] = field(default_factory=list)
    sources: list[dict[str, str]] = field(default_factory=list)


@dataclass
class _Cpus:
    """What sysfs says of the CPUs; `possible` always holds `online`."""

    possible: frozenset[int]
    online: frozenset[int]
    isolated: frozenset[int]
    capacity: dict[int, int]


def beside(trace: Path) -> Path | None:
    """The snapshot that was stored with a trace: topology.tar.gz, topology/ or topology.xml in its directory."""
    candidates = (
        trace.parent / name
        for name in ("topology.tar.gz", "topology.tar.xz", "topology.tar", "topology", "topology.xml")
    )
    return next((c for c in candidates if c.exists()), None)


def load(path: Path | str | None) -> Snapshot:
    """Reads a snapshot archive or directory, an lstopo XML, or a synthetic topology such as `pack:2 l3:8 core:8 pu:2`.

    None gives an empty snapshot with a note. Raises TraceError when there is something and it cannot be used.
    """
    if path is None:
        return _build(
            Snapshot(notes=["no topology snapshot: LLCs, nodes and domains are unknown"]), hwloc.Hardware(), None, None
        )
    where = Path(path)
    try:
        if where.is_dir():
            return _load_tree(Files(where), where.name, [])
        if where.is_file():
            return _load_file(where)
    except OSError as e:
        if e.errno != errno.ENAMETOOLONG:  # no file: indexes of many CPUs, written out
            raise TraceError(f"topology {where}: {e.strerror or e}") from None
    if isinstance(path, str) and _SYNTHETIC.fullmatch(path):
        snapshot = Snapshot(sources=[{"name": "synthetic", "sha256": hashlib.sha256(path.encode()).hexdigest()}])
        return _build(snapshot, hwloc.read_synthetic(path), None, None)
    raise TraceError(f"topology {where}: no such file, and not a synthetic topology like 'pack:2 l3:8 core:8 pu:2'")


def of_trace(header: Mapping[str, Any]) -> Snapshot:
    """What the header of a trace says of the machine (`machine`, see embedded.hardware, and `kernel`)."""
    told = header.get("machine")
    if told is None:
        return load(None)
    snapshot = Snapshot(
        notes=["topology out of the trace's own header: distances of nodes, capacities, tasks and settings are unknown"]
    )
    snapshot.kernel, snapshot.uname = header.get("kernel"), header.get("uname")
    hardware = embedded.hardware(told, snapshot.notes)
    snapshot.sources = [{"name": "trace header", "sha256": hashlib.sha256(repr(told).encode()).hexdigest()}]
    return _build(snapshot, hardware, None, None)


def _load_file(path: Path) -> Snapshot:
    digest = hashlib.sha256()
    with path.open("rb") as f:
        head = f.read(512)
        f.seek(0)
        while block := f.read(1 << 20):
            digest.update(block)
    source = {"name": path.name, "sha256": digest.hexdigest()}
    if archive.is_archive(path):
        with archive.opened(path) as contents:
            place = archive.scratch(contents.room(archive.hwloc_reads))
            with tempfile.TemporaryDirectory(prefix="rewake-snapshot-", dir=place) as temp:
                contents.unpack(Path(temp), archive.hwloc_reads)
                snapshot = _load_tree(PackedFiles(Path(temp), contents), str(path), contents.notes)
            snapshot.sources = [source]
            return snapshot
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        if path.stat().st_size > _XML_BYTES:
            raise TraceError(f"topology {path}: more than {_XML_BYTES >> 20} MiB of XML; refusing it")
        return _build(Snapshot(sources=[source]), hwloc.read_xml(path), None, None)
    raise TraceError(f"topology {path}: neither a tar archive nor an lstopo XML")


def _load_tree(files: Files, name: str, notes: list[str]) -> Snapshot:
    folders = files.children("", directories=True)
    # gather-topology and many people pack one directory around everything.
    if "sys" not in folders:
        inner = [d for d in folders if "sys" in files.children(d, directories=True)]
        if len(inner) != 1:
            raise TraceError(f"topology {name}: no sys/devices/system/cpu in it; it must hold copies of /sys and /proc")
        files = files.below(inner[0])
    if not files.children(_CPU_DIR, directories=True):
        raise TraceError(f"topology {name}: no {_CPU_DIR} in it; it must hold copies of /sys and /proc")
    snapshot = Snapshot(notes=notes)
    snapshot.uname, snapshot.kernel = tasks.read_uname(files)
    snapshot.trace_clock, snapshot.hz = tasks.read_clock(files), tasks.read_hz(files)
    offsets = {clock: tasks.read_clock_offset(files, clock) for clock in tasks.CLOCKS}
    snapshot.clock_offset = {clock: ns for clock, ns in offsets.items() if ns is not None}
    snapshot.guest, snapshot.steal_pct = guest.read(files)
    snapshot.capture, snapshot.observers = captured.read(files)
    snapshot.sched_ext, snapshot.core_scheduling = captured.sched_ext(files), captured.core_scheduling(files)
    snapshot.preempt_rt = captured.preempt_rt(files)
    snapshot.features, snapshot.sysctl = tasks.read_features(files), tasks.read_sysctl(files)
    snapshot.energy_aware = power.read_energy_aware(files)
    groups, member = tasks.read_cgroups(files)
    threads, bad = tasks.read_threads(files, member)
    snapshot.threads, groups = sessions.with_sessions(threads, groups, snapshot.sysctl)
    snapshot.cgroup = _cgroup_columns(groups)
    if bad:
        snapshot.notes.append(f"{bad} lines of the thread lists could not be read")
    if snapshot.threads and sessions.untold(threads, snapshot.sysctl):
        snapshot.notes.append("groups of sessions (sched_autogroup_enabled) are not in the snapshot")
    if not snapshot.threads:
        snapshot.notes.append("no thread list: allowed CPUs and policies of tasks are unknown at the start")
    if not snapshot.features:
        snapshot.notes.append("no sched_features in the snapshot")
    hardware = hwloc.read_fsroot(files.root, name)
    try:
        cpus = _read_cpus(files, hardware)
        stacks = domains.from_schedstat(files)
    except ValueError as e:
        raise TraceError(f"topology {name}: {e}") from None
    snapshot.exit_latency = power.read_exit_latency(files, sorted(cpus.online))
    if stacks is not None and not domains.add_names(files, stacks):
        snapshot.notes.append("names or flags of scheduler domains are missing: completed from the default stack")
        stacks = _complete(stacks, _default(snapshot, hardware, cpus))
    _build(snapshot, hardware, cpus, stacks)
    snapshot.sources = [{"name": name, "sha256": files.sha256()}]
    return snapshot


def _read_cpus(files: Files, hardware: hwloc.Hardware) -> _Cpus:
    told = files.text(f"{_CPU_DIR}/online")
    online = parse_list(told or "")
    if told is not None and not online:  # hwloc makes one CPU of it
        raise ValueError(f"{_CPU_DIR}/online names no CPU: the copy is damaged, take it again")
    online = online or frozenset(hardware.pus)
    present = frozenset(hardware.pus) | online
    possible = parse_list(files.text(f"{_CPU_DIR}/possible") or "") | present
    isolated = parse_list(files.text(f"{_CPU_DIR}/isolated") or "")
    capacity = {c: files.number(f"{_CPU_DIR}/cpu{c}/cpu_capacity") for c in online}
    # Architectures without the file schedule all CPUs as equal.
    known = {c: min(v, 1024) for c, v in capacity.items() if v} or dict.fromkeys(online, 1024)
    return _Cpus(possible, online, isolated, known)


def _default(snapshot: Snapshot, hardware: hwloc.Hardware, cpus: _Cpus) -> domains.Stacks:
    """As a kernel of that version builds them; a recent one where it is unknown."""
    known = kernel_version(snapshot.kernel)
    version = known if known > (0, 0) else (99, 0)
    return domains.default_stack(hardware, cpus.capacity, cpus.online - cpus.isolated, version)


def _complete(stacks: domains.Stacks, default: domains.Stacks) -> domains.Stacks:
    """What the kernel does not say of a level, from the default one with the same span."""
    done: domains.Stacks = {}
    for cpu, stack in stacks.items():
        same = {d.span: d for d in default.get(cpu, [])}
        done[cpu] = [d.completed(same[d.span]) if d.span in same else d for d in stack]
    return done


def _build(snapshot: Snapshot, hardware: hwloc.Hardware, cpus: _Cpus | None, stacks: domains.Stacks | None) -> Snapshot:
    """Fills the machine tables; without `stacks` the domains are derived from the hardware."""
    snapshot.topology_xml = hardware.xml
    if hardware.pus and max(hardware.pus) >= MAX_CPUS:
        raise TraceError(f"topology: CPU number {max(hardware.pus)} is not below {MAX_CPUS}")
    if cpus is None:
        cpus = _Cpus(frozenset(hardware.pus), frozenset(hardware.pus), frozenset(), {})
    from_kernel = stacks is not None
    if stacks is None:
        stacks = _default(snapshot, hardware, cpus)
        if hardware.pus:
            snapshot.notes.append("no scheduler domains in the snapshot: default stack of the hardware assumed")
    bare = frozenset(c for c in cpus.online if not stacks.get(c)) if len(cpus.online) > 1 else frozenset()
    isolated = (cpus.isolated & cpus.online) | (bare if from_kernel else frozenset())
    stacks = {c: [] if c in isolated else stacks.get(c, []) for c in cpus.possible}

    shared = domains.llc_of(hardware)
    llc = _llc_ids(stacks, shared)
    wrong = sorted(c for c in cpus.online - isolated if c in shared and stacks[c] and llc[c] != shared[c])
    if from_kernel and wrong:
        snapshot.notes.append(
            f"the scheduler's LLC differs from the hardware's on CPUs {format_list(wrong)}: the scheduler's is used"
        )
    if from_kernel and bare - cpus.isolated:
        snapshot.notes.append(f"CPUs {format_list(bare - cpus.isolated)} are online but have no scheduler domain")
    snapshot.cgroup = snapshot.cgroup or _cgroup_columns([])
    snapshot.cpu = _cpu_columns(hardware, cpus, stacks, llc)
    snapshot.cpu_state = _state_columns(cpus, isolated, stacks)
    snapshot.domain = _domain_columns(stacks)
    return snapshot


def _llc_ids(stacks: domains.Stacks, shared: dict[int, int]) -> dict[int, int]:
    """llc_id as the scheduler has it: lowest CPU of the highest domain that shares a cache, else the CPU itself."""
    llc: dict[int, int] = {}
    for cpu, stack in stacks.items():
        if stack and not any(d.flags for d in stack):
            llc[cpu] = shared.get(cpu, cpu)
            continue
        top = next((d for d in reversed(stack) if d.shares_llc), None)
        llc[cpu] = min(top.span) if top else cpu
    return llc


def _nullable(values: list[int | None], dtype: type[np.generic]) -> Array | tuple[Array, Array]:
    null = np.array([v is None for v in values], dtype=np.bool_)
    return np.array([v or 0 for v in values], dtype=dtype), null


def _small(numbers: list[int | None]) -> list[int | None]:
    """Firmware may number packages with 32-bit ids; ranks stand in for numbers that do not fit the column."""
    if all(n is None or n <= 0xFFFF for n in numbers):
        return numbers
    rank = {n: i for i, n in enumerate(sorted({n for n in numbers if n is not None}))}
    return [None if n is None else rank[n] for n in numbers]


def _cpu_columns(hardware: hwloc.Hardware, cpus: _Cpus, stacks: domains.Stacks, llc: dict[int, int]) -> Columns:
    rows = sorted(cpus.possible)
    pus = [hardware.pus.get(c) for c in rows]
    clusters = [next((min(d.span) for d in stacks[c] if d.name in ("CLS", "CLUSTER")), None) for c in rows]
    return {
        "cpu": np.array(rows, dtype=np.uint16),
        "core": _nullable([p.core if p else None for p in pus], np.uint16),
        "llc": _nullable([llc[c] for c in rows], np.uint16),
        "cluster": _nullable(clusters, np.uint16),
        "node": _nullable(_small([p.node if p else None for p in pus]), np.uint16),
        "package": _nullable(_small([p.package if p else None for p in pus]), np.uint16),
        "capacity": _nullable([cpus.capacity.get(c) for c in rows], np.uint16),
    }


def _state_columns(cpus: _Cpus, isolated: frozenset[int], stacks: domains.Stacks) -> Columns:
    """One row per CPU from time 0 on; CPUs joined by any domain are one root domain, NULL where no domain says so."""
    rows = sorted(cpus.possible)
    root: dict[int, int] = {}
    for cpu in rows:
        if stacks[cpu] and cpu not in root:
            members = {cpu}
            while (grown := members.union(*(stacks[c][-1].span for c in members if stacks.get(c)))) != members:
                members = grown
            root.update(dict.fromkeys(members, min(members)))
    return {
        "cpu": np.array(rows, dtype=np.uint16),
        "from_ns": np.zeros(len(rows), dtype=np.int64),
        "online": np.array([c in cpus.online for c in rows], dtype=np.bool_),
        "isolated": np.array([c in isolated for c in rows], dtype=np.bool_),
        "root_domain": _nullable([None if c in isolated else root.get(c) for c in rows], np.uint16),
        "capacity": _nullable([cpus.capacity.get(c) for c in rows], np.uint16),
    }


def _domain_columns(stacks: domains.Stacks) -> Columns:
    rows = [(cpu, level, d) for cpu in sorted(stacks) for level, d in enumerate(stacks[cpu])]
    return {
        "cpu": np.array([r[0] for r in rows], dtype=np.uint16),
        "level": np.array([r[1] for r in rows], dtype=np.uint8),
        "name": np.array([tasks.escape(r[2].name) for r in rows], dtype=object),
        "span": np.array([format_list(r[2].span) for r in rows], dtype=object),
        "flags": np.array([tasks.escape(" ".join(r[2].flags)) for r in rows], dtype=object),
        "imbalance_pct": _nullable([r[2].imbalance_pct for r in rows], np.uint16),
    }


def _cgroup_columns(groups: list[tasks.Cgroup]) -> Columns:
    cpusets = [g.cpuset for g in groups]
    return {
        "cgroup_id": np.array([g.cgroup_id for g in groups], dtype=np.uint32),
        "path": np.array([g.path for g in groups], dtype=object),
        "parent": _nullable([g.parent for g in groups], np.uint32),
        "weight": _nullable([g.weight for g in groups], np.uint32),
        "quota_ns": _nullable([g.quota_ns for g in groups], np.int64),
        "period_ns": _nullable([g.period_ns for g in groups], np.int64),
        "cpuset": (
            np.array([c or "" for c in cpusets], dtype=object),
            np.array([c is None for c in cpusets], dtype=np.bool_),
        ),
        "shares": _nullable([g.shares for g in groups], np.uint32),
    }
