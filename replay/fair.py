# SPDX-License-Identifier: GPL-2.0-or-later
"""What the fair class of a recorded kernel was set to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewake.forms import kernel_version
from rewake.replay.recorded import Source, tunable

_TUNABLES = {
    "latency_ns": "latency_ns", "min_granularity_ns": "min_granularity_ns",
    "wakeup_granularity_ns": "wakeup_granularity_ns", "slice_ns": "base_slice_ns",
}  # fmt: skip
"""Options of the engine, by the names below /sys/kernel/debug/sched."""


_CLASSES = (
    ((0, 1), "CFS"), ((6, 6), "EEVDF"), ((6, 12), "EEVDF with delayed dequeues"), ((7, 0), "EEVDF of 7.0 and later"),
)  # fmt: skip
"""Fair classes that differ in what is simulated (docs/closed-loop.md), from which kernel on."""


def fair_class(release: str | None) -> str | None:
    """That of a kernel; None where the kernel is unknown."""
    return next((name for first, name in reversed(_CLASSES) if kernel_version(release) >= first), None)


def placement_only(recorded: str | None, kernels: Mapping[str, str | None], whose: str) -> str | None:
    """What to say of policies (name -> release of their kernel) where theirs is not the fair class of the recorded
    kernel: that one stays. `whose` that kernel is, in words."""
    mine = fair_class(recorded)
    others = {name: found for name, release in kernels.items() if (found := fair_class(release)) not in (None, mine)}
    if mine is None or not others:
        return None
    listed = ", ".join(f"{name} ({found})" for name, found in others.items())
    return (
        f"only the placement is simulated of {listed}: who runs next, preemption and slices stay those of {whose}"
        f" ({mine})"
    )


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
