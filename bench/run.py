# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures rewake against its peers on the same file: cpu-seconds, A B A B, medians of the paired ratios.

Usage: ./dev bench [--events N] [--pairs N] [--trace FILE [--topology TOPO]] [--format table|json]

Each row has a ceiling ("must") and a goal; the exit status is 1 when a ratio is above its ceiling twice in a row.
Nothing here measures wall time. The input is made by tests/tracedat.py unless --trace names a recording.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "build" / "Release" / "bench"
POLICIES = (
    "recorded", "prev", "waker", "random-idle", "oracle-idle", "linux-6.1", "linux-4.5", "idle-thread-scan",
)  # fmt: skip
TOPOLOGY = "pack:1 l3:2 core:4 pu:2"
CPUS = 16


@dataclass
class Row:
    """One comparison: median of a/b over the pairs."""

    number: str
    what: str
    a_seconds: float
    b_seconds: float
    ratio: float
    must: float
    goal: float

    @property
    def verdict(self) -> str:
        return "goal" if self.ratio <= self.goal else "must" if self.ratio <= self.must else "MISSED"


def cpu_seconds(argv: list[str], env: dict[str, str] | None = None) -> float:
    """User and system time of a command and its children, output thrown away."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, check=False)
    if done.returncode:
        sys.exit(f"bench: {' '.join(argv)} failed: {done.stderr.decode(errors='replace').strip()[-400:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def paired(pairs: int, a: Callable[[], float], b: Callable[[], float]) -> tuple[float, float, float]:
    """Medians of a, b and a/b over alternating runs, after one warm-up of each."""
    a(), b()
    runs = [(a(), b()) for _ in range(pairs)]
    return (
        statistics.median(x for x, _ in runs),
        statistics.median(y for _, y in runs),
        statistics.median(x / y for x, y in runs),
    )


def measure(
    number: str, what: str, must: float, goal: float, pairs: int, a: Callable[[], float], b: Callable[[], float]
) -> Row:
    row = Row(number, what, *paired(pairs, a, b), must, goal)
    if row.verdict == "MISSED":  # once more before it counts
        row = Row(number, what, *paired(pairs, a, b), must, goal)
    print(f"  {number}: {row.ratio:.3f} ({row.verdict})", file=sys.stderr)
    return row


def make_trace(folder: Path, events: int, compression: str) -> Path:
    sys.path.insert(0, str(ROOT / "tests"))
    import tracedat

    path = folder / f"bench-{compression}.dat"
    columns = tracedat.schedule(events, CPUS)
    tracedat.write(path, columns, version=7, compression=compression, machine=tracedat.Machine(CPUS))
    return path


class Replays:
    """The open loop in this process, over one recording held in memory."""

    def __init__(self, trace: Path, topology: str | None, folder: Path) -> None:
        from rewake import importing
        from rewake.replay import driver

        self.recording = importing.import_trace(trace, topology, folder / "bench.rewake")
        self.batches = [driver._batch(self.recording, k) for k in range(self.recording.n_parts)]
        self.decisions = [
            self.recording.read_part("decision", k, driver._DECISION_COLUMNS) for k in range(self.recording.n_parts)
        ]
        self.loop = driver.Loop(self.recording, seed=1)
        self.wakeups = sum(len(d["event_id"]) for d in self.decisions)

    def seconds(self, *policies: str) -> float:
        from rewake.replay.spec import PolicySpec

        engine = self.loop.engine([PolicySpec(name) for name in policies], sync=False)
        start = time.process_time()
        for k, batch in enumerate(self.batches):
            engine.run(batch, self.batches[k + 1] if k + 1 < len(self.batches) else None, self.decisions[k])
        return time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=2_000_000, help="events of the generated input")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs per row")
    parser.add_argument("--trace", type=Path, help="an uncompressed trace.dat to use instead")
    parser.add_argument("--topology", help="its topology")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    args = parser.parse_args()
    report = shutil.which("trace-cmd")
    if report is None:
        sys.exit("bench: trace-cmd is not installed")
    with tempfile.TemporaryDirectory(prefix="rewake-bench-") as name:
        folder = Path(name)
        print("preparing the input", file=sys.stderr)
        trace = args.trace or make_trace(folder, args.events, "none")
        topology = args.topology if args.trace else TOPOLOGY
        zstd = None if args.trace else make_trace(folder, args.events, "zstd")
        events = int(
            subprocess.run(
                [PROGRAMS / "decode_columns", trace], capture_output=True, text=True, check=True
            ).stdout.split()[1]
        )
        size = trace.stat().st_size

        def program(which: str, file: Path = trace) -> Callable[[], float]:
            return lambda: cpu_seconds([str(PROGRAMS / which), str(file)])

        def trace_cmd() -> float:
            return cpu_seconds([report, "report", str(trace)])

        def row(
            number: str, what: str, must: float, goal: float, a: Callable[[], float], b: Callable[[], float]
        ) -> None:
            rows.append(measure(number, what, must, goal, args.pairs, a, b))

        rows: list[Row] = []
        columns, peer = program("decode_columns"), program("decode_libtracecmd")
        row("1", "decode to columns / trace-cmd report", 1 / 12, 1 / 25, columns, trace_cmd)
        row("1a", "streaming pass / trace-cmd report", 1 / 30, 1 / 60, program("decode_stream"), trace_cmd)
        row("1b", "decode to columns / C loop on libtracecmd", 1.0, 0.5, columns, peer)
        if zstd is not None:
            row("1c", "zstd / uncompressed, decode to columns", 3, 2, program("decode_columns", zstd), columns)
        replays = Replays(trace, topology, folder)
        alone: dict[str, float] = {}
        for policy in POLICIES:
            replays.seconds(policy)
            alone[policy] = statistics.median(replays.seconds(policy) for _ in range(args.pairs))
        row("6c", "8 policies / sum of each alone", 1.2, 1.05, lambda: replays.seconds(*POLICIES),
            lambda: sum(replays.seconds(p) for p in POLICIES))  # fmt: skip
        row("6d", "8 policies / linux-6.1 alone, in process", 2.5, 1.7, lambda: replays.seconds(*POLICIES),
            lambda: replays.seconds("linux-6.1"))  # fmt: skip
        counter = iter(range(1_000_000))

        def whole() -> float:
            """The command line on a raw trace, nothing cached: recording, ledger and report."""
            cache = folder / f"cache-{next(counter)}"
            argv = [sys.executable, "-m", "rewake.cli", "replay", str(trace)]
            argv += [a for p in POLICIES for a in ("--policy", p)]
            argv += ["--topology", topology] if topology else []
            argv += ["-o", str(cache / "bench.run"), "--force"]
            cache.mkdir()
            # Bytecode is cached, as it is in an installed package.
            python = {"PYTHONPYCACHEPREFIX": str(folder / "pycache"), "PYTHONDONTWRITEBYTECODE": ""}
            spent = cpu_seconds(argv, {**os.environ, **python, "XDG_CACHE_HOME": str(cache)})
            shutil.rmtree(cache)
            return spent

        row("7", "rewake replay, 8 policies, all written / trace-cmd report", 1.0, 0.6, whole, trace_cmd)
    if args.format == "json":
        print(json.dumps({"events": events, "bytes": size, "wakeups": replays.wakeups, "alone_seconds": alone,
                          "rows": [asdict(r) | {"verdict": r.verdict} for r in rows]}, indent=1))  # fmt: skip
    else:
        print(f"{events:,} events, {size / 1e6:.0f} MB, {replays.wakeups:,} decisions")
        print(f"cpu-seconds, median of {args.pairs} pairs")
        print(f"{'row':4} {'what':58} {'A':>8} {'B':>8} {'A/B':>7} {'must':>7} {'goal':>7}")
        for r in rows:
            figures = f"{r.a_seconds:8.3f} {r.b_seconds:8.3f} {r.ratio:7.3f} {r.must:7.3f} {r.goal:7.3f}"
            print(f"{r.number:4} {r.what:58} {figures}  {r.verdict}")
        print(
            "replay alone, ns per decision: "
            + ", ".join(f"{p} {s / replays.wakeups * 1e9:.0f}" for p, s in alone.items())
        )
    return int(any(r.verdict == "MISSED" for r in rows))


if __name__ == "__main__":
    sys.exit(main())
