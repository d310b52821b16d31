# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of a store as one table. A file that is damaged, or not of the store, is named and never counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rewake.errors import TraceError
from rewake.forms.parquet import first_line, literal
from rewake.forms.tables import Table

if TYPE_CHECKING:
    import duckdb

_TOGETHER = 256
"""Files read at once: DuckDB holds what it knows of each of them, 130 kB, until the last is read."""


def gather(con: duckdb.DuckDBPyConnection, table: Table, files: Mapping[str, Path], where: str, remedy: str) -> None:
    """Makes the temp table `table` with the rows of all files, by their names in the store, and with the name of each
    row's file as `file`; columns that a file lacks are NULL. TraceError names the file that cannot be read."""
    import duckdb

    columns = ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in table.columns)
    con.execute(f"CREATE OR REPLACE TEMP TABLE {table.name} ({columns}, file VARCHAR)")
    every = list(files)
    for first in range(0, len(every), _TOGETHER):
        names = every[first : first + _TOGETHER]
        try:
            _insert(con, table, files, names)
        except duckdb.Error as error:
            name, why = _culprit(con, table, files, names) or ("", first_line(error))
            raise TraceError(f"{where}{'/' * bool(name)}{name}: {why}: the file is damaged; {remedy}") from error


def _insert(con: duckdb.DuckDBPyConnection, table: Table, files: Mapping[str, Path], names: list[str]) -> None:
    listed = ", ".join(literal(files[name]) for name in names)
    declared = ", ".join(f"NULL::{c.type} AS {c.name}" for c in table.columns)
    con.execute(
        f"INSERT INTO {table.name} SELECT {', '.join(table.names)}, regexp_extract(given_file, '[^/]+/[^/]+$') FROM ("
        f"SELECT * RENAME (filename AS given_file) FROM read_parquet([{listed}], union_by_name=true, filename=true,"
        f" hive_partitioning=false) UNION ALL BY NAME SELECT {declared} WHERE false)"
    )


def _culprit(
    con: duckdb.DuckDBPyConnection, table: Table, files: Mapping[str, Path], names: list[str]
) -> tuple[str, str] | None:
    """The first file that cannot be read alone, and why: what DuckDB says of many often names none."""
    import duckdb

    for name in names:
        try:
            _insert(con, table, files, [name])
        except duckdb.ConstraintException:
            return name, f"no {table.name} of rewake: needed columns are missing or empty"
        except duckdb.Error as error:
            return name, first_line(error)
    return None
