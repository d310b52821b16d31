# SPDX-License-Identifier: GPL-2.0-or-later
"""Columns kept in memory: what comes back does not depend on the budget, and the budget is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rewake.forms import Columns
from rewake.forms.kept import GrowingColumns, LongTable, RecentParts
from rewake.forms.parquet import checked, connect, fetch, source_of
from rewake.forms.tables import EVENT_TABLES, RUN_TABLES

LEDGER = RUN_TABLES["ledger"]
LOSS = EVENT_TABLES["loss"]


def ledger(first: int, rows: int) -> Columns:
    cpu = np.arange(first, first + rows, dtype=np.uint16)
    odd = cpu % 2 == 1
    return {"cpu": (cpu, odd), "branch": (cpu.astype(np.uint8), odd), "lo_ns": (cpu.astype(np.int64), cpu > 5)}


@pytest.mark.parametrize("limit", [0, 300, 1 << 20])
def test_grown_columns_are_the_same_from_memory_and_from_files(tmp_path: Path, limit: int) -> None:
    grown = GrowingColumns(LEDGER, tmp_path / "raw", limit)
    for part in range(4):
        for key in (0, 1):
            columns = ledger(10 * part + key, 7)
            assert grown.append(key, columns) == 7
            for values, null in (c for c in columns.values() if isinstance(c, tuple)):  # the caller re-uses its arrays
                values[:] = 0
                null[:] = True
        assert grown.append(0, {"cpu": np.empty(0, np.uint16)}) == 0
    assert (tmp_path / "raw").exists() == (limit < 1 << 20)
    for key in (0, 1):
        want = [ledger(10 * part + key, 7) for part in range(4)]
        got = grown.take(key)
        assert set(got) == set(LEDGER.names)
        for name in ("cpu", "branch", "lo_ns"):
            for i in (0, 1):
                np.testing.assert_array_equal(got[name][i], np.concatenate([w[name][i] for w in want]))
        assert got["known"][1].all()
        assert checked(LEDGER, got)[2] == 28


@pytest.mark.parametrize("limit", [0, 500, 1 << 20])
def test_a_long_table_is_one_file_whatever_its_pieces(tmp_path: Path, limit: int) -> None:
    con, file = connect(), tmp_path / "ledger.parquet"
    long = LongTable(con, LEDGER, tmp_path / "parts", limit)
    for first in range(0, 80, 8):
        long.append(ledger(first, 8))
    assert (tmp_path / "parts").exists() == (limit < 1 << 20)
    assert long.write(file) == 80
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ledger.parquet"]
    found = fetch(con, LEDGER.columns, source_of(LEDGER, [file], LEDGER.names))
    want = ledger(0, 80)
    for name in ("cpu", "branch", "lo_ns"):
        (values, null), (expected, missing) = found[name], want[name]
        np.testing.assert_array_equal(null, missing)
        np.testing.assert_array_equal(values[~null], expected[~missing])
    assert LongTable(con, LEDGER, tmp_path / "none").write(tmp_path / "none.parquet") == 0
    assert not (tmp_path / "none.parquet").exists()
    con.close()


def loss(rows: int) -> Columns:
    i = np.arange(rows, dtype=np.int64)
    return {"id": i, "ts_ns": i, "cpu": i.astype(np.uint16), "lost": (i, i == 1)}


def test_a_new_version_replaces_the_old_one_and_what_does_not_fit_is_not_kept() -> None:
    recent = RecentParts(limit=3 * 10 * (8 + 8 + 2 + 8 + 1))
    for index in range(3):
        recent.put(LOSS, index, loss(10))
    recent.put(LOSS, 2, {k: v for k, v in loss(4).items() if k != "lost"})
    found = recent.get(LOSS, 2, ("id", "lost"))
    assert found is not None
    assert list(found) == ["id", "lost"]
    assert len(found["id"]) == 4
    assert found["lost"][1].all(), "a column that was not given is NULL"
    recent.put(LOSS, 3, loss(6))
    assert [recent.get(LOSS, i, None) is not None for i in range(5)] == [True] * 4 + [False]
    recent.put(LOSS, 4, loss(1))
    recent.put(LOSS, 5, loss(1))
    assert all(recent.get(LOSS, i, None) is None for i in range(6)), "the first ones are read first, and would be gone"


def test_nothing_is_kept_without_a_budget() -> None:
    recent = RecentParts(limit=0)
    recent.put(LOSS, 0, loss(1))
    assert recent.get(LOSS, 0, None) is None
