# SPDX-License-Identifier: GPL-2.0-or-later
"""What two fleet stores hold, compared byte by byte."""

from __future__ import annotations

from pathlib import Path

from rewake.fleet.drive import Summary


def shards(store: Path) -> dict[str, bytes]:
    return {f"{p.parent.name}/{p.name}": p.read_bytes() for p in store.glob("*/*") if not p.name.startswith(".")}


def check(found: Summary, store: Path, reference: Path) -> None:
    """Nothing lost, nothing else, byte by byte."""
    assert found.left == 0 and found.why is None
    assert shards(store) == shards(reference)
