# SPDX-License-Identifier: GPL-2.0-or-later
"""Measures rewake against its peers on the same file: cpu-seconds, A B A B, medians of the paired ratios.

Usage: ./dev bench [--rows 1,3b,...] [--events N] [--pairs N] [--trace FILE [--topology TOPO]]
    [--trace-processor PROGRAM] [--format table|json]

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
import pftraces
from measuring import Row, cpu_seconds, measure, peak_mb
from replays import MACHINES, ROOT, Replays, generated, imported, make_long_trace, make_perf_data, make_trace
from simulations import IN_CHARGE, Simulations
from stages import POLICIES

PROGRAMS = ROOT / "build" / "Release" / "bench"
TO_PARQUET = str(ROOT / "bench" / "decode_parquet.py")
CPUS = 16
SPEED_CPUS = (16, 40, 256)
"""Machines on which each policy's decisions per second are given."""
LONGER = 9
"""Row 8b: how many times longer the longer trace is."""
MOST_MB, GOAL_MB = 400, 250
GROWTH_POLICIES = ("linux-6.1", "linux-4.12")
"""Row 9c: a bounded scan of the LLC, and one that searches all of it."""
MOST_NS, GOAL_NS = 250, 120
"""Row 6: a simulated wakeup of one policy."""
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


class Bench:
    """The rows asked for, on one input, in a folder that goes away."""

    def __init__(self, args: argparse.Namespace, folder: Path, report: str) -> None:
        self.folder, self.args = folder, args
        self.wanted = set(args.rows.split(",")) if args.rows else None
        self.trace = args.trace or make_trace(folder, args.events, "none")
        self.topology = args.topology if args.trace else MACHINES[CPUS].topology
        self.rows: list[Row] = []
        self.info: dict[str, float] = {}
        self.costs: dict[int, dict[str, float]] = {}
        self.wakeups = 0
        self.report = report
        # Bytecode is cached, as it is in an installed package.
        self.python = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "pycache"), "PYTHONDONTWRITEBYTECODE": ""}
        self._counter = iter(range(1_000_000))
        said = subprocess.run([PROGRAMS / "decode_columns", self.trace], capture_output=True, text=True, check=True)
        self.events = int(said.stdout.split()[1])
        self.size = self.trace.stat().st_size

    def wants(self, *numbers: str) -> bool:
        """Whether any of these rows is asked for, by its number or by that of its group (3 for 3b)."""
        return self.wanted is None or any({n, n.rstrip("abcd")} & self.wanted for n in numbers)

    def row(
        self, number: str, what: str, must: float, goal: float, a: Callable[[], float], b: Callable[[], float]
    ) -> None:
        if self.wants(number):
            self.rows.append(measure(number, what, must, goal, self.args.pairs, a, b))

    def new(self, name: str) -> Path:
        return self.folder / name.replace(".", f"-{next(self._counter)}.")

    def program(self, which: str, file: Path) -> Callable[[], float]:
        return lambda: cpu_seconds([str(PROGRAMS / which), str(file)])

    def trace_cmd(self) -> float:
        return cpu_seconds([self.report, "report", str(self.trace)])

    def rewake(self, *arguments: str) -> float:
        """The command line, nothing else cached."""
        cache = self.new("cache.d")
        cache.mkdir()
        argv = [sys.executable, "-m", "rewake.cli", *arguments]
        spent = cpu_seconds(argv, {**self.python, "XDG_CACHE_HOME": str(cache)})
        shutil.rmtree(cache)
        return spent

    def writing(self, measured: Callable[..., float], *argv: str) -> float:
        """What a Python program takes whose last argument is the directory that it makes."""
        out = self.new("out.rewake")
        found = measured([sys.executable, *argv, str(out)], self.python)
        shutil.rmtree(out)
        return found

    def whole(self, sync: str = "auto") -> float:
        """A raw trace: recording, ledger and report."""
        run = self.new("bench.run")
        machine = ("--topology", self.topology) if self.topology else ()
        spent = self.rewake("replay", str(self.trace), *(a for p in POLICIES for a in ("--policy", p)), *machine,
                            "-o", str(run), "--force", "--assume", f"sync={sync}")  # fmt: skip
        shutil.rmtree(run, ignore_errors=True)
        return spent

    # --- decoding

    def trace_dat(self) -> None:
        columns, trace_cmd = self.program("decode_columns", self.trace), self.trace_cmd
        self.row("1", "decode to columns / trace-cmd report", 1 / 12, 1 / 25, columns, trace_cmd)
        stream = self.program("decode_stream", self.trace)
        self.row("1a", "streaming pass / trace-cmd report", 1 / 30, 1 / 60, stream, trace_cmd)
        loop = self.program("decode_libtracecmd", self.trace)
        self.row("1b", "decode to columns / C loop on libtracecmd", 1.0, 0.5, columns, loop)
        if self.args.trace is None and self.wants("1c"):
            zstd = self.program("decode_columns", make_trace(self.folder, self.args.events, "zstd"))
            self.row("1c", "zstd / uncompressed, decode to columns", 3, 2, zstd, columns)
        self.row("2", "decode to Parquet (zstd), whole process / trace-cmd report", 1 / 4, 1 / 6,
                 lambda: self.writing(cpu_seconds, TO_PARQUET, str(self.trace)), trace_cmd)  # fmt: skip
        if self.wants("5"):
            text = self.folder / "report.txt"
            printed(text, [self.report, "report", str(self.trace)])
            self.row("5", "text of trace-cmd report to columns / trace-cmd report", 0.3, 0.15,
                     self.program("decode_columns", text), trace_cmd)  # fmt: skip
            text.unlink()

    def perf_data(self) -> None:
        perf = shutil.which("perf")
        if perf is None:
            print("bench: perf is not installed: rows 3, 3b and 5b are left out", file=sys.stderr)
            return
        samples = make_perf_data(self.folder, self.args.events)

        def script() -> float:
            return cpu_seconds([perf, "script", "-i", str(samples)])

        self.row("3", "perf.data to columns / perf script", 1 / 10, 1 / 20, self.program("decode_columns", samples),
                 script)  # fmt: skip
        self.row("3b", "rewake query: wake latency per task / perf sched latency", 1.5, 1.0,
                 lambda: self.rewake("query", str(samples), LATENCY),
                 lambda: cpu_seconds([perf, "sched", "latency", "-i", str(samples)]))  # fmt: skip
        if self.wants("5b"):
            text = self.folder / "script.txt"
            printed(text, [perf, "script", "-i", str(samples)])
            self.row("5b", "text of perf script to columns / perf script", 0.3, 0.15,
                     self.program("decode_columns", text), script)  # fmt: skip
            text.unlink()
        samples.unlink()

    def pftrace(self) -> None:
        trace, events, switches = pftraces.make_pftrace(self.folder, max(self.args.events // 2, 1))
        peer = pftraces.peer(self.args.trace_processor, trace, self.folder, switches)
        ours = self.program("decode_columns", trace)
        mine = statistics.median(ours() for _ in range(3))
        self.info["pftrace (compact) to columns, ns an event"] = mine / events * 1e9
        anchor = "native trace_processor, ns an event: anchor of performance.md, not measured here"
        self.info[anchor] = pftraces.ANCHOR_NS
        if peer is None:
            print("bench: neither trace_processor (--trace-processor) nor its wasm: row 4 is left out", file=sys.stderr)
            return
        self.row("4", f"pftrace to columns / {peer.name}", 0.4, 0.2, ours, peer.seconds)
        own = peak_mb([str(PROGRAMS / "decode_columns"), str(trace)])
        theirs = peer.mb()
        self.rows.append(Row("4", f"the same, peak MB / {peer.name}", own, theirs, own / theirs, 0.5, 0.3))
        trace.unlink()

    def memory(self) -> None:
        """Row 8b."""
        long = make_long_trace(self.folder, self.args.events, LONGER)
        times = long.stat().st_size / self.size
        peaks = [self.writing(peak_mb, TO_PARQUET, str(file)) for file in (long, self.trace)]
        self.rows += memory_rows(*peaks, times)
        topology = ("--topology", self.topology) if self.topology else ()
        what = f"rewake import, {long.stat().st_size / 1e6:.0f} MB, peak MB"
        self.info[what] = self.writing(peak_mb, "-m", "rewake.cli", "import", *topology, str(long), "-o")
        long.unlink()
        self.rows.append(growth.simulating(self.folder, self.args.events, CPUS, self.python))
        stages = growth.memory(self.folder, self.trace, self.topology, self.python)
        self.info |= {f"{stage}, {self.size / 1e6:.0f} MB, peak MB": mb for stage, mb in stages.items()}

    # --- replay

    def replay(self) -> None:
        replays = Replays(imported(self.trace, self.topology, self.folder))
        self.wakeups = replays.wakeups
        self.row("6c", "8 policies / sum of each alone", 1.2, 1.05, lambda: replays.seconds(*POLICIES),
                 lambda: sum(replays.seconds(p) for p in POLICIES))  # fmt: skip
        self.row("6d", "8 policies / linux-6.1 alone, in process", 2.5, 1.7, lambda: replays.seconds(*POLICIES),
                 lambda: replays.seconds("linux-6.1"))  # fmt: skip
        if self.wants("9c"):
            small, large = (generated(self.folder, self.args.events // 2, cpus, forks=False) for cpus in (64, 1024))
            for policy in GROWTH_POLICIES:
                self.row("9c", f"{policy}, a wakeup on 1024 CPUs / on 64", 1.6, 1.25,
                         partial(large.per_decision, policy), partial(small.per_decision, policy))  # fmt: skip
        if self.wants("6"):
            passes = {
                "rebuilding the machine, ns an event": lambda: replays.seconds("prev") / self.events * 1e9,
                "inference for sync=auto, ns a decision": lambda: replays.inference_per_decision("linux-6.1"),
            }  # fmt: skip
            self.info |= {what: statistics.median(cost() for _ in range(3)) for what, cost in passes.items()}
            self.costs = {
                cpus: decision_costs(generated(self.folder, self.args.events // 4, cpus), 3) for cpus in SPEED_CPUS
            }

    def simulate(self) -> None:
        """Rows 6, 6b, 6c and 9c of the closed loop."""
        pairs = self.args.pairs
        if self.wants("6"):
            large = Simulations(self.folder, self.args.events // 2, 256)
            large.per_wakeup(*IN_CHARGE)
            took = statistics.median(large.per_wakeup(*IN_CHARGE) for _ in range(pairs))
            what = f"closed loop, 256 CPUs, 8 policies, ns a wakeup and policy / {MOST_NS}"
            self.rows.append(Row("6", what, took, MOST_NS, took / MOST_NS, 1, GOAL_NS / MOST_NS))
        if self.wants("6b", "6c"):
            usual = Simulations(self.folder, self.args.events, CPUS)
            self.row("6b", "closed loop, 8 policies in one pass, in process / trace-cmd report", 1 / 2, 1 / 4,
                     lambda: usual.seconds(*IN_CHARGE),
                     lambda: cpu_seconds([self.report, "report", str(usual.trace)]))  # fmt: skip
            self.row("6c", "closed loop, 8 policies / sum of each alone", 1.2, 1.05, lambda: usual.seconds(*IN_CHARGE),
                     lambda: sum(usual.seconds(p) for p in IN_CHARGE))  # fmt: skip
        if self.wants("9c"):
            small, huge = (Simulations(self.folder, self.args.events // 2, cpus) for cpus in (64, 1024))
            for policy in GROWTH_POLICIES:
                self.row("9c", f"closed loop, {policy}, a wakeup on 1024 CPUs / on 64", 1.6, 1.25,
                         partial(huge.per_wakeup, policy), partial(small.per_wakeup, policy))  # fmt: skip

    def run(self) -> None:
        if self.wants("1", "1a", "1b", "1c", "2", "5"):
            self.trace_dat()
        if self.wants("3", "3b", "5b"):
            self.perf_data()
        if self.wants("4"):
            self.pftrace()
        if self.wants("8b") and self.args.trace is None:
            self.memory()
        if self.wants("8", "9", "9b") and self.args.trace is None:
            self.rows += growth.decoding(PROGRAMS / "decode_columns", self.folder, self.args.events, self.args.pairs)
        if self.wants("6", "6c", "6d", "9c"):
            self.replay()
        if self.wants("6", "6b", "6c", "9c") and self.args.trace is None:
            self.simulate()
        self.row("7", "rewake replay (sync=auto), 8 policies, all written / trace-cmd", 1.0, 0.6, self.whole,
                 self.trace_cmd)  # fmt: skip
        self.row("7a", "the same / with sync=0: what inference costs", 1.5, 1.2, self.whole, partial(self.whole, "0"))

    def print_table(self) -> None:
        decisions = f", {self.wakeups:,} decisions" if self.wakeups else ""
        print(f"{self.events:,} events, {self.size / 1e6:.0f} MB{decisions}")
        print(f"cpu-seconds (MB: once; 9c: ns a decision), median of {self.args.pairs} pairs")
        width = max([62, *(len(r.what) for r in self.rows), *map(len, self.info)])
        print(f"{'row':4} {'what':{width}} {'A':>8} {'B':>8} {'A/B':>7} {'must':>7} {'goal':>7}")
        for r in self.rows:
            figures = f"{r.a_seconds:8.3f} {r.b_seconds:8.3f} {r.ratio:7.3f} {r.must:7.3f} {r.goal:7.3f}"
            print(f"{r.number:4} {r.what:{width}} {figures}  {r.verdict}")
        for what, cost in self.info.items():
            print(f"{'':4} {what:{width}} {cost:8.0f}")
        if not self.costs:
            return
        print("\nreplay, a policy alone and all in one pass, on machines of so many CPUs")
        print(f"{'':20} " + " ".join(f"{f'{c} CPUs':>22}" for c in self.costs))
        for name in next(iter(self.costs.values())):
            cells = (f"{1e3 / of[name]:8.2f} M/s {of[name]:6.0f} ns" for of in self.costs.values())
            print(f"{name:20} " + " ".join(f"{cell:>22}" for cell in cells))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="only these: numbers of performance.md, a comma between; 3 is 3b, too")
    parser.add_argument("--events", type=int, default=2_000_000, help="events of the generated input")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs per row")
    parser.add_argument("--trace", type=Path, help="an uncompressed trace.dat to use instead")
    parser.add_argument("--topology", help="its topology")
    parser.add_argument("--trace-processor", default=os.environ.get("REWAKE_TRACE_PROCESSOR"), metavar="PROGRAM",
                        help="a native one for row 4; default: $REWAKE_TRACE_PROCESSOR, else wasm")  # fmt: skip
    parser.add_argument("--format", choices=("table", "json"), default="table")
    args = parser.parse_args()
    report = shutil.which("trace-cmd")
    if report is None:
        sys.exit("bench: trace-cmd is not installed")
    with tempfile.TemporaryDirectory(prefix="rewake-bench-") as name:
        print("preparing the input", file=sys.stderr)
        bench = Bench(args, Path(name), report)
        bench.run()
    if not bench.rows:
        sys.exit(f"bench: no row {args.rows}")
    if args.format == "json":
        found = {"events": bench.events, "bytes": bench.size, "wakeups": bench.wakeups, "info": bench.info}
        rows = [asdict(r) | {"verdict": r.verdict} for r in bench.rows]
        print(json.dumps({**found, "decision_ns": bench.costs, "rows": rows}, indent=1))
    else:
        bench.print_table()
    return int(any(r.verdict == "MISSED" for r in bench.rows))


if __name__ == "__main__":
    sys.exit(main())
