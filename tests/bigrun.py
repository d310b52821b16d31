# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings and runs of any size, made up: what a report is built from, not what a machine did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rewake.forms import ENUMS, INPUTS, OUTCOMES, Recording, RecordingWriter, Run, RunWriter

POLICIES = ("recorded", "prev", "linux-6.1", "oracle-idle", "idle-thread-scan", "wakeup-buddy", "irq-aware")


def recording(path: Path, decisions: int, *, cpus: int = 16, per_llc: int = 8, per_node: int = 8) -> Recording:
    """`decisions` wakeups over ten seconds, a third of them moved; latencies are log-normal around 20 us."""
    draw = np.random.default_rng(1)
    every = np.arange(cpus, dtype=np.uint16)
    with RecordingWriter(path) as writer:
        absent = np.ones(cpus, np.bool_)
        groups = {"core": 2, "llc": per_llc, "node": per_node, "package": per_node}
        machine: dict[str, Any] = {n: ((every // k * k).astype(np.uint16), ~absent) for n, k in groups.items()}
        machine |= dict.fromkeys(("cluster", "capacity"), (every, absent))
        writer.write("cpu", {"cpu": every} | machine)
        prev = draw.integers(0, cpus, decisions).astype(np.uint16)
        moved = draw.random(decisions) < 0.33
        chosen = np.where(moved, draw.integers(0, cpus, decisions), prev).astype(np.uint16)
        moved = chosen != prev
        classes = np.where(moved, *(ENUMS["decision_class"].index(c) for c in ("moved", "stayed")))
        some = np.zeros(decisions, np.bool_)
        ids = np.arange(decisions, dtype=np.int64)
        writer.write_part(
            "decision",
            0,
            {
                "decision_id": ids, "event_id": ids, "ts_ns": ids * (10**10 // decisions), "kind": some.view(np.uint8),
                "class": classes.astype(np.uint8), "task": (ids % 500).astype(np.uint32),
                "waker_task": ((ids % 7).astype(np.uint32), some),
                "waker_cpu": draw.integers(0, cpus, decisions).astype(np.uint16), "irq_ctx": some.view(np.uint8),
                "prio": np.full(decisions, 120, np.int16), "prev_cpu": prev, "chosen_cpu": chosen, "ran_cpu": chosen,
                "chosen_idle": ~moved, "idle_state": (np.zeros(decisions, np.uint32), ~some),
                "wakeup_ns": np.zeros(decisions, np.int64),
                "latency_ns": np.exp(draw.normal(10, 1, decisions)).astype(np.int64), "censored": some,
                "low_confidence": some,
            },
        )  # fmt: skip
        writer.manifest |= {
            "id": "b" * 64, "kernel": "6.1.0-made-up", "source": {"name": "made-up"}, "span_ns": 10**10,
            "steps_back": 0, "events": {"sched_switch": 2 * decisions, "sched_wakeup": decisions},
            "events_total": 3 * decisions, "loss": [], "lost": 0, "topology": "snapshot", "problems": [], "notes": [],
            "replay": {"resync": 0}, "features": {}, "sched_ext": False,
        }  # fmt: skip
        writer.commit()
    return Recording(path)


def run(path: Path, made_from: Recording, policies: Sequence[str] = POLICIES) -> Run:
    """`prev` stays, `recorded` and the kernel's column follow the record (the latter mostly), others pick by chance."""
    decision = made_from.read("decision")
    prev, chosen, latency = (np.asarray(decision[n]) for n in ("prev_cpu", "chosen_cpu", "latency_ns"))
    n, cpus = len(prev), int(prev.max(initial=0)) + 1
    draw = np.random.default_rng(2)
    none = np.zeros(n, np.bool_)
    buckets: list[tuple[str, str, int, int]] = []
    with RunWriter(path, made_from) as writer:
        for name in policies:
            stay = {"recorded": 0.0, "prev": 1.0, "linux-6.1": 0.07}.get(name, 0.4)
            other = chosen if name in ("recorded", "prev", "linux-6.1") else draw.integers(0, cpus, n)
            cpu = np.where(draw.random(n) < stay, prev, other).astype(np.uint16)
            known = cpu == chosen
            lo = np.where(known, latency, latency // 3)
            hi = np.where(known, latency, latency * 3)
            unbounded = ~known & (draw.random(n) < 0.02)
            flags = draw.random(n)
            outcome = np.where(flags < 0.6, 1 << OUTCOMES.index("target_idle"), 0)
            if name != "recorded":
                outcome |= np.where(flags > 0.7, 1 << OUTCOMES.index("exposed"), 0)
            assumed = 0 if name in ("recorded", "prev") else 1 << INPUTS.index("load")
            writer.write_ledger(
                name,
                0,
                {
                    "cpu": cpu, "branch": (draw.random(n) * 6).astype(np.uint8),
                    "cpus_scanned": draw.integers(0, 8, n).astype(np.uint16),
                    "inputs_assumed": np.full(n, assumed, np.uint32), "outcome": outcome.astype(np.uint16),
                    "known": known, "lo_ns": (lo, none), "hi_ns": (hi, unbounded),
                },
            )  # fmt: skip
            for metric, values in (("lo", lo), ("hi", hi[~unbounded])):
                number = np.ceil(np.log(np.maximum(values, 1)) / np.log(101 / 99)).astype(np.int64)
                buckets += [
                    (name, metric, int(b), int(k)) for b, k in zip(*np.unique(number, return_counts=True), strict=True)
                ]
        writer.write(
            "bucket",
            {
                "policy": np.array([b[0] for b in buckets], object),
                "metric": np.array([b[1] for b in buckets], object),
                "bucket": (np.array([b[2] for b in buckets], np.int32), np.zeros(len(buckets), np.bool_)),
                "n": np.array([b[3] for b in buckets], np.int64),
            },
        )  # fmt: skip
        writer.manifest |= {
            "name": path.stem, "auto": "linux-6.1" if "linux-6.1" in policies else None, "seed": 0, "sync": "auto",
            "assume": {"sync": "auto", "probes": True}, "refusals": {},
            "policies": [
                {"name": p, "base": p, "label": "reference", "reference": p in ("recorded", "prev", "oracle-idle"),
                 "branches": ["prev idle", "target", "core", "smt", "scan", "recent"]}
                for p in policies
            ],
        }  # fmt: skip
        writer.commit()
    return Run(path)
