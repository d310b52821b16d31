# SPDX-License-Identifier: GPL-2.0-or-later
"""A part of a recording, counted from its start: `2s..5s`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from rewake.errors import UsageError

_TIME = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(s|ms|us|ns)")
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class Window(NamedTuple):
    """From and until in ns after the recording's start; None: its end. What is at `until` is not part of it."""

    from_ns: int
    until_ns: int | None

    def within(self, manifest: Mapping[str, Any]) -> tuple[int, int]:
        """The same on the recording's clock; UsageError where the recording has nothing there."""
        first, last = int(manifest.get("first_ns") or 0), int(manifest.get("last_ns") or 0)
        start = first + self.from_ns
        end = last + 1 if self.until_ns is None else min(first + self.until_ns, last + 1)
        if start >= end:
            raise UsageError(f"--window: nothing there; the recording is {(last - first) / 1e9:.3f} s long")
        return start, end


def _ns(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise UsageError(f"--window: {text!r} is no time; 2s, 5ms, 1.5s, 300us or 20ns expected")
    return int(Decimal(found[1]) * _UNITS[found[2]])


def parse(text: str) -> Window:
    """`2s..5s`, `2s..` or `..5s`."""
    start, dots, end = text.partition("..")
    if not dots or not (start or end):
        raise UsageError(f"--window {text}: FROM..UNTIL expected, such as 2s..5s")
    found = Window(_ns(start) if start else 0, _ns(end) if end else None)
    if found.until_ns is not None and found.until_ns <= found.from_ns:
        raise UsageError(f"--window {text}: ends before it begins")
    return found
