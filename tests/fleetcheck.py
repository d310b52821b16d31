# SPDX-License-Identifier: GPL-2.0-or-later
"""A study for tests, and what two fleet stores hold, compared byte by byte."""

from __future__ import annotations

from pathlib import Path

from rewake.fleet.drive import Summary
from rewake.fleet.tasks import OPEN, Study, tool


def study(*policies: str) -> Study:
    return Study(OPEN, policies or ("random-idle",), {"sync": "auto", "probes": True}, "", (), tool())


def shards(store: Path) -> dict[str, bytes]:
    return {f"{p.parent.name}/{p.name}": p.read_bytes() for p in store.glob("*/*") if not p.name.startswith(".")}


def check(found: Summary, store: Path, reference: Path) -> None:
    """Nothing lost, nothing else, byte by byte."""
    assert found.left == 0 and found.why is None
    assert shards(store) == shards(reference)
