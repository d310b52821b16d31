# SPDX-License-Identifier: GPL-2.0-or-later
"""A fleet store: one Parquet file per task, here or behind a URL. What stays of thousands of recordings.

`STORE/done/TASK.parquet` is what a task found, `STORE/failed/TASK.parquet` why it found nothing; TASK is the hash of
all that the task is made from. Files are written whole (objects.py), and a task gives the same bytes wherever it runs:
any number of machines may work on one store, and what is there need not be done again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewake.errors import TraceError, UsageError
from rewake.forms.gathered import gather
from rewake.forms.objects import Objects
from rewake.forms.parquet import connect, write_rows
from rewake.forms.tables import FLEET_TABLES

if TYPE_CHECKING:
    import duckdb

SHARD = FLEET_TABLES["shard"]
DONE, FAILED = "done", "failed"

Row = Mapping[str, Any]


class FleetStore:
    """The fleet store at a path, or at a URL that fsspec knows (s3://bucket/prefix)."""

    def __init__(self, where: str | Path) -> None:
        self._objects = Objects(where)

    @property
    def where(self) -> str:
        return self._objects.where

    def put(self, task: str, rows: Sequence[Row]) -> int:
        """Writes what a task found, or why it failed (rows with `error`); the bytes written. A failure that is told
        already goes once the task has succeeded."""
        failed = any(row.get("error") is not None for row in rows)
        with tempfile.TemporaryDirectory(prefix="rewake-shard-") as folder:
            file = Path(folder) / "shard.parquet"
            con = connect()
            try:
                write_rows(con, SHARD, rows, file)
            finally:
                con.close()
            data = file.read_bytes()
        self._objects.put(f"{FAILED if failed else DONE}/{task}.parquet", data)
        if not failed and self._objects.has(f"{FAILED}/{task}.parquet"):
            self._objects.remove(f"{FAILED}/{task}.parquet")
        return len(data)

    def tidy(self) -> None:
        """Removes what killed writers left long ago."""
        for folder in (DONE, FAILED):
            self._objects.sweep(folder)

    def has(self, task: str) -> bool:
        """Whether the task was done."""
        return self._objects.has(f"{DONE}/{task}.parquet")

    def tasks(self, empty: bool = False) -> tuple[set[str], set[str]]:
        """Hashes of the tasks that were done, and of those that failed. `empty`: also of those whose file holds
        nothing, and which are to be done."""
        done, failed = (
            {n.rpartition("/")[2].removesuffix(".parquet") for n in self._objects.names(folder, empty)}
            for folder in (DONE, FAILED)
        )
        return done, failed - done

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new connection with the table `shard`; columns that a file lacks are NULL."""
        if not self._objects.exists():
            raise UsageError(f"{self.where}: no fleet store there (rewake fleet run makes one)")
        done, failed = self.tasks(empty=True)
        names = [f"{DONE}/{t}.parquet" for t in sorted(done)] + [f"{FAILED}/{t}.parquet" for t in sorted(failed)]
        if not names:
            of_runs = any(self._objects.names("suite=*"))
            what = (
                "a store of runs: rewake trend and rewake dashboard read it" if of_runs else "the fleet store is empty"
            )
            raise UsageError(f"{self.where}: {what} (rewake fleet run fills a fleet store)")
        con = connect()
        remedy = "remove it, and rewake fleet run makes it again"
        try:
            with self._objects.fetched(names) as files:
                gather(con, SHARD, dict(zip(names, files, strict=True)), self.where, remedy)
            # A copy under another name would count its recording twice.
            other = con.execute(
                "SELECT min(file) FROM shard WHERE regexp_extract(file, '([^/]+)\\.parquet$', 1) <> task"
            ).fetchall()[0][0]
            if other is not None:
                raise TraceError(f"{self.where}/{other}: holds another task than its name says; {remedy}")
            con.execute("ALTER TABLE shard DROP COLUMN file")
        except BaseException:
            con.close()
            raise
        return con
