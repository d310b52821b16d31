# SPDX-License-Identifier: GPL-2.0-or-later
"""A real recording imported and replayed in one part and in many gives the same decisions and ledgers, but for cuts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rewake import formats, importing
from rewake.forms import Run, RunWriter
from rewake.replay import driver
from rewake.replay.loop import Loop
from rewake.replay.spec import PolicySpec

TRACE = Path(__file__).resolve().parents[2] / "fixtures" / "demo-split-llc-schbench" / "trace.dat"
POLICIES = ("recorded", "prev", "random-idle", "linux-6.1", "idle-thread-scan")


def replayed(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    recording = importing.import_trace(TRACE, None, folder / "a.rewake")
    with RunWriter(folder / "a.run", recording) as writer:
        driver.replay(recording, [PolicySpec(p) for p in POLICIES], writer, seed=7)
        writer.commit()
    con = Run(folder / "a.run").connect()
    try:
        return {
            "parts": [(recording.n_parts,)],
            "decision": con.execute("SELECT * FROM decision ORDER BY decision_id").fetchall(),
            "ledger": con.execute("SELECT * FROM ledger ORDER BY policy, decision_id").fetchall(),
            "cause": con.execute("SELECT id, cause FROM migrate ORDER BY id").fetchall(),
            "bucket": con.execute("SELECT * FROM bucket ORDER BY ALL").fetchall(),
        }
    finally:
        con.close()


def test_the_number_of_parts_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    one = replayed(tmp_path / "one")
    monkeypatch.setattr(formats, "BATCH_EVENTS", 20_000)
    many = replayed(tmp_path / "many")
    assert (one.pop("parts"), many.pop("parts")) == ([(1,)], [(12,)])
    for table in ("decision", "cause"):
        assert one[table] == many[table], table
    # A wakeup whose placement is not over when a part ends is decided there: at most one a CPU and cut.
    differ = sum(a != b for a, b in zip(one["ledger"], many["ledger"], strict=True))
    assert differ <= 11 * 16


def test_of_the_part_that_follows_the_first_switch_of_each_cpu_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "BATCH_EVENTS", 20_000)
    recording = importing.import_trace(TRACE, None, tmp_path / "a.rewake")
    loop = Loop(recording, 0)
    for k in range(recording.n_parts):
        switch: Any = recording.read_part("switch", k)
        first: dict[int, tuple[int, int]] = {}
        for row, cpu, ts in zip(switch["id"].tolist(), switch["cpu"].tolist(), switch["ts_ns"].tolist(), strict=True):
            first.setdefault(cpu, (row, ts))
        told: Any = loop._first_switches(k)
        found = told["switch"]
        assert sorted(first.items()) == sorted(
            (cpu, (row, ts)) for row, cpu, ts in zip(*(found[n].tolist() for n in ("id", "cpu", "ts_ns")), strict=True)
        )
    assert loop._first_switches(recording.n_parts) is None
