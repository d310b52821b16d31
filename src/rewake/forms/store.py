# SPDX-License-Identifier: GPL-2.0-or-later
"""A store: an append-only directory of Parquet files, here or behind a URL. What stays of many runs.

`STORE/suite=NAME/HASH.parquet`, one file per run, named by the hash of what it says, written whole and never changed
(objects.py): two writers of different runs make different files, two of the same run the same one.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from rewake.errors import TraceError, UsageError
from rewake.forms.gathered import gather
from rewake.forms.objects import Objects
from rewake.forms.parquet import Columns, connect, copy_out, dtype_of
from rewake.forms.tables import STORE_TABLES

if TYPE_CHECKING:
    import duckdb

_FIGURE = STORE_TABLES["figure"]
_REMEDY = "move it away, or fetch it again"

Row = Mapping[str, Any]


class Store:
    """The store at a path, or at a URL that fsspec knows (s3://bucket/prefix)."""

    def __init__(self, where: str | Path) -> None:
        self._objects = Objects(where)

    def add(self, rows: Sequence[Row]) -> tuple[str, bool]:
        """Adds the rows of one run, all of one suite; the shard's name, and False when it was there already."""
        suites = {str(row["suite"]) for row in rows}
        if len(suites) != 1:
            raise ValueError("rows of one suite expected")
        columns = _columns(rows)
        folder = f"suite={_folder(suites.pop())}"
        name = f"{folder}/{_digest(rows)}.parquet"
        if self._objects.has(name):
            return name, False
        self._objects.sweep(folder)
        self._objects.put(name, _parquet(columns))
        return name, True

    def shards(self) -> list[str]:
        """Names of all files, in order."""
        if not self._objects.exists():
            raise UsageError(f"{self._objects.where}: no store there (rewake store add makes one)")
        return self._objects.names("suite=*")

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new connection with the view `figure`, the declared columns and `shard`; absent columns are NULL."""
        where = self._objects.where
        shards = self.shards()
        if not shards:
            of_fleet = any(self._objects.names("done")) or any(self._objects.names("failed"))
            what = "a fleet store: rewake fleet report reads it" if of_fleet else "the store is empty"
            raise UsageError(f"{where}: {what} (rewake store add RUN fills one of runs)")
        con = connect()
        try:
            with self._objects.fetched(shards) as files:
                gather(con, _FIGURE, dict(zip(shards, files, strict=True)), where, _REMEDY)
            con.execute("ALTER TABLE figure RENAME COLUMN file TO shard")
            odd = con.execute("SELECT min(shard) FROM figure WHERE NOT isfinite(value)").fetchall()[0][0]
            if odd is not None:
                raise TraceError(f"{where}/{odd}: a value is no finite number: the file is damaged; {_REMEDY}")
            if copies := _same(con):
                raise TraceError(f"{where}: {' and '.join(copies)} say the same, and a run counts once: remove one")
        except BaseException:
            con.close()
            raise
        return con


def _same(con: duckdb.DuckDBPyConnection) -> tuple[str, str] | None:
    """Two files that hold the same rows: by what they say, as another version of the writer gives other names."""
    said = ", ".join(_FIGURE.names)
    found = con.execute(
        f"SELECT min(shard), max(shard) FROM (SELECT shard, count(*) AS n, sum(hash({said})) AS sum FROM figure"
        " GROUP BY shard) GROUP BY n, sum HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
    ).fetchone()
    return None if found is None else (str(found[0]), str(found[1]))


def _columns(rows: Sequence[Row]) -> Columns:
    columns: Columns = {}
    for column in _FIGURE.columns:
        values = [row.get(column.name) for row in rows]
        null = np.array([v is None for v in values], np.bool_)
        dtype = dtype_of(column)
        filled = values if dtype.kind == "O" else [0 if v is None else v for v in values]
        array = np.array(filled, dtype)
        columns[column.name] = (array, null) if column.nullable else array
    return columns


def _folder(suite: str) -> str:
    """A name of a directory for a suite: long ones are cut and told apart by a hash; the suite is in the rows."""
    name = quote(suite, safe="")
    return name if len(name) <= 200 else f"{name[:160]}~{hashlib.sha256(suite.encode()).hexdigest()[:16]}"


def _digest(rows: Sequence[Row]) -> str:
    """Of what the rows say, not of how they are stored: the same run has one name under any version of the writer."""
    plain = [{name: row[name] for name in _FIGURE.names if row.get(name) is not None} for row in rows]
    text = json.dumps(plain, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _parquet(columns: Columns) -> bytes:
    with tempfile.TemporaryDirectory(prefix="rewake-store-") as folder:
        file = Path(folder) / "figure.parquet"
        con = connect()
        try:
            copy_out(con, _FIGURE, columns, file)
        finally:
            con.close()
        return file.read_bytes()
