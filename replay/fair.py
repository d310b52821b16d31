# SPDX-License-Identifier: GPL-2.0-or-later
"""What the fair class of a recorded kernel was set to."""

from __future__ import annotations

from typing import Any

from rewake.replay.recorded import Source, kernel_version, tunable

_TUNABLES = {
    "latency_ns": "latency_ns", "min_granularity_ns": "min_granularity_ns",
    "wakeup_granularity_ns": "wakeup_granularity_ns", "slice_ns": "base_slice_ns",
}  # fmt: skip
"""Options of the engine, by the names below /sys/kernel/debug/sched."""


def settings(source: Source) -> dict[str, Any]:
    """Options of the engine: the kernel's version, the tunables that the snapshot has, `hrtick` and, where the kernel
    has delayed dequeues and the feature is not known to be off, `delays`."""
    major, minor = kernel_version(source.manifest.get("kernel"))
    features = source.manifest.get("features") or {}
    found = {ours: tunable(source.manifest, theirs) for ours, theirs in _TUNABLES.items()}
    return {name: value for name, value in found.items() if value is not None} | {
        "major": major,
        "minor": minor,
        "hrtick": bool(features.get("HRTICK", False)),
        "delays": (major, minor) >= (6, 12) and features.get("DELAY_DEQUEUE", True) is not False,
    }
