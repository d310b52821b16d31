# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulated runs: figures of policies with the noise of repeats, and a history of them in a store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from rewake.analysis.measures import MEASURES
from rewake.analysis.subjects import Subject
from rewake.forms import Store

LEVELS: dict[str, tuple[float, float]] = {
    "recorded": (1_000_000, 1.0),
    "linux-6.1": (1_020_000, 1.3),
    "idle-thread-scan": (940_000, 1.5),
}
"""Policy -> p99 in ns, and how much higher its hi end is."""
RATES = {"would_move": 430.0, "cross_llc_prev": 70.0, "cross_llc_waker": 190.0, "idle_missed_llc": 220.0,
         "idle_missed_machine": 300.0, "stacked": 240.0}  # fmt: skip
MACHINE = "16 CPUs, 2 LLCs, 8 cores, 1 node"
START = datetime(2026, 9, 1, 3, tzinfo=UTC)


def figures(
    rng: np.random.Generator, noise: float, p99_times: Mapping[str, float] | None = None, trace: float = 0.0
) -> dict[str, dict[str, Any]]:
    """Figures of one run. `noise`: sigma of the logarithm of each figure; `trace`: what this recording adds to all."""
    out: dict[str, dict[str, Any]] = {}
    for policy, (p99, width) in LEVELS.items():
        row: dict[str, Any] = {"decisions": 20_000, "scans": 20_000}
        for name, share in (("p50", 0.008), ("p90", 0.13), ("p99", 1.0), ("p999", 1.2)):
            times = (p99_times or {}).get(policy, 1.0) if name == "p99" else 1.0
            lo = p99 * share * times * float(np.exp(trace + rng.normal(0, noise)))
            row[f"{name}_lo_ns"], row[f"{name}_hi_ns"] = round(lo), round(lo * width)
        for name, rate in RATES.items():
            row[f"{name}_per_1k"] = rate * float(np.exp(rng.normal(0, noise)))
        row["mean_cpus"] = 4.0 * float(np.exp(rng.normal(0, noise)))
        out[policy] = row
    return out


def subject(name: str, found: Mapping[str, Mapping[str, Any]]) -> Subject:
    return Subject(name, f"hash of {name}", "6.1.0", MACHINE, found, None, 0.9)


def rows(day: int, found: Mapping[str, Mapping[str, Any]], **given: Any) -> list[dict[str, Any]]:
    """The rows of one nightly run, as `rewake store add` makes them."""
    common = {
        "suite": "schbench", "machine": MACHINE, "kernel": f"6.1.{day}", "revision": f"{day * 7919:012x}",
        "made": (START + timedelta(days=day)).strftime("%Y-%m-%dT%H:%M:%SZ"), "recording": f"{day:064x}",
        "run": f"night-{day:02d}", "tool": "0.1.0",
    } | given  # fmt: skip
    out = [common | {"policy": "", "metric": "report", "report": json.dumps(REPORT)}]
    for policy, values in found.items():
        for m in MEASURES.values():
            for side in ("lo", "hi") if m.lo != m.hi else ("lo",):
                out.append(common | {"policy": policy, "metric": m.name, "side": side, "value": m.value(values, side)})
        for side in ("recorded",) if policy == "recorded" else ("lo", "hi"):
            for bucket in range(400, 700, 25):
                out.append(
                    common | {"policy": policy, "metric": "latency", "side": side, "bucket": bucket, "value": 100.0}
                )
    return out


REPORT: dict[str, Any] = {
    "recording": {"recording": "night", "kernel": "6.1.0", "cpus": 16, "llcs": 2, "nodes": 1, "decisions": 20_000},
    "quality": {"ok": True, "checks": [], "notes": []},
    "fidelity": {"policy": "linux-6.1", "agreement": 0.93, "skill": 0.84},
    "refusal": None, "policies": [], "not_counted": [],
}  # fmt: skip


def nightly(
    where: Path, runs: int = 60, at: int | None = 40, step: float = 1.06, noise: float = 0.015, seed: int = 0
) -> Store:
    """A store of `runs` nights; from night `at` on the p99 of linux-6.1 is `step` times what it was."""
    rng = np.random.default_rng(seed)
    store = Store(where)
    for day in range(runs):
        grown = {"linux-6.1": step} if at is not None and day >= at else {}
        store.add(rows(day, figures(rng, noise, grown)))
    return store
