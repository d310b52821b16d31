# SPDX-License-Identifier: GPL-2.0-or-later
"""What a simulation takes of a machine that the recording does not tell."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

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
        taken: dict[str, float] = {}
        for name, of in WHOLE.items():
            taken[name] = whole(_ELSEWHERE.get(name, name), getattr(self, name), *of)
        for name, ends in RANGES.items():
            taken[name] = number(_ELSEWHERE.get(name, name), getattr(self, name), *ends)
        for name, value in taken.items():
            object.__setattr__(self, name, value)


def whole(name: str, value: object, least: int, most: int) -> int:
    """The value, Python's own; UsageError unless it is a whole number from `least` to `most`."""
    found = plain(value)
    if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
        raise UsageError(f"{name}={value!r}: a whole number from {least} to {most} expected")
    return found


def number(name: str, value: object, least: float, most: float) -> float:
    """The same of any number."""
    found = plain(value)
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not least <= found <= most:
        raise UsageError(f"{name}={value!r}: a number from {least} to {most} expected")
    return float(found)


def flag(name: str, value: object) -> bool:
    """The same of a truth value."""
    found = plain(value)
    if not isinstance(found, bool):
        raise UsageError(f"{name}={value!r}: True or False expected")
    return found


def plain(value: Any) -> Any:
    """A number or truth value of numpy as Python's own: neither DuckDB nor JSON take it, and keys of the cache differ.
    Who has none need not load numpy."""
    numpy = sys.modules.get("numpy")
    of_numpy = numpy is not None and isinstance(value, numpy.generic) and value.dtype.kind in "biuf"
    return value.item() if of_numpy else value
