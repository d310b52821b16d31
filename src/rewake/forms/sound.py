# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the tables of a recording fit together: what their readers take for granted and index with.

Told from the statistics that Parquet files end with; only columns without any are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewake.errors import TraceError
from rewake.forms.parquet import connect, first_line, literal
from rewake.forms.tables import ENUMS, Column, Table

if TYPE_CHECKING:
    import duckdb

_TASKS = ("task", "prev_task", "next_task", "curr_task", "child", "waker_task")
"""Columns of events and decisions that hold a task_id."""

_ATTRIBUTES = {"task_id": ("task", "tasks"), "comm": ("comm", "names"), "cgroup": ("cgroup", "cgroups")}
"""Columns of task_attr that hold a number of another table, and what that has."""

_LISTS = {"task_attr": "allowed", "domain": "span"}
"""Columns of CPUs in kernel list form: readers make sets of them."""
_LIST = "[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*"

Range = tuple[int, int]
_AGAIN = "import the trace again"

_STATISTICS = """
SELECT path_in_schema,
    min(try_cast(stats_min_value AS HUGEINT)), max(try_cast(stats_max_value AS HUGEINT)),
    sum(row_group_num_rows)::BIGINT, count_if(stats_max_value IS NULL AND coalesce(stats_null_count, 0) < num_values)
FROM parquet_metadata({file}) GROUP BY path_in_schema
"""


def check(table: Table, files: Sequence[Path], rows: Sequence[int], first: int, bound: Callable[[str], int]) -> None:
    """TraceError where a table's files are not of so many `rows`, or hold what no recording can hold.

    `first`: decision_id of the first decision; `bound("task")`, `bound("cpu")`, `bound("comm")`, `bound("cgroup")`:
    how many tasks, CPUs, names and cgroups there are; 0: none is listed, and none is asked for.
    """
    con = connect()
    try:
        for file, n in zip(files, rows, strict=True):
            found = _ranges(con, table, file, n)
            for column in table.columns:
                if (span := found.get(column.name)) is not None and (told := _misfit(table, column, span, bound)):
                    raise _damage(file, told)
            if name := _LISTS.get(table.name):
                odd = f"WHERE NOT regexp_full_match({name}, '{_LIST}')"
                text = _ask(con, f"SELECT min({name}) FROM read_parquet({_one(file)}) {odd}")[0][0]
                if text is not None:
                    raise _damage(file, f"{name}: {text[:40]!r} is not a list of CPUs")
            if table.name == "decision":
                _dense(file, "decision_id", found, first, n)
                first += n
            if table.name == "task":
                _dense(file, "task_id", found, 0, n)
                each = _ask(con, f"SELECT count(DISTINCT task_id) FROM read_parquet({_one(file)})")[0][0]
                if each != n:
                    raise _damage(file, f"{n:,} tasks with {each:,} task_ids")
    finally:
        con.close()


def counted(files: Sequence[tuple[Path, int]], remedy: str) -> None:
    """TraceError where a file cannot be read or has not so many rows."""
    con = connect()
    try:
        for file, rows in files:
            found = _ask(con, f"SELECT num_rows FROM parquet_file_metadata({_one(file)})", remedy)[0][0]
            if found != rows:
                raise _damage(file, f"{found:,} rows, {rows:,} in the manifest", remedy)
    finally:
        con.close()


def largest(table: Table, column: str, file: Path, rows: int) -> int:
    """The largest value of a column; -1 without any."""
    con = connect()
    try:
        return _ranges(con, table, file, rows).get(column, (0, -1))[1]
    finally:
        con.close()


def _one(file: Path) -> str:
    """The file for DuckDB, which takes a list of one for a name and a name for a pattern."""
    return f"[{literal(file)}]"


def _ranges(con: duckdb.DuckDBPyConnection, table: Table, file: Path, rows: int) -> dict[str, Range]:
    """The least and the largest value of each column of whole numbers that has any."""
    wanted = {c.name for c in table.columns if c.type.endswith(("INT", "INTEGER"))}
    found: dict[str, Range] = {}
    for name, low, high, n, unknown in _ask(con, _STATISTICS.format(file=_one(file))):
        if n != rows:
            raise _damage(file, f"{n:,} rows, {rows:,} in the manifest")
        if name in wanted and unknown:
            low, high = _ask(con, f"SELECT min({name}), max({name}) FROM read_parquet({_one(file)})")[0]
        if name in wanted and low is not None and high is not None:
            found[name] = (int(low), int(high))
    return found


def _ask(con: duckdb.DuckDBPyConnection, query: str, remedy: str = _AGAIN) -> list[tuple[Any, ...]]:
    import duckdb

    try:
        return con.execute(query).fetchall()
    except duckdb.Error as error:
        raise TraceError(f"{first_line(error)}; the file is damaged: {remedy}") from error


def _misfit(table: Table, column: Column, span: Range, bound: Callable[[str], int]) -> str | None:
    """What a column holds that its readers have no place for."""
    if column.enum:
        most, what = len(ENUMS[column.enum]), "codes are known"
    elif table.parts and column.name in _TASKS:
        most, what = bound("task"), "tasks are in the recording"
    elif table.name == "task_attr" and (of := _ATTRIBUTES.get(column.name)):
        most, what = bound(of[0]), f"{of[1]} are in the recording"
    elif table.parts and (column.name == "cpu" or column.name.endswith("_cpu")):
        most, what = bound("cpu"), "CPUs are in the recording"
    else:
        return None
    return f"{column.name}: {span[1]:,}, and {most:,} {what}" if span[0] < 0 or span[1] >= most > 0 else None


def _dense(file: Path, name: str, found: dict[str, Range], first: int, rows: int) -> None:
    low, high = found.get(name, (first, first + rows - 1))
    if (low, high) != (first, first + rows - 1):
        raise _damage(file, f"{name}: {low:,} to {high:,}, {first:,} to {first + rows - 1:,} expected")


def _damage(file: Path, what: str, remedy: str = _AGAIN) -> TraceError:
    return TraceError(f"{file}: damaged ({what}): {remedy}")
