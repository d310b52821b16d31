# SPDX-License-Identifier: GPL-2.0-or-later
"""A part of a recording, counted from its start: `2s..5s`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rewake import quantity
from rewake.errors import UsageError


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
    try:
        return quantity.instant(text)
    except UsageError as error:
        raise UsageError(f"--window: {error}") from None


def parse(text: str) -> Window:
    """`2s..5s`, `2s..` or `..5s`."""
    start, dots, end = text.partition("..")
    if not dots or not (start or end):
        raise UsageError(f"--window {text}: FROM..UNTIL expected, such as 2s..5s")
    found = Window(_ns(start) if start else 0, _ns(end) if end else None)
    if found.until_ns is not None and found.until_ns <= found.from_ns:
        raise UsageError(f"--window {text}: ends before it begins")
    return found
