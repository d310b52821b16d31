# SPDX-License-Identifier: GPL-2.0-or-later
"""Columns to Parquet and back. DuckDB is its only reader and writer, and `connect` the only place that opens it.

Columns cross as `Columns`: numpy arrays of the declared width; a column with NULLs as `(values, null)`, null True
where absent.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from rewake.errors import NOT_UTF8, TraceError, UsageError
from rewake.forms.tables import SCHEMA_VERSION, Column, Table

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
Array = npt.NDArray[Any]
Columns = dict[str, Array | tuple[Array, Array]]

_DTYPES: dict[str, np.dtype[Any]] = {
    "BIGINT": np.dtype(np.int64), "INTEGER": np.dtype(np.int32), "SMALLINT": np.dtype(np.int16),
    "UTINYINT": np.dtype(np.uint8), "USMALLINT": np.dtype(np.uint16), "UINTEGER": np.dtype(np.uint32),
    "UBIGINT": np.dtype(np.uint64), "BOOLEAN": np.dtype(np.bool_), "VARCHAR": np.dtype(object),
    "DOUBLE": np.dtype(np.float64), "INTEGER[]": np.dtype(object), "BIGINT[]": np.dtype(object),
}  # fmt: skip

_COPY_OPTIONS = "FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION V2"
"""V2 brings DELTA_BINARY_PACKED: half the cpu and three quarters of the space of plain pages under zstd."""


def _copied(table: Table, file: Path) -> str:
    """Where COPY puts a table, and how."""
    about = f"{{schema_version: '{SCHEMA_VERSION}', rewake_table: '{table.name}'}}"
    return f"{literal(file)} ({_COPY_OPTIONS}, KV_METADATA {about})"


_MANY_ROWS = 10_000_000
"""From here on a second thread saves more waiting than it costs; below, it costs a tenth and saves little."""


def threads_for(rows: int) -> int:
    """Threads to read this many rows with; what is read does not depend on it."""
    return 1 if rows < _MANY_ROWS or _confined else 2


_confined: dict[str, str] = {}
"""Settings of every database of this process, beyond those of `connect`."""


def confine(memory_bytes: int | None) -> None:
    """From here on this process reads with one thread, and spills rather than hold more than so many bytes: it is one
    of many on its machine. To be called before anything connects."""
    _confined["threads"] = "1"
    if memory_bytes is not None:
        _confined["memory_limit"] = f"{memory_bytes}B"


SPARING = 64 << 20
"""Bytes that queries over a whole recording get along with: beyond, they spill what they sort and join."""


def sparingly(ask: Callable[[], T]) -> T:
    """What `ask` finds, with no more than SPARING bytes for the queries that it makes; where they cannot spill enough,
    with twice, four times as many, and at last with all that there are."""
    import duckdb

    settings = connect()
    if "memory_limit" in _confined:
        return ask()
    try:
        for times in (1, 2, 4):
            settings.execute(f"SET memory_limit = '{times * SPARING}B'")
            try:
                return ask()
            except duckdb.OutOfMemoryException:
                continue
        settings.execute("RESET memory_limit")
        return ask()
    finally:
        settings.execute("RESET memory_limit")


def connect(threads: int = 1) -> duckdb.DuckDBPyConnection:
    """A connection of its own: TEMP views and tables in it are not seen by others.

    In-memory, never reaches for the network and spills, if it must, into the temporary directory.
    """
    return _database(threads).cursor()


@cache
def _database(threads: int) -> duckdb.DuckDBPyConnection:
    """One per process: to start it takes 20 ms, a connection to it none."""
    import duckdb

    spill = Path(tempfile.gettempdir(), f"rewake-spill-{os.getpid()}")
    require_utf8(spill)
    return duckdb.connect(
        ":memory:",
        config={
            "threads": threads,
            "temp_directory": str(spill),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            **_confined,
        },
    )


def require_utf8(path: Path) -> None:
    """Raises UsageError where DuckDB, which is given the paths of the tables, could not have this one."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise UsageError(f"{path}: {NOT_UTF8}") from None


def dtype_of(column: Column) -> np.dtype[Any]:
    """The numpy type in which a column crosses."""
    return _DTYPES[column.type]


def empty(table: Table, names: Sequence[str] | None = None) -> Columns:
    """Columns of no rows."""
    return {c.name: np.empty(0, dtype_of(c)) for c in select(table, names)}


def select(table: Table, names: Sequence[str] | None) -> tuple[Column, ...]:
    if names is None:
        return table.columns
    by_name = {c.name: c for c in table.columns}
    unknown = [n for n in names if n not in by_name]
    if unknown:
        raise ValueError(f"table {table.name} has no column {', '.join(unknown)}")
    return tuple(by_name[n] for n in names)


def with_null(column: Array | tuple[Array, Array]) -> tuple[Array, Array]:
    """A column as (values, null), whether or not it has NULLs."""
    return column if isinstance(column, tuple) else (column, np.zeros(len(column), np.bool_))


def values_of(column: Array | tuple[Array, Array]) -> list[Any]:
    """A column as a list of Python's own values; NULL is None."""
    if not isinstance(column, tuple):
        values: list[Any] = column.tolist()
        return values
    return [None if null else value for value, null in zip(column[0].tolist(), column[1].tolist(), strict=True)]


def literal(text: str | Path) -> str:
    return "'" + str(text).replace("'", "''") + "'"


def exact(table: Table, column: Column, values: Array, null: Array | None) -> Array:
    """The values in the declared width; refuses anything that would not survive the change."""
    want = dtype_of(column)
    if values.ndim != 1:
        raise ValueError(f"{table.name}.{column.name}: {values.ndim} dimensions")
    if null is not None and (values.dtype != want or want.kind == "O"):
        values = values.copy()  # what stands under a NULL is arbitrary and need not fit
        values[null] = None if values.dtype.kind == "O" else values.dtype.type()
    if values.dtype == want:
        return values
    if values.size == 0 or (want.kind == "O" and values.dtype.kind == "U"):
        return values.astype(want)
    if values.dtype.kind in "iu" and want.kind in "iu":
        limit = np.iinfo(want)
        if int(values.min()) >= limit.min and int(values.max()) <= limit.max:
            return values.astype(want)
        raise ValueError(f"{table.name}.{column.name}: value out of the range of {column.type}")
    raise ValueError(f"{table.name}.{column.name}: {values.dtype} given, {want} declared")


def checked(table: Table, columns: Columns) -> tuple[dict[str, Array], list[str], int]:
    """Arrays to register, the select list over them, and the number of rows."""
    unknown = sorted(set(columns) - set(table.names))
    if unknown:
        raise ValueError(f"table {table.name} has no column {', '.join(unknown)}")
    arrays: dict[str, Array] = {}
    exprs = []
    rows: int | None = None
    for column in table.columns:
        given = columns.get(column.name)
        if given is None:
            if not column.nullable:
                raise ValueError(f"{table.name}.{column.name} is missing")
            exprs.append(f"NULL::{column.type} AS {column.name}")
            continue
        values, null = given if isinstance(given, tuple) else (given, None)
        if rows is None:
            rows = len(values)
        if len(values) != rows or (null is not None and len(null) != rows):
            raise ValueError(f"{table.name}.{column.name}: {len(values)} rows, other columns have {rows}")
        if null is not None and not null.any():
            null = None
        if null is not None and not column.nullable:
            raise ValueError(f"{table.name}.{column.name} may not be NULL")
        values = exact(table, column, values, null)
        if column.type == "VARCHAR":
            if not column.nullable and any(v is None for v in values):
                raise ValueError(f"{table.name}.{column.name} may not be NULL")
            exprs.append(f"{column.name}::VARCHAR AS {column.name}")
        else:
            exprs.append(column.name)
            if null is not None:
                values = np.ma.MaskedArray(values, mask=np.asarray(null, np.bool_))
        arrays[column.name] = values
    return arrays, exprs, rows or 0


def copy_out(con: duckdb.DuckDBPyConnection, table: Table, columns: Columns, file: Path) -> int:
    """Writes one Parquet file and returns its rows; no rows, no file."""
    import duckdb

    arrays, exprs, rows = checked(table, columns)
    if rows == 0:
        return 0
    file.parent.mkdir(parents=True, exist_ok=True)
    con.register("given", arrays)
    try:
        con.execute(f"COPY (SELECT {', '.join(exprs)} FROM given) TO {_copied(table, file)}").fetchall()
    except duckdb.Error as error:
        raise _unwritten(file, error) from error
    finally:
        con.unregister("given")
    return rows


def join_files(con: duckdb.DuckDBPyConnection, table: Table, files: Sequence[Path], into: Path) -> None:
    """Writes the rows of some files that copy_out() wrote as one."""
    import duckdb

    try:
        con.execute(f"COPY {source_of(table, files, table.names)} TO {_copied(table, into)}").fetchall()
    except duckdb.Error as error:
        raise _unwritten(into, error) from error


def write_rows(con: duckdb.DuckDBPyConnection, table: Table, rows: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Writes a few rows as one Parquet file; absent is NULL. Unlike `copy_out`, it knows lists."""
    import duckdb

    declared = ", ".join(f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in table.columns)
    if unknown := sorted({name for row in rows for name in row} - set(table.names)):
        raise ValueError(f"table {table.name} has no column {', '.join(unknown)}")
    try:
        con.execute(f"CREATE OR REPLACE TEMP TABLE given_rows ({declared})")
        place = f"({', '.join('?' * len(table.columns))})"
        con.execute(
            f"INSERT INTO given_rows VALUES {', '.join([place] * len(rows))}",
            [row.get(name) for row in rows for name in table.names],
        )
        con.execute(f"COPY given_rows TO {_copied(table, file)}").fetchall()
    except duckdb.Error as error:
        raise _unwritten(file, error) from error


def fetch(con: duckdb.DuckDBPyConnection, wanted: Sequence[Column], source: str) -> Columns:
    import duckdb

    try:
        found = con.execute(f"SELECT {', '.join(c.name for c in wanted)} FROM {source}").fetchnumpy()
    except duckdb.Error as error:
        raise TraceError(f"{first_line(error)}; the recording is damaged: import the trace again") from error
    columns: Columns = {}
    for column in wanted:
        values = found[column.name]
        null = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        data = values.data if isinstance(values, np.ma.MaskedArray) else values
        absent = null is not None and bool(null.any())
        if data.dtype != dtype_of(column) or (absent and not column.nullable):
            what = "NULL" if absent and not column.nullable else str(data.dtype)
            where = source.partition("read_parquet")[2].strip("([])")[:200]
            raise TraceError(
                f"{where}: column {column.name}: {what} where {column.type} is declared;"
                " the recording is damaged: import the trace again"
            )
        columns[column.name] = (data, null) if absent and null is not None else data
    return columns


def unreadable(error: Exception) -> str | None:
    """What a failed query says of a Parquet file that DuckDB cannot read; None for an error of another kind. Most
    damage shows only when a page is unpacked, in whatever query comes first."""
    import duckdb

    # Not what says that a query is wrong, which may quote a file's name as well.
    kinds = (duckdb.Error, duckdb.IOException, duckdb.InvalidInputException, duckdb.SerializationException)
    if type(error) not in kinds or not re.search(r"\.parquet['\"]|Parquet file|TProtocolException", str(error)):
        return None
    return f"{first_line(error)}; a Parquet file is damaged: make the recording or run again"


def _unwritten(file: Path, error: Exception) -> TraceError:
    """Of a full disk DuckDB has the number of the error alone to tell, in JSON."""
    number = re.search(r'"errno":"(\d{1,9})"', str(error))
    return TraceError(f"{file}: cannot be written: {os.strerror(int(number[1])) if number else first_line(error)}")


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def source_of(table: Table, files: Sequence[Path], written: Iterable[str]) -> str:
    """FROM item over part files in order; columns newer than the files are NULL."""
    if not files:
        return "(SELECT " + ", ".join(f"NULL::{c.type} AS {c.name}" for c in table.columns) + " WHERE false)"
    has = set(written)
    exprs = (c.name if c.name in has else f"NULL::{c.type} AS {c.name}" for c in table.columns)
    return f"(SELECT {', '.join(exprs)} FROM read_parquet([{', '.join(literal(f) for f in files)}]))"


def create_view(con: duckdb.DuckDBPyConnection, name: str, source: str) -> None:
    import duckdb

    try:
        con.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM {source}").fetchall()
    except duckdb.Error as error:
        raise TraceError(f"{first_line(error)}; table {name} is damaged: make it again") from error
