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
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from measuring import Row, cpu_seconds, measure
from replays import MACHINES, ROOT, Replays, generated, make_trace

PROGRAMS = ROOT / "build" / "Release" / "bench"
POLICIES = (
    "recorded", "prev", "waker", "random-idle", "oracle-idle", "linux-6.1", "linux-4.5", "idle-thread-scan",
)  # fmt: skip
CPUS = 16
SPEED_CPUS = (16, 40, 256)
"""Machines on which each policy's decisions per second are given."""
GROWTH_POLICIES = ("linux-6.1", "linux-4.12")
"""Row 9c: a bounded scan of the LLC, and one that searches all of it."""


def decision_costs(replays: Replays, times: int) -> dict[str, float]:
    """ns a decision takes: each policy alone, and `all` of them in one pass; medians."""
    from rewake import runs

    names = list(runs.policies())
    groups = {**{name: (name,) for name in names}, "all": tuple(names)}
    for group in groups.values():
        replays.seconds(*group)
    return {
        name: statistics.median(replays.per_decision(*group) for _ in range(times)) for name, group in groups.items()
    }


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
        topology = args.topology if args.trace else MACHINES[CPUS].topology
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
        row("6c", "8 policies / sum of each alone", 1.2, 1.05, lambda: replays.seconds(*POLICIES),
            lambda: sum(replays.seconds(p) for p in POLICIES))  # fmt: skip
        row("6d", "8 policies / linux-6.1 alone, in process", 2.5, 1.7, lambda: replays.seconds(*POLICIES),
            lambda: replays.seconds("linux-6.1"))  # fmt: skip
        counter = iter(range(1_000_000))

        def whole(sync: str = "auto") -> float:
            """The command line on a raw trace, nothing cached: recording, ledger and report."""
            cache = folder / f"cache-{next(counter)}"
            argv = [sys.executable, "-m", "rewake.cli", "replay", str(trace)]
            argv += [a for p in POLICIES for a in ("--policy", p)]
            argv += ["--topology", topology] if topology else []
            argv += ["-o", str(cache / "bench.run"), "--force", "--assume", f"sync={sync}"]
            cache.mkdir()
            # Bytecode is cached, as it is in an installed package.
            python = {"PYTHONPYCACHEPREFIX": str(folder / "pycache"), "PYTHONDONTWRITEBYTECODE": ""}
            spent = cpu_seconds(argv, {**os.environ, **python, "XDG_CACHE_HOME": str(cache)})
            shutil.rmtree(cache)
            return spent

        small, large = (generated(folder, args.events // 2, cpus, forks=False) for cpus in (64, 1024))
        for policy in GROWTH_POLICIES:
            row("9c", f"{policy}, a wakeup on 1024 CPUs / on 64", 1.6, 1.25,
                partial(large.per_decision, policy), partial(small.per_decision, policy))  # fmt: skip
        passes = {
            "rebuilding the machine, ns an event": lambda: replays.seconds("prev") / events * 1e9,
            "inference for sync=auto, ns a decision": lambda: replays.inference_per_decision("linux-6.1"),
        }  # fmt: skip
        info = {what: statistics.median(cost() for _ in range(3)) for what, cost in passes.items()}
        costs = {cpus: decision_costs(generated(folder, args.events // 4, cpus), 3) for cpus in SPEED_CPUS}
        row("7", "rewake replay (sync=auto), 8 policies, all written / trace-cmd", 1.0, 0.6, whole, trace_cmd)
        row("7a", "the same / with sync=0: what inference costs", 1.5, 1.2, whole, partial(whole, "0"))
    if args.format == "json":
        found = {"events": events, "bytes": size, "wakeups": replays.wakeups, "info": info, "decision_ns": costs}
        print(json.dumps(found | {"rows": [asdict(r) | {"verdict": r.verdict} for r in rows]}, indent=1))
    else:
        print(f"{events:,} events, {size / 1e6:.0f} MB, {replays.wakeups:,} decisions")
        print(f"cpu-seconds (9c: ns a decision), median of {args.pairs} pairs")
        print(f"{'row':4} {'what':62} {'A':>8} {'B':>8} {'A/B':>7} {'must':>7} {'goal':>7}")
        for r in rows:
            figures = f"{r.a_seconds:8.3f} {r.b_seconds:8.3f} {r.ratio:7.3f} {r.must:7.3f} {r.goal:7.3f}"
            print(f"{r.number:4} {r.what:62} {figures}  {r.verdict}")
        for what, cost in info.items():
            print(f"{'':4} {what:62} {cost:8.0f}")
        print("\nreplay, a policy alone and all in one pass, on machines of so many CPUs")
        print(f"{'':20} " + " ".join(f"{f'{c} CPUs':>22}" for c in costs))
        for name in next(iter(costs.values())):
            cells = (f"{1e3 / of[name]:8.2f} M/s {of[name]:6.0f} ns" for of in costs.values())
            print(f"{name:20} " + " ".join(f"{cell:>22}" for cell in cells))
    return int(any(r.verdict == "MISSED" for r in rows))


if __name__ == "__main__":
    sys.exit(main())
