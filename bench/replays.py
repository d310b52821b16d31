# SPDX-License-Identifier: GPL-2.0-or-later
"""The open loop in this process, over generated recordings of machines of any size."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewake.forms import Recording

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Machine:
    """A machine to generate a schedule for; its LLCs have 16 CPUs, those of 40 have 20."""

    cpus: int
    topology: str


MACHINES = {
    m.cpus: m
    for m in (
        Machine(16, "pack:1 l3:2 core:4 pu:2"),
        Machine(40, "pack:2 l3:1 core:10 pu:2"),
        Machine(64, "pack:1 l3:4 core:8 pu:2"),
        Machine(256, "pack:2 l3:8 core:8 pu:2"),
        Machine(1024, "pack:2 l3:32 core:8 pu:2"),
    )
}


def make_trace(
    folder: Path, events: int, compression: str, cpus: int = 16, *, forks: bool = True, causal: bool = False
) -> Path:
    """A toy schedule in a file that is named by all of these. `causal`: one that a simulation can re-run."""
    sys.path.insert(0, str(ROOT / "tests"))
    import tracedat

    kind = f"{'' if forks else '-wakeups'}{'-causal' if causal else ''}"
    path = folder / f"bench-{events}-{compression}-{cpus}{kind}.dat"
    columns = tracedat.schedule(events, cpus, extras=forks, causal=causal)
    tracedat.write(path, columns, version=7, compression=compression, machine=tracedat.Machine(cpus))
    return path


def make_perf_data(folder: Path, events: int, cpus: int = 16) -> Path:
    """The same schedule as samples of `perf record`."""
    sys.path.insert(0, str(ROOT / "tests"))
    import perfdata
    import tracedat

    path = folder / f"bench-{events}-{cpus}.perf.data"
    perfdata.write(path, tracedat.schedule(events, cpus), machine=tracedat.Machine(cpus))
    return path


def make_long_trace(folder: Path, events: int, times: int, cpus: int = 16) -> Path:
    """The toy schedule of `make_trace` repeated, in little memory: its pages again and again, each time later."""
    sys.path.insert(0, str(ROOT / "tests"))
    import numpy as np
    import tracedat

    from rewake.collectors.capture import container

    columns, machine = tracedat.schedule(events, cpus), tracedat.Machine(cpus)
    span = max(int(c["ts"].max()) for c in columns.values()) + 1_000_000
    files = {}
    for cpu, data in enumerate(tracedat.pages(columns, tracedat.FORMATS, machine)):
        pages = np.frombuffer(bytearray(data), "<u8").reshape(-1, machine.page_size // 8)
        files[cpu] = folder / f"long-cpu{cpu}"
        with files[cpu].open("wb") as out:
            for _ in range(times):
                out.write(pages.tobytes())
                pages[:, 0] += span  # the time stamp of the page; its records' are relative
    path = folder / f"bench-{events}x{times}.dat"
    texts = [(f.system, f.text(machine.long_size).encode()) for f in tracedat.FORMATS]
    formats = container.Formats(machine.header_page(), b"", texts)
    container.write(path, formats, files, clock="local", uname="Linux box 6.1.0-bench x86_64")
    for file in files.values():
        file.unlink()
    return path


def imported(trace: Path, topology: str | None, folder: Path) -> Recording:
    """The recording of a trace, in `folder`."""
    from rewake import importing

    return importing.import_trace(trace, topology, folder / f"{trace.stem}.rewake")


class Replays:
    """The open loop in this process, over one recording held in memory."""

    def __init__(self, recording: Recording) -> None:
        from rewake.replay import recorded
        from rewake.replay.loop import DECISION_COLUMNS, Loop

        self.recording = recording
        self.batches = [recorded.batch(self.recording, k) for k in range(self.recording.n_parts)]
        self.decisions = [
            self.recording.read_part("decision", k, DECISION_COLUMNS) for k in range(self.recording.n_parts)
        ]
        self.loop = Loop(self.recording, seed=1)
        self.wakeups = sum(len(d["event_id"]) for d in self.decisions)

    def seconds(self, *policies: str) -> float:
        from rewake.replay.spec import PolicySpec

        engine = self.loop.engine([PolicySpec(name) for name in policies], sync=False)
        start = time.process_time()
        for k, batch in enumerate(self.batches):
            engine.run(batch, self.batches[k + 1] if k + 1 < len(self.batches) else None, self.decisions[k])
        return time.process_time() - start

    def inference_per_decision(self, column: str) -> float:
        """Nanoseconds a decision that inference (sync=auto) takes, as for a recording of that column's kernel."""
        from rewake.replay.loop import Loop
        from rewake.replay.spec import PolicySpec

        loop = Loop(self.recording, seed=1)
        start = time.process_time()
        loop.infer(PolicySpec(column))
        return (time.process_time() - start) / self.wakeups * 1e9

    def per_decision(self, *policies: str) -> float:
        """Nanoseconds of a decision by all of them."""
        return self.seconds(*policies) / self.wakeups * 1e9


def generated(folder: Path, events: int, cpus: int, *, forks: bool = True) -> Replays:
    """About `events` events of a toy schedule on that machine. A fork looks at every CPU, as in the kernel."""
    trace = make_trace(folder, events, "none", cpus, forks=forks)
    return Replays(imported(trace, MACHINES[cpus].topology, folder))
