# SPDX-License-Identifier: GPL-2.0-or-later
"""What a simulation takes of a machine that the recording does not tell."""

from __future__ import annotations

from dataclasses import dataclass

from rewake.errors import UsageError

WHOLE = {"replicas": (1, 100), "seed": (0, 2**63 - 1), "scan_ns": (0, 100_000)}
RANGES = {"move_factor": (0, 1_000_000), "smt": (0.01, 1)}
"""Least and most of what is a number, a whole one and any."""
MOST_THREADS = 256
CHOICES = {
    "balance": ("model", "recorded-rate", "off"), "timers": ("relative", "absolute"), "sync": ("auto", "0", "1"),
}  # fmt: skip
_ELSEWHERE = {"move_factor": "move_cost", "scan_ns": "scan_cost"}
"""What the command line and the Python interface call it."""


@dataclass(frozen=True)
class Settings:
    """UsageError for what is out of range or not among CHOICES."""

    windows_ns: int = 1_000_000_000
    replicas: int = 1
    seed: int = 0
    balance: str = "recorded-rate"
    move_factor: float = 1.0
    scan_ns: int = 0
    smt: float = 1.0
    timers: str = "relative"
    pin: bool = False
    sync: str = "auto"
    """WF_SYNC of the wakeups: inferred from the recording, or "0" or "1" for all."""

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if (value := getattr(self, name)) not in known:
                raise UsageError(f"{name}={value!r}: {', '.join(map(repr, known))} expected")
        for ranges in (WHOLE, RANGES):
            for name, (least, most) in ranges.items():
                number(_ELSEWHERE.get(name, name), getattr(self, name), least, most, whole=ranges is WHOLE)


def number(name: str, value: object, least: float, most: float, *, whole: bool = True) -> None:
    """UsageError unless `value` is a number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not least <= value <= most:
        raise UsageError(f"{name}={value!r}: a {'whole ' * whole}number from {least} to {most} expected")
