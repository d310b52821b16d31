# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings of some CPUs only: what looks at the others is not counted, and nobody is placed there."""

from __future__ import annotations

from pathlib import Path

import pytest

import rewake
from rewake import importing

DEMO = Path(__file__).parents[2] / "fixtures/demo-split-llc-schbench/trace.dat"

pytestmark = pytest.mark.usefixtures("own_cache")


def confined(monkeypatch: pytest.MonkeyPatch, to: list[int] | None, out: Path) -> rewake.Recording:
    """The demo as if its capture had been confined to these CPUs."""
    monkeypatch.setattr(importing, "_recorded_cpus", lambda _: to)
    return rewake.open(importing.import_trace(DEMO, out=out).path)


def test_only_whole_llcs_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = confined(monkeypatch, None, tmp_path / "whole.rewake")
    half = confined(monkeypatch, list(range(8)), tmp_path / "half.rewake")
    inside = " AND ".join(["kind = 0", *(f"coalesce({c}_cpu, 0) < 8" for c in ("prev", "waker", "chosen"))])
    fair = "SELECT decision_id, class FROM decision WHERE class IN (0, 1)"
    kept = half.sql(f"{fair} ORDER BY 1").fetchall()
    assert kept == whole.sql(f"{fair} AND {inside} ORDER BY 1").fetchall()
    assert 1000 < len(kept) < 15_000
    gone = half.sql("SELECT count(*) FROM decision WHERE decision_class_of(class) = 'unrecorded'").fetchall()
    assert gone == whole.sql(f"SELECT count(*) FROM decision WHERE NOT ({inside})").fetchall()
    assert f"{gone[0][0]:,} decisions that look at others are not counted" in half.quality.notes[0]
    assert half.quality.ok


def test_nobody_is_placed_where_nothing_was_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    half = confined(monkeypatch, list(range(8)), tmp_path / "half.rewake")
    run = half.replay(["oracle-idle", "random-idle", "idle-thread-scan", "userspace-hints"], sync="0")
    placed = run.sql("SELECT policy, max(cpu), count(cpu) FROM ledger GROUP BY policy").fetchall()
    assert len(placed) >= 6
    assert all(most < 8 and n > 1000 for _, most, n in placed)


def test_a_part_of_an_llc_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    part = confined(monkeypatch, [0, 1, 2, 3], tmp_path / "part.rewake")
    assert part.sql("SELECT count(*) FROM decision WHERE class IN (0, 1)").fetchall() == [(0,)]
    assert not part.quality.ok
