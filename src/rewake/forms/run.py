# SPDX-License-Identifier: GPL-2.0-or-later
"""A run on disk: `NAME.run/`."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from rewake.errors import TraceError, UsageError
from rewake.forms import sound
from rewake.forms.directory import Writer, read_manifest
from rewake.forms.kept import GrowingColumns, LongTable
from rewake.forms.parquet import (
    Columns,
    checked,
    connect,
    copy_out,
    create_view,
    empty,
    fetch,
    literal,
    select,
    source_of,
    threads_for,
)
from rewake.forms.recording import Recording
from rewake.forms.tables import RUN_TABLES, SCHEMA_VERSION, TABLES

if TYPE_CHECKING:
    import duckdb


_TABLES_OF = {"open": ("ledger", "bucket"), "closed": ("arm", "sim_window", "woken"), "trial": ("trial",)}
"""By the manifest's `mode`; `open` does not say so."""


class RunWriter(Writer):
    """Writes a run: one ledger file per policy instance, rows in decision order, and small tables.

    Ledger parts are kept as raw columns, in memory and beyond a fixed size on disk, until commit writes each policy's
    file in one go: memory does not grow with the recording and nothing is compressed twice. `recording` is what the run
    was made from; the run refers to it.
    """

    kind = "run"

    def __init__(self, path: Path | str, recording: Recording | None = None, threads: int = 1) -> None:
        super().__init__(path, threads)
        self._ledgers: dict[str, dict[int, int]] = {}
        self._rows: dict[str, int] = {}
        self._raw = GrowingColumns(RUN_TABLES["ledger"], self.part / "raw")
        self._growing: dict[str, LongTable] = {}
        self.recent: dict[str, Columns] = {}
        """After commit: the ledgers that were small enough to stay in memory."""
        if recording is not None:
            self.manifest["recording"] = {"path": str(recording.path.resolve()), "id": recording.manifest.get("id")}
            self.manifest["first_decision"] = recording.first_decision

    def write_ledger(self, policy: str, index: int, columns: Columns) -> None:
        """Part `index` of a policy's ledger: a row for each decision in part `index` of the recording; in order."""
        parts = self._ledgers.setdefault(policy, {})
        if parts and index <= max(parts):
            raise ValueError(f"ledger of {policy}: part {index} after part {max(parts)}")
        parts[index] = self._raw.append(list(self._ledgers).index(policy), columns)

    def append(self, table: str, columns: Columns) -> None:
        """Rows of a table of one file that is too long to be written in one go; no text columns."""
        if table not in self._growing:
            self._growing[table] = LongTable(self._duck, RUN_TABLES[table], self.part / f"parts-{table}")
        self._growing[table].append(columns)

    def write(self, table: str, columns: Columns) -> None:
        """A table of one file."""
        spec = RUN_TABLES[table]
        if spec.parts:
            raise ValueError(f"{table} is written with write_ledger")
        self._rows[table] = copy_out(self._duck, spec, columns, self.part / f"{table}.parquet")

    def commit(self) -> None:
        """Writes the ledger files and gives the run its name."""
        spec = RUN_TABLES["ledger"]
        ledgers: dict[str, dict[str, Any]] = {}
        taken = {f"{name}.parquet" for name in RUN_TABLES}
        for key, (policy, parts) in enumerate(self._ledgers.items()):
            file = _file_name(policy, taken)
            taken.add(file)
            if sum(parts.values()):
                kept = self._raw.in_memory(key)
                columns = self._raw.take(key)
                copy_out(self._duck, spec, columns, self.part / file)
                if kept:
                    self.recent[policy] = columns
            n = max(parts, default=-1) + 1
            ledgers[policy] = {"file": file, "rows": [parts.get(i, 0) for i in range(n)]}
        for table, growing in self._growing.items():
            self._rows[table] = growing.write(self.part / f"{table}.parquet")
        shutil.rmtree(self.part / "raw", ignore_errors=True)
        self.manifest |= {
            "format": "rewake-run",
            "schema_version": SCHEMA_VERSION,
            "ledgers": ledgers,
            "rows": {t.name: self._rows.get(t.name, 0) for t in RUN_TABLES.values() if not t.parts},
            "columns": {t.name: list(t.names) for t in RUN_TABLES.values()},
        }
        self._finish()


def in_memory(tables: Mapping[str, Columns]) -> duckdb.DuckDBPyConnection:
    """A new connection with tables of a run that nobody keeps, and of its machine."""
    con = connect()
    for name, columns in tables.items():
        arrays, exprs, _ = checked(TABLES[name], columns)
        con.register("given", arrays)
        con.execute(f"CREATE TEMP TABLE {name} AS SELECT {', '.join(exprs)} FROM given").fetchall()
        con.unregister("given")
    return con


def _file_name(policy: str, taken: set[str]) -> str:
    """A file name for a policy instance: readable, portable, unique in its run."""
    stem = quote(policy, safe="@=+,-_~").replace("%2E", ".")
    stem = stem if not stem.startswith(".") else "%2E" + stem[1:]
    short = stem if len(stem) <= 120 else stem[:120]
    name, n = f"{short}.parquet", 1
    while name.lower() in {t.lower() for t in taken}:
        n += 1
        name = f"{short}~{n}.parquet"
    return name


class Run:
    """Reads a run. `recent`: what its writer still has in memory (RunWriter.recent), for the first connection."""

    def __init__(
        self, path: Path | str, threads: int | None = None, recent: Mapping[str, Columns] | None = None
    ) -> None:
        self.path = Path(path)
        self._recent: Mapping[str, Columns] = recent or {}
        self.manifest = read_manifest(self.path, "run")
        try:
            self._ledgers: dict[str, dict[str, Any]] = dict(self.manifest["ledgers"])
            self._rows: dict[str, int] = dict(self.manifest["rows"])
            self._written: dict[str, list[str]] = dict(self.manifest["columns"])
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(f"{self.path}/manifest.json: damaged: replay the recording again") from error
        self._threads = threads or threads_for(sum(sum(ledger["rows"]) for ledger in self._ledgers.values()))
        for policy in self.policies:
            for file in self._files(policy):
                if not file.is_file():
                    raise TraceError(f"{file}: missing: replay the recording again")

    def check(self) -> None:
        """TraceError where a file is not there or has other rows than the manifest tells."""
        rows = [(file, sum(self._ledgers[policy]["rows"])) for policy in self.policies for file in self._files(policy)]
        rows += [(self.path / f"{table}.parquet", n) for table, n in self._rows.items() if n]
        sound.counted(rows, "replay the recording again")

    @property
    def policies(self) -> list[str]:
        """Policy instances in the order in which they were asked for."""
        return list(self._ledgers)

    @property
    def recording(self) -> Recording:
        """The recording that the run was made from: where it was, or beside the run."""
        made_from = self.manifest.get("recording")
        if not isinstance(made_from, dict) or "path" not in made_from:
            raise TraceError(f"{self.path}: the run does not say which recording it was made from")
        there = Path(made_from["path"])
        for path in (there, self.path.resolve().parent / there.name):
            if (path / "manifest.json").is_file():
                recording = Recording(path, self._threads)
                if recording.manifest.get("id") == made_from.get("id"):
                    return recording
        raise TraceError(f"{there}: the recording of {self.path} is gone or has changed: replay the trace again")

    def _files(self, policy: str) -> list[Path]:
        ledger = self._ledgers[policy]
        return [self.path / str(ledger["file"])] if sum(ledger["rows"]) else []

    def read_ledger(self, policy: str, index: int | None = None, names: Sequence[str] | None = None) -> Columns:
        """A policy's ledger: all of it, or the rows of the decisions in part `index` of the recording."""
        spec = RUN_TABLES["ledger"]
        if policy not in self._ledgers:
            raise UsageError(f"{self.path}: no policy {policy}; it has {', '.join(self.policies)}")
        rows = self._ledgers[policy]["rows"]
        files = self._files(policy)
        if not files or (index is not None and not rows[index]):
            return empty(spec, names)
        source = source_of(spec, files, self._written["ledger"])
        if index is not None:
            source = f"{source} LIMIT {rows[index]} OFFSET {sum(rows[:index])}"
        return fetch(connect(self._threads), select(spec, names), source)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new connection: the recording's views and those of the run's own tables; `ledger` with `policy` and
        `decision_id`."""
        con = connect(self._threads)
        self.recording.add_views(con)
        spec = RUN_TABLES["ledger"]
        first = int(self.manifest.get("first_decision") or 0)
        arms = []
        recent, self._recent = self._recent, {}
        for k, policy in enumerate(self.policies):
            if policy in recent:
                arrays, chosen, rows = checked(spec, recent[policy])
                con.register(f"recent_{k}", arrays | {"decision_id": np.arange(first, first + rows)})
                arms.append(f"SELECT {literal(policy)} AS policy, decision_id, {', '.join(chosen)} FROM recent_{k}")
                continue
            for file in self._files(policy):
                has = set(self._written["ledger"])
                exprs = ", ".join(c.name if c.name in has else f"NULL::{c.type} AS {c.name}" for c in spec.columns)
                arms.append(
                    f"SELECT {literal(policy)} AS policy, file_row_number + {first} AS decision_id, {exprs}"
                    f" FROM read_parquet({literal(file)}, file_row_number=true)"
                )
        if not arms:
            nothing = ", ".join(f"NULL::{c.type} AS {c.name}" for c in spec.columns)
            arms.append(f"SELECT ''::VARCHAR AS policy, 0::BIGINT AS decision_id, {nothing} WHERE false")
        mine = _TABLES_OF.get(str(self.manifest.get("mode", "open")), tuple(RUN_TABLES))
        if spec.name in mine:
            create_view(con, spec.name, "(" + " UNION ALL ".join(arms) + ")")
        for table in RUN_TABLES.values():
            if not table.parts and table.name in mine:
                files = [self.path / f"{table.name}.parquet"] if self._rows.get(table.name) else []
                create_view(con, table.name, source_of(table, files, self._written.get(table.name, ())))
        return con
