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

import growth
from measuring import Row, cpu_seconds, measure, peak_mb
from replays import MACHINES, ROOT, Replays, generated, imported, make_long_trace, make_perf_data, make_trace
from stages import POLICIES

PROGRAMS = ROOT / "build" / "Release" / "bench"
CPUS = 16
SPEED_CPUS = (16, 40, 256)
"""Machines on which each policy's decisions per second are given."""
LONGER = 9
"""Row 8b: how many times longer the longer trace is."""
MOST_MB, GOAL_MB = 400, 250
GROWTH_POLICIES = ("linux-6.1", "linux-4.12")
"""Row 9c: a bounded scan of the LLC, and one that searches all of it."""
LATENCY = """SELECT tid, count(*) AS n, avg(latency_ns), max(latency_ns) FROM decision JOIN task ON task.task_id =
decision.task GROUP BY tid, decision.task ORDER BY 4 DESC"""
"""Row 3b: what `perf sched latency` prints."""


def printed(to: Path, argv: list[str]) -> None:
    """What a tool prints, in a file."""
    with to.open("wb") as file:
        subprocess.run(argv, stdout=file, stderr=subprocess.DEVNULL, check=True)


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


def memory_rows(long_mb: float, short_mb: float, times: float) -> list[Row]:
    """Row 8b: peak memory against that of a shorter trace, and against a fixed size."""
    what = f"decode to Parquet, peak MB: a trace {times:.1f} times as long /"
    return [
        Row("8b", f"{what} it", long_mb, short_mb, long_mb / short_mb, 1.5, 1.1),
        Row("8b", f"{what} {MOST_MB} MB", long_mb, MOST_MB, long_mb / MOST_MB, 1, GOAL_MB / MOST_MB),
    ]


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

        counter = iter(range(1_000_000))

        # Bytecode is cached, as it is in an installed package.
        python = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "pycache"), "PYTHONDONTWRITEBYTECODE": ""}

        def rewake(*arguments: str) -> float:
            """The command line, nothing else cached."""
            cache = folder / f"cache-{next(counter)}"
            cache.mkdir()
            argv = [sys.executable, "-m", "rewake.cli", *arguments]
            spent = cpu_seconds(argv, {**python, "XDG_CACHE_HOME": str(cache)})
            shutil.rmtree(cache)
            return spent

        def whole(sync: str = "auto") -> float:
            """A raw trace: recording, ledger and report."""
            run = folder / f"bench-{next(counter)}.run"
            machine = ("--topology", topology) if topology else ()
            spent = rewake("replay", str(trace), *(a for p in POLICIES for a in ("--policy", p)), *machine,
                           "-o", str(run), "--force", "--assume", f"sync={sync}")  # fmt: skip
            shutil.rmtree(run, ignore_errors=True)
            return spent

        rows: list[Row] = []
        memory: dict[str, float] = {}
        columns, peer = program("decode_columns"), program("decode_libtracecmd")
        row("1", "decode to columns / trace-cmd report", 1 / 12, 1 / 25, columns, trace_cmd)
        row("1a", "streaming pass / trace-cmd report", 1 / 30, 1 / 60, program("decode_stream"), trace_cmd)
        row("1b", "decode to columns / C loop on libtracecmd", 1.0, 0.5, columns, peer)
        if zstd is not None:
            row("1c", "zstd / uncompressed, decode to columns", 3, 2, program("decode_columns", zstd), columns)
        text = folder / "report.txt"
        printed(text, [report, "report", str(trace)])
        row("5", "text of trace-cmd report to columns / trace-cmd report", 0.3, 0.15, program("decode_columns", text),
            trace_cmd)  # fmt: skip
        text.unlink()
        perf = shutil.which("perf")
        if perf is None:
            print("bench: perf is not installed: rows 3 and 3b are left out", file=sys.stderr)
        else:
            samples = make_perf_data(folder, args.events)
            row("3", "perf.data to columns / perf script", 1 / 10, 1 / 20, program("decode_columns", samples),
                lambda: cpu_seconds([perf, "script", "-i", str(samples)]))  # fmt: skip
            printed(text, [perf, "script", "-i", str(samples)])
            row("5b", "text of perf script to columns / perf script", 0.3, 0.15, program("decode_columns", text),
                lambda: cpu_seconds([perf, "script", "-i", str(samples)]))  # fmt: skip
            text.unlink()
            row("3b", "rewake query: wake latency per task / perf sched latency", 1.5, 1.0,
                lambda: rewake("query", str(samples), LATENCY),
                lambda: cpu_seconds([perf, "sched", "latency", "-i", str(samples)]))  # fmt: skip
            samples.unlink()
        to_parquet = str(ROOT / "bench" / "decode_parquet.py")

        def parquet() -> float:
            out = folder / f"parquet-{next(counter)}.rewake"
            spent = cpu_seconds([sys.executable, to_parquet, str(trace), str(out)], python)
            shutil.rmtree(out)
            return spent

        def peak(*argv: str) -> float:
            """MB that a program which ends with the name of its output takes at most."""
            out = folder / f"peak-{next(counter)}.rewake"
            found = peak_mb([sys.executable, *argv, str(out)], python)
            shutil.rmtree(out)
            return found

        whole_import = ("-m", "rewake.cli", "import", *(("--topology", topology) if topology else ()))

        row("2", "decode to Parquet (zstd), whole process / trace-cmd report", 1 / 4, 1 / 6, parquet, trace_cmd)
        if args.trace is None:
            long = make_long_trace(folder, args.events, LONGER)
            rows += memory_rows(peak(to_parquet, str(long)), peak(to_parquet, str(trace)), long.stat().st_size / size)
            imported_mb = peak(*whole_import, str(long), "-o")
            memory = {f"rewake import of {long.stat().st_size / 1e6:.0f} MB, peak MB": imported_mb}
            long.unlink()
            rows += growth.decoding(PROGRAMS / "decode_columns", folder, args.events, args.pairs)
            memory |= {f"{stage}, peak MB": mb for stage, mb in growth.memory(folder, trace, topology, python).items()}
        replays = Replays(imported(trace, topology, folder))
        row("6c", "8 policies / sum of each alone", 1.2, 1.05, lambda: replays.seconds(*POLICIES),
            lambda: sum(replays.seconds(p) for p in POLICIES))  # fmt: skip
        row("6d", "8 policies / linux-6.1 alone, in process", 2.5, 1.7, lambda: replays.seconds(*POLICIES),
            lambda: replays.seconds("linux-6.1"))  # fmt: skip
        small, large = (generated(folder, args.events // 2, cpus, forks=False) for cpus in (64, 1024))
        for policy in GROWTH_POLICIES:
            row("9c", f"{policy}, a wakeup on 1024 CPUs / on 64", 1.6, 1.25,
                partial(large.per_decision, policy), partial(small.per_decision, policy))  # fmt: skip
        passes = {
            "rebuilding the machine, ns an event": lambda: replays.seconds("prev") / events * 1e9,
            "inference for sync=auto, ns a decision": lambda: replays.inference_per_decision("linux-6.1"),
        }  # fmt: skip
        info = {what: statistics.median(cost() for _ in range(3)) for what, cost in passes.items()}
        info |= memory
        costs = {cpus: decision_costs(generated(folder, args.events // 4, cpus), 3) for cpus in SPEED_CPUS}
        row("7", "rewake replay (sync=auto), 8 policies, all written / trace-cmd", 1.0, 0.6, whole, trace_cmd)
        row("7a", "the same / with sync=0: what inference costs", 1.5, 1.2, whole, partial(whole, "0"))
    if args.format == "json":
        found = {"events": events, "bytes": size, "wakeups": replays.wakeups, "info": info, "decision_ns": costs}
        print(json.dumps(found | {"rows": [asdict(r) | {"verdict": r.verdict} for r in rows]}, indent=1))
    else:
        print(f"{events:,} events, {size / 1e6:.0f} MB, {replays.wakeups:,} decisions")
        print(f"cpu-seconds (8b: MB, once; 9c: ns a decision), median of {args.pairs} pairs")
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
