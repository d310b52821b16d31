# SPDX-License-Identifier: GPL-2.0-or-later
"""The catalogue of queries: `queries/<topic>/<question>.sql`, each with its contract in the header comment, and the
macros and views that they share.

A query is read once, its header parsed (question, definition, units, required tables, one line per output column), and
run on a connection that `prepare` has made ready. Numbers are computed there and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import duckdb

from rewake.errors import RewakeError, UsageError
from rewake.forms import ENUMS, FAIR_CLASSES, INPUTS, OUTCOMES

_FIELD = re.compile(r"^(Question|Definition|Units|Requires|Columns): ?(.*)$")
_NAME = re.compile(r"[a-z0-9_]+/[a-z0-9_]+")
_SPACE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_EXPLAIN = re.compile(rf"{_SPACE}EXPLAIN\b(?:{_SPACE}ANALYZE\b|{_SPACE}\([^)]*\))?", re.IGNORECASE | re.DOTALL)
_PIVOT = re.compile(rf"{_SPACE}(?:\(|(?:PIVOT|PIVOT_WIDER|FROM|SELECT|WITH)\b)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Query:
    """One question: its contract and its text."""

    name: str
    question: str
    definition: str
    units: str
    requires: tuple[str, ...]
    columns: dict[str, str]
    sql: str


@dataclass(frozen=True)
class Rows:
    """The answer to a query: column names and the rows in order."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    types: tuple[str, ...] = field(default=(), compare=False)

    def dicts(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def _parse(name: str, text: str) -> Query:
    fields: dict[str, list[str]] = {}
    current = ""
    for line in text.splitlines():
        if not line.startswith("--"):
            break
        body = line[2:].strip()
        if match := _FIELD.match(body):
            current = match[1]
            fields[current] = [match[2]] if match[2] else []
        elif current and body:
            fields[current].append(body)
    columns = {}
    for line in fields.get("Columns", []):
        column, _, meaning = line.partition(":")
        columns[column.strip()] = meaning.strip()

    def joined(key: str) -> str:
        return " ".join(fields.get(key, []))

    return Query(
        name,
        joined("Question"),
        joined("Definition"),
        joined("Units"),
        tuple(joined("Requires").split()),
        columns,
        text,
    )


@cache
def catalogue() -> dict[str, Query]:
    """All queries by name (`topic/question`), in name order."""
    found = {}
    for topic in files("rewake").joinpath("queries").iterdir():
        if topic.is_dir():
            for item in topic.iterdir():
                if item.name.endswith(".sql"):
                    name = f"{topic.name}/{item.name.removesuffix('.sql')}"
                    found[name] = _parse(name, item.read_text(encoding="utf-8"))
    return dict(sorted(found.items()))


@cache
def shared(name: str) -> str:
    """The text of `queries/NAME`, which is no question of its own."""
    return files("rewake").joinpath("queries", name).read_text(encoding="utf-8")


def _literals(words: Iterable[str]) -> str:
    return "[" + ", ".join("'" + w.replace("'", "''") + "'" for w in words) + "]"


def _name_macros() -> str:
    """`NAME_of(code)` gives the word, `code_NAME(word)` the code, for every enumeration of the forms; bits by name."""
    out = []
    for name, words in ENUMS.items():
        listed = _literals(words)
        out.append(
            f"CREATE OR REPLACE TEMP MACRO {name}_of(code) AS list_extract({listed}, CAST(code AS INTEGER) + 1);"
        )
        out.append(f"CREATE OR REPLACE TEMP MACRO code_{name}(word) AS list_position({listed}, word) - 1;")
    for name, words in (("has_outcome", OUTCOMES), ("has_input", INPUTS)):
        out.append(
            f"CREATE OR REPLACE TEMP MACRO {name}(bits, word) AS "
            f"(CAST(bits AS BIGINT) >> CAST(list_position({_literals(words)}, word) - 1 AS BIGINT)) & 1 = 1;"
        )
    out.append(f"CREATE OR REPLACE TEMP MACRO all_inputs() AS {_literals(INPUTS)};")
    codes = ", ".join(str(ENUMS["decision_class"].index(c)) for c in FAIR_CLASSES)
    out.append(f"CREATE OR REPLACE TEMP MACRO is_fair(class) AS class IN ({codes});")
    return "\n".join(out)


def tables(con: duckdb.DuckDBPyConnection) -> set[str]:
    """Names of the tables and views that the connection offers."""
    return {row[0] for row in con.execute("SELECT table_name FROM information_schema.tables").fetchall()}


def prepare(con: duckdb.DuckDBPyConnection, branches: dict[str, Sequence[str]] | None = None) -> None:
    """Makes a connection to a recording or a run ready for the queries; `branches`: policy instance -> names by code.

    With shards present (a fleet store), the tables of queries/fleet.sql are there as well. With a ledger, so are the
    table `branch` (policy, code, name) and the views of queries/population.sql (the population of the metrics).
    """
    con.execute(_name_macros())
    con.execute(shared("prelude.sql"))
    there = tables(con)
    if "shard" in there:
        con.execute(shared("fleet.sql"))
    if "ledger" not in there:
        return
    con.execute("CREATE OR REPLACE TEMP TABLE branch (policy VARCHAR, code UTINYINT, name VARCHAR)")
    named = [(policy, code, name) for policy, names in (branches or {}).items() for code, name in enumerate(names)]
    if named:
        columns = [list(column) for column in zip(*named, strict=True)]
        con.execute(
            "INSERT INTO branch SELECT unnest(?::VARCHAR[]), unnest(?::INTEGER[]), unnest(?::VARCHAR[])", columns
        )
    con.execute(shared("population.sql"))


def settle(con: duckdb.DuckDBPyConnection, view: str = "tallied") -> None:
    """Works out a view of queries/population.sql once, for all queries of a prepared connection that follow."""
    con.execute(f"CREATE TEMP TABLE settled_{view} AS FROM {view}")
    con.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS FROM settled_{view}")


def run(con: duckdb.DuckDBPyConnection, name: str) -> Rows:
    """Answers the catalogue's query `name` on a prepared connection."""
    return _execute(con, named(con, name).sql)


def named(con: duckdb.DuckDBPyConnection, name: str) -> Query:
    """The catalogue's query `name`. UsageError where there is none, or where it is not for what `con` shows."""
    query = catalogue().get(name)
    if query is None:
        raise UsageError(f"no query named {name}; `rewake query --list` shows what exists")
    missing = set(query.requires) - tables(con)
    for table, needed in (
        ("shard", "a fleet store (what `rewake fleet run` fills)"),
        ("ledger", "a run (what `rewake replay -o` writes)"),
        ("arm", "a simulation (what `rewake simulate -o` writes)"),
        ("trial", "what `rewake fidelity --identify` counts"),
    ):
        if table in missing:
            raise UsageError(f"query {name} needs {needed}")
    if missing:
        raise UsageError(f"query {name} needs a recording with {', '.join(sorted(missing))}")
    return query


def run_text(con: duckdb.DuckDBPyConnection, text: str) -> Rows:
    """Answers a catalogue name or SQL text."""
    if _NAME.fullmatch(text.strip()):
        return run(con, text.strip())
    require_question(text)
    return _execute(con, text)


def require_question(text: str) -> None:
    """UsageError unless SQL text is one statement that only asks: of several, DuckDB would show the last answer alone,
    and others change the views or write files."""
    kinds = duckdb.StatementType
    try:
        text.encode()
        found = duckdb.extract_statements(text)
    except UnicodeEncodeError:
        raise UsageError("query: the SQL is not UTF-8") from None
    except duckdb.Error:  # who runs it tells
        return
    if len(found) != 1:
        what = f"{len(found)} statements, not one question: ask them one by one" if found else "no SQL in it"
        raise UsageError(f"query: {what}")
    kind = found[0].type
    if kind == kinds.EXPLAIN and (explains := _EXPLAIN.match(text)):  # with ANALYZE it does what it explains
        require_question(text[explains.end() :])
    elif kind != kinds.SELECT and not (kind == kinds.MULTI and _PIVOT.match(text)):  # MULTI: all that has a PIVOT in it
        raise UsageError("query: not a question (SELECT, FROM, DESCRIBE ...)")


_MISPUT = (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)
"""No SQL, or it names what is not there: told before anything is read."""


def _execute(con: duckdb.DuckDBPyConnection, sql: str) -> Rows:
    try:
        cursor = con.execute(sql)
        described = cursor.description or []
        rows = cursor.fetchall() if described else []
    except duckdb.Error as error:
        kind = UsageError if isinstance(error, _MISPUT) else RewakeError
        raise kind(f"query: {str(error).splitlines()[0]}") from None
    return Rows(tuple(d[0] for d in described), rows, tuple(str(d[1]) for d in described))
