# SPDX-License-Identifier: GPL-2.0-or-later
"""A recording on disk: `NAME.rewake/`."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewake.errors import TraceError
from rewake.forms import sound
from rewake.forms.directory import Writer, read_manifest
from rewake.forms.kept import RECENT_BYTES, RecentParts
from rewake.forms.parquet import Columns, connect, copy_out, create_view, empty, fetch, select, source_of, threads_for
from rewake.forms.tables import RECORDING_TABLES, SCHEMA_VERSION, Table

if TYPE_CHECKING:
    import duckdb


class RecordingWriter(Writer):
    """Writes a recording: tables with parts batch by batch, the others once.

    `manifest` is the caller's; `format`, `schema_version`, `n_parts`, `rows` and `columns` are filled in here. `keep`:
    bytes of a recording whose parts stay in memory to be read; 0 for a writer that nobody reads from.
    """

    kind = "recording"

    def __init__(self, path: Path | str, threads: int = 1, keep: int = RECENT_BYTES) -> None:
        super().__init__(path, threads)
        self._parts: dict[str, dict[int, int]] = {}
        self._rows: dict[str, int] = {}
        self.recent = RecentParts(keep)

    def write_part(self, table: str, index: int, columns: Columns) -> None:
        """Part `index` (the batch's number) of an event table or of `decision`; a second write replaces the first.

        The columns may be kept for reading: they are not to be changed afterwards.
        """
        spec = _recording_table(table)
        if not spec.parts:
            raise ValueError(f"{table} has no parts")
        file = self.part / table / f"{index:06}.parquet"
        file.unlink(missing_ok=True)
        self._parts.setdefault(table, {})[index] = copy_out(self._duck, spec, columns, file)
        self.recent.put(spec, index, columns)

    def write(self, table: str, columns: Columns) -> None:
        """A table of one file."""
        spec = _recording_table(table)
        if spec.parts:
            raise ValueError(f"{table} is written in parts")
        self._rows[table] = copy_out(self._duck, spec, columns, self.part / f"{table}.parquet")

    @property
    def n_parts(self) -> int:
        """Batches so far, empty ones counted: one more than the highest part written."""
        return max((i for parts in self._parts.values() for i in parts), default=-1) + 1

    def read_part(self, table: str, index: int, names: Sequence[str] | None = None) -> Columns:
        """What was written as this part; no rows when nothing was."""
        spec = _recording_table(table)
        if not self._parts.get(table, {}).get(index):
            return empty(spec, names)
        if (kept := self.recent.get(spec, index, names)) is not None:
            return kept
        files = [self.part / table / f"{index:06}.parquet"]
        return fetch(self._duck, select(spec, names), source_of(spec, files, spec.names))

    def read(self, table: str, names: Sequence[str] | None = None) -> Columns:
        """What was written of a table so far; of a table with parts, all of them."""
        spec = _recording_table(table)
        if spec.parts:
            files = [self.part / table / f"{i:06}.parquet" for i, n in sorted(self._parts.get(table, {}).items()) if n]
        else:
            files = [self.part / f"{table}.parquet"] if self._rows.get(table) else []
        return fetch(self._duck, select(spec, names), source_of(spec, files, spec.names))

    def commit(self) -> None:
        """Gives the recording its name; from here on it is complete."""
        n = self.n_parts
        rows: dict[str, int | list[int]] = {}
        for table in RECORDING_TABLES.values():
            if table.parts:
                parts = self._parts.get(table.name, {})
                rows[table.name] = [parts.get(i, 0) for i in range(n)]
            else:
                rows[table.name] = self._rows.get(table.name, 0)
        self.manifest |= {
            "format": "rewake-recording",
            "schema_version": SCHEMA_VERSION,
            "n_parts": n,
            "rows": rows,
            "columns": {t.name: list(t.names) for t in RECORDING_TABLES.values()},
        }
        self._finish()


def _recording_table(name: str) -> Table:
    try:
        return RECORDING_TABLES[name]
    except KeyError:
        raise ValueError(f"a recording has no table {name}") from None


class Recording:
    """Reads a recording. Missing or damaged files are a TraceError, never an empty table.

    `recent`: what the writer of this very recording still has in memory. Parts that are read are not to be changed.
    """

    def __init__(self, path: Path | str, threads: int | None = None, recent: RecentParts | None = None) -> None:
        self.path = Path(path)
        self.given = self.path
        """What its user calls it: the trace, where it was imported into the cache."""
        self.manifest = read_manifest(self.path, "recording")
        self._recent = recent
        try:
            self.n_parts = int(self.manifest["n_parts"])
            self._rows: dict[str, Any] = dict(self.manifest["rows"])
            self._written: dict[str, list[str]] = dict(self.manifest["columns"])
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"{self.path}/manifest.json: damaged: import the trace again") from error
        for spec in RECORDING_TABLES.values():
            rows = self._rows.get(spec.name)
            each = rows if isinstance(rows, list) else [rows]
            fit = len(each) == (self.n_parts if spec.parts else 1) and all(n is not None and n >= 0 for n in each)
            if spec.name in self._rows and not fit:  # a table that is newer than the recording is not there
                what = f"rows.{spec.name}: rows of {self.n_parts if spec.parts else 1} files expected"
                raise TraceError(f"{self.path}/manifest.json: damaged ({what}): import the trace again")
        self._threads = threads or threads_for(sum(self.rows(name) for name in RECORDING_TABLES))
        for spec in RECORDING_TABLES.values():
            for file in self._files(spec):
                if not file.is_file():
                    raise TraceError(f"{file}: missing: import the trace again")
        self._bounds: dict[str, int] = {}
        self._checked = set(RECORDING_TABLES) if recent is not None else set()

    def read_by_one(self) -> Recording:
        """The same, read by one thread: what each thread holds of a query comes on top."""
        same = copy.copy(self)
        same._threads = 1
        return same

    @property
    def first_decision(self) -> int:
        """decision_id of the first decision: 0 but for a slice."""
        return int(self.manifest.get("first_decision") or 0)

    def check(self) -> None:
        """TraceError where what any table holds cannot be: reading finds it of the tables that are read."""
        for spec in RECORDING_TABLES.values():
            self._check(spec)

    def _check(self, spec: Table) -> None:
        """Of each table when it is asked for first: a file's statistics cost less than any query, and few commands
        ask for all tables."""
        if spec.name in self._checked:
            return
        rows = self._rows.get(spec.name, 0)
        each = [n for n in (rows if isinstance(rows, list) else [rows]) if n]
        sound.check(spec, self._files(spec), each, self.first_decision, self._bound)
        self._checked.add(spec.name)

    def _bound(self, name: str) -> int:
        """One more than the highest number of a `task`, `cpu`, `comm` or `cgroup`."""
        if name not in self._bounds:
            spec, rows = RECORDING_TABLES[name], self.rows(name)
            self._check(spec)
            files = self._files(spec)
            self._bounds[name] = 1 + sound.largest(spec, spec.columns[0].name, files[0], rows) if files else 0
        return self._bounds[name]

    def _files(self, spec: Table, index: int | None = None) -> list[Path]:
        rows = self._rows.get(spec.name, 0)
        if not spec.parts:
            return [self.path / f"{spec.name}.parquet"] if rows else []
        if index is not None and not 0 <= index < self.n_parts:
            raise ValueError(f"{spec.name} has no part {index}")
        wanted = range(self.n_parts) if index is None else (index,)
        return [self.path / spec.name / f"{i:06}.parquet" for i in wanted if rows and rows[i]]

    def _read(self, spec: Table, files: Sequence[Path], names: Sequence[str] | None) -> Columns:
        wanted = select(spec, names)
        if not files:
            return empty(spec, names)
        self._check(spec)
        # A connection for each call: one serves one thread at a time, and a cursor costs nothing.
        return fetch(connect(self._threads), wanted, source_of(spec, files, self._written.get(spec.name, ())))

    def rows(self, table: str) -> int:
        """Rows of a table, from the manifest."""
        found = self._rows.get(_recording_table(table).name, 0)
        return sum(found) if isinstance(found, list) else int(found)

    def read_part(self, table: str, index: int, names: Sequence[str] | None = None) -> Columns:
        """One part of an event table or of `decision`."""
        spec = _recording_table(table)
        if not spec.parts:
            raise ValueError(f"{table} has no parts")
        files = self._files(spec, index)
        if files and self._recent is not None and (kept := self._recent.get(spec, index, names)) is not None:
            return kept
        return self._read(spec, files, names)

    def read(self, table: str, names: Sequence[str] | None = None) -> Columns:
        """A whole table, parts in order."""
        spec = _recording_table(table)
        return self._read(spec, self._files(spec), names)

    def connect(self, tables: Iterable[str] = tuple(RECORDING_TABLES)) -> duckdb.DuckDBPyConnection:
        """A new connection with a view per table: of all tables, or of those named."""
        con = connect(self._threads)
        self.add_views(con, tables)
        return con

    def add_views(self, con: duckdb.DuckDBPyConnection, tables: Iterable[str] = tuple(RECORDING_TABLES)) -> None:
        for spec in map(_recording_table, tables):
            self._check(spec)
            create_view(con, spec.name, source_of(spec, self._files(spec), self._written.get(spec.name, ())))
