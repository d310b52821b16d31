# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts the instructions of the engine's stages, against the committed bench/baseline.json.

Usage: ./dev gate [--write]

Instructions do not depend on what else the machine does, so this can fail a build where a time could not. They depend
on the compiler: a baseline of another one is shown and judges nothing. Valgrind counts; the input is generated.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from replays import MACHINES, ROOT, imported, make_trace

BASELINE = ROOT / "bench" / "baseline.json"
EVENTS, CPUS = 20_000, 16
TOLERANCE = 0.03
"""Beyond this a stage has become slower. Library code that suits itself to the CPU moves counts by less."""


COUNTED = (
    "decode::Decoder::next", "DecisionBuilder::scan", "DecisionBuilder::run", "DecisionBuilder::finish",
    "OpenLoop::run", "closed::ClosedLoop::run", "closed::ClosedLoop::finish",
)  # fmt: skip
"""Functions of the engine that count, with all that they call."""
BORDERS = ("DecisionBuilder::DecisionBuilder", "OpenLoop::OpenLoop", "closed::ClosedLoop::ClosedLoop")
"""Where one stage of bench/stages.py ends and the next begins."""
STAGES = (
    ("decode trace.dat to columns", "events"),
    ("build decisions", "events"),
    ("open loop, linux-6.1", "decisions"),
    ("open loop, 8 policies", "decisions"),
    ("inference for sync=auto", "decisions"),
    ("closed loop, with its checks", "decisions"),
)
"""In that order, and what their counts are divided by; the closed loop makes several engines and takes what is left."""


def compiler() -> str:
    """What built the engine, and whether for what ./dev tune has counted."""
    from rewake.replay import _engine

    told = subprocess.run(["readelf", "-p", ".comment", str(_engine.__file__)], capture_output=True, text=True)
    found = re.search(r"GCC: \([^)]*\) [0-9.]+", told.stdout)
    return (found[0] if found else "unknown") + (", tuned" if (ROOT / "build" / "profile").is_dir() else "")


def count() -> dict[str, float]:
    """Instructions of each stage per event or decision; SystemExit with the reason where they cannot be counted."""
    if shutil.which("valgrind") is None:
        sys.exit("bench: valgrind is not installed")
    with tempfile.TemporaryDirectory(prefix="rewake-gate-") as name:
        folder = Path(name)
        trace = make_trace(folder, EVENTS, "none", CPUS)
        recording = imported(trace, MACHINES[CPUS].topology, folder)
        out, per = folder / "callgrind.out", folder / "per.json"
        argv = [
            "valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
            *(f"--toggle-collect=rewake::{function}*" for function in COUNTED),
            *(f"--dump-before=rewake::{function}*" for function in BORDERS),
            sys.executable, str(ROOT / "bench" / "stages.py"), str(trace), str(recording.path), str(per),
        ]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"bench: counting failed: {done.stderr.strip()[-400:]}")
        divisors = json.loads(per.read_text(encoding="utf-8"))
        dumps = [_total(file) for file in (*sorted(folder.glob(f"{out.name}.*"), key=lambda f: int(f.suffix[1:])), out)]
    if len(dumps) < len(STAGES):
        sys.exit(f"bench: {len(dumps)} dumps of {len(STAGES)} stages: does the engine export its functions?")
    last = len(STAGES) - 1
    totals = [*dumps[:last], sum(dumps[last:])]
    return {name: total / divisors[unit] for (name, unit), total in zip(STAGES, totals, strict=True)}


def _total(dump: Path) -> int:
    found = re.search(r"^totals: (\d+)$", dump.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        sys.exit(f"bench: {dump.name}: no totals in this dump")
    return int(found[1])


def verdict(found: float, baseline: float | None) -> str:
    """How a stage stands to its baseline."""
    if baseline is None:
        return "new"
    if found > baseline * (1 + TOLERANCE):
        return "SLOWER"
    return "faster: --write" if found < baseline * (1 - TOLERANCE) else "as before"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make what is counted the baseline")
    args = parser.parse_args()
    found, built_by = count(), compiler()
    if args.write:
        stages = {name: round(value, 1) for name, value in found.items()}
        BASELINE.write_text(
            json.dumps({"compiler": built_by, "instructions": stages}, indent=1) + "\n", encoding="utf-8"
        )
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    units = dict(STAGES)
    print(f"{'instructions of':32} {'per':10} {'counted':>10} {'baseline':>10}")
    verdicts = []
    for name, value in found.items():
        before = baseline["instructions"].get(name)
        verdicts.append(verdict(value, before))
        shown = "-" if before is None else f"{before:,.0f}"
        print(f"{name:32} {units[name].removesuffix('s'):10} {value:10,.0f} {shown:>10}  {verdicts[-1]}")
    if baseline["compiler"] != built_by:
        print(f"The baseline is of {baseline['compiler']}, this engine of {built_by}: nothing is judged.")
        return 0
    return int("SLOWER" in verdicts)


if __name__ == "__main__":
    sys.exit(main())
