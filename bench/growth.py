# SPDX-License-Identifier: GPL-2.0-or-later
"""Rows 8, 9 and 9b, and what each stage of the command line holds in memory at most."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from measuring import Row, cpu_seconds, measure, peak_mb
from replays import MACHINES, imported, make_long_trace, make_trace
from stages import POLICIES

FIXED_MB = 150
"""Row 8: what a process may take before it has read anything."""
TIMES = 10
STREAMS = (2, 256)
LONGER = 4
"""Row 8b of the closed loop: how many times longer the longer recording is."""
WINDOWS = "500ms"
"""And how long the windows of both are: what is open is held. By default those of the shorter one are shorter."""


def decoding(decoder: Path, folder: Path, events: int, pairs: int) -> list[Row]:
    """Resident decoding of a trace ten times as long, and of as many events on more CPUs."""
    short = make_trace(folder, events // 4, "none")
    long = make_long_trace(folder, events // 4, TIMES)
    few, many = (make_trace(folder, events // 2, "none", cpus) for cpus in STREAMS)
    per_event = {file: _events(decoder, file) for file in (short, long, few, many)}

    def cost(file: Path) -> Callable[[], float]:
        return lambda: cpu_seconds([str(decoder), str(file)]) / per_event[file] * 1e9

    gb = long.stat().st_size / 1e9
    over = max(peak_mb([str(decoder), str(long)]) - FIXED_MB, 0) / 1e3
    rows = [
        Row("8", f"everything resident, GB over {FIXED_MB} MB / GB of trace", over, gb, over / gb, 1.0, 0.7),
        measure("9", f"ns an event, a trace {TIMES} times as long / it", 1.25, 1.1, pairs, cost(long), cost(short)),
        measure("9b", f"ns an event, {STREAMS[1]} streams / {STREAMS[0]}", 2.0, 1.5, pairs, cost(many), cost(few)),
    ]
    for file in (short, long, few, many):
        file.unlink()
    return rows


def _events(decoder: Path, file: Path) -> int:
    told = subprocess.run([decoder, file], capture_output=True, text=True, check=True).stdout
    return int(told.split()[1])


def memory(folder: Path, trace: Path, topology: str | None, env: dict[str, str]) -> dict[str, float]:
    """Peak MB of each stage, one process each, over the same trace."""
    recording, run, closed = (folder / f"memory.{ending}" for ending in ("rewake", "run", "closed.run"))
    machine = ("--topology", topology) if topology else ()
    stages = {
        "import": ("import", str(trace), *machine, "-o", str(recording)),
        "replay, 8 policies": ("replay", str(recording), *_policies(), "-o", str(run), "--force"),
        "report": ("report", str(run)),
        "report --html": ("report", str(run), "--html", str(folder / "memory.html")),
        "simulate, 1 policy": ("simulate", str(recording), "--policy", "prev", "-o", str(closed), "--force"),
    }
    cache = {**env, "XDG_CACHE_HOME": str(folder)}
    found = {
        f"rewake {name}": peak_mb([sys.executable, "-m", "rewake.cli", *words], cache) for name, words in stages.items()
    }
    for made in (recording, run, closed):
        shutil.rmtree(made, ignore_errors=True)
    return found


def simulating(folder: Path, events: int, cpus: int, env: dict[str, str]) -> Row:
    """Row 8b of the closed loop: peak MB of simulate, of a recording that it can re-run and of a longer one."""
    short, long = (_simulate_mb(folder, n, cpus, env) for n in (events, LONGER * events))
    what = f"simulate, 1 policy, windows of {WINDOWS}, peak MB: a recording {LONGER} times as long / it"
    return Row("8b", what, long, short, long / short, 1.5, 1.1)


def _simulate_mb(folder: Path, events: int, cpus: int, env: dict[str, str]) -> float:
    trace, run = make_trace(folder, events, "none", cpus, causal=True), folder / "memory.closed.run"
    recording = imported(trace, MACHINES[cpus].topology, folder)
    words = ("simulate", str(recording.path), "--policy", "prev", "--windows", WINDOWS, "-o", str(run), "--force")
    mb = peak_mb([sys.executable, "-m", "rewake.cli", *words], {**env, "XDG_CACHE_HOME": str(folder)})
    trace.unlink()
    for made in (recording.path, run):
        shutil.rmtree(made)
    return mb


def _policies() -> list[str]:
    return [word for policy in POLICIES for word in ("--policy", policy)]
