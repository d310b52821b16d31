# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the streams of the CPUs belong together: the same window, in order, by the same clock.

Import goes on and says what it saw; `--strict` refuses. What all CPUs have is cut out with `rewake slice`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

UNEVEN = 0.1
"""Part of the span that a CPU may be silent at an end, where nothing says that it was idle."""
_SURPRISING = 100
"""How many of its mean pauses a CPU has to be silent at an end for it to be told."""
_FEW = 10
"""Fewer records have no mean pause to speak of."""


def problems(streams: Sequence[dict[str, Any]]) -> list[str]:
    """What is wrong, in words, for the manifest. `streams`: as the decoder's finish() gives them.

    A CPU whose records end long before the others' with a task running on it, or begin long after with one running
    already, was not recorded there: its buffer was overwritten, its file cut off, or its clock is another one.
    """
    seen = [s for s in streams if s["events"]]
    if not seen:
        return []
    first, last = min(s["first_ns"] for s in seen), max(s["last_ns"] for s in seen)
    found = []
    for s in seen:
        cpu = f"CPU {s['cpu']}"
        if s["steps_back"]:
            found.append(f"{cpu}: its own time steps back {s['steps_back']} times: pages misordered or overlapping")
        pause = (s["last_ns"] - s["first_ns"]) / s["events"]
        for silent, busy, what, cut in (
            (s["first_ns"] - first, s["busy_first"], "begin", f"{_seconds(s['first_ns'] - first)}.."),
            (last - s["last_ns"], s["busy_last"], "end", f"..{_seconds(s['last_ns'] - first)}"),
        ):
            if busy and s["events"] >= _FEW and silent > max(UNEVEN * (last - first), _SURPRISING * pause):
                found.append(
                    f"{cpu}: records {what} {_seconds(silent)} {'after' if what == 'begin' else 'before'} the others'"
                    f" and a task was running: not recorded there, or another clock; rewake slice --window {cut}"
                    " keeps what all have"
                )
    return found if len(found) <= 8 else [*found[:8], f"and {len(found) - 8} more of this kind"]


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.3f}s"
