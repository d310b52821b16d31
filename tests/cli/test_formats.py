# SPDX-License-Identifier: GPL-2.0-or-later
"""Every format of a report and of a query: the JSON against its schema, markdown and Parquet against the rest."""

from __future__ import annotations

import csv
import io
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import bigrun
import command
import duckdb
import pytest

from rewake.analysis import metrics, sql
from rewake.cli import main
from rewake.errors import EXIT_USAGE

NAMES = ("recorded", "prev", "linux-6.1", "a|b", "</script>", "=cmd()", "*x* [y](z) @all #1", "\x1b[2J")
SCHEMA = json.loads(files("rewake.analysis").joinpath("report.schema.json").read_text())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("formats")
    return bigrun.run(folder / "p.run", bigrun.recording(folder / "r.rewake", 2000), NAMES).path


def told(capfdbinary: Any, *arguments: object) -> bytes:
    assert main([str(a) for a in arguments]) == 0
    return bytes(capfdbinary.readouterr().out)


def change(path: Path, **values: Any) -> None:
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_json_keeps_its_schema(run: Path, tmp_path: Path, capfdbinary: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    check = jsonschema.Draft202012Validator(SCHEMA)
    check.check_schema(SCHEMA)
    document = json.loads(told(capfdbinary, "report", run, "--format", "json"))
    check.validate(document)
    for wrong in ({"decisions": 1}, {"kind": "query"}, {"policies": [{"policy": "x"}]}):
        assert not check.is_valid(document | wrong)
    recording = bigrun.recording(tmp_path / "r.rewake", 5)  # too few for anything, and no kernel's column
    bigrun.run(tmp_path / "p.run", recording, ["prev"])
    change(tmp_path / "p.run", refusals={"auto": "no column"})
    document = json.loads(told(capfdbinary, "report", tmp_path / "p.run", "--force", "--format", "json"))
    check.validate(document)
    assert document["fidelity"] is None and document["quality"]["ok"] is False


def test_the_schema_describes_every_figure(capfdbinary: Any) -> None:
    described = SCHEMA["properties"]["policies"]["items"]["properties"]
    for name in metrics.PER_POLICY:
        for column, meaning in sql.catalogue()[name].columns.items():
            assert column == "policy" or described[column]["description"]
            assert column in ("policy", "decisions") or meaning
    assert json.loads(told(capfdbinary, "report", "--json-schema")) == SCHEMA


def test_what_has_one_form_takes_no_other(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--format json printed the name of the page, or the script."""
    page = tmp_path / "page.html"
    for asked in (
        ("report", run, "--html", page),
        ("fleet", "report", run, "--html", page),
        ("record", "--emit-script"),
    ):
        for form in ("json", "table"):
            assert "has one form, leave --format out" in command.told(capsys, *asked, "--format", form, code=EXIT_USAGE)
    assert not page.exists()


def test_a_run_has_its_topology(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = command.told(capsys, "query", run, "SELECT 1", "--topology", "core:2 pu:1", code=EXIT_USAGE)
    assert "was made with its topology: give --topology with the trace" in asked


def test_parquet_is_the_csv_with_types(run: Path, capfdbinary: Any, tmp_path: Path) -> None:
    file = tmp_path / "r.parquet"
    file.write_bytes(told(capfdbinary, "report", run, "--format", "parquet"))
    table = duckdb.sql(f"FROM '{file}'")
    text = told(capfdbinary, "report", run, "--format", "csv").decode()
    lines = list(csv.reader(io.StringIO(text)))
    assert table.columns == lines[0]
    types = dict(zip(table.columns, map(str, table.types), strict=True))
    assert [types[n] for n in ("policy", "reference", "would_move", "skill", "p99_hi_ns", "biased_from")] == [
        "VARCHAR", "BOOLEAN", "BIGINT", "DOUBLE", "BIGINT", "DOUBLE",
    ]  # fmt: skip
    rows = table.fetchall()
    assert [row[2] for row in rows] == list(NAMES), "names as they are: Parquet runs nothing"
    for row, line in zip(rows, lines[1:], strict=True):
        for value, cell in zip(row, line, strict=True):
            assert isinstance(value, str | bool) or (float(cell) == value if cell else value is None)


def unescaped(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line))


def test_markdown_is_one_table_whatever_the_names(run: Path, capfdbinary: Any) -> None:
    text = told(capfdbinary, "report", run, "--format", "markdown").decode()
    lines = text.splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(NAMES)
    assert {unescaped(line) for line in table} == {12}
    assert "<script" not in text and "</script" not in text and "\x1b" not in text
    assert "**Fidelity** of linux-6.1: agreement 97." in text
    assert lines.index(table[0]) > next(i for i, line in enumerate(lines) if "quality ok" in line)


def test_a_query_in_markdown_and_parquet(run: Path, capfdbinary: Any, tmp_path: Path) -> None:
    question = (
        "SELECT policy, count(*) AS n, NULL AS nothing, [1, 2] AS list FROM ledger GROUP BY policy ORDER BY policy"
    )
    text = told(capfdbinary, "query", run, question, "--format", "markdown").decode()
    assert len(text.splitlines()) == 2 + len(NAMES)
    assert {unescaped(line) for line in text.splitlines()} == {5}
    file = tmp_path / "q.parquet"
    file.write_bytes(told(capfdbinary, "query", run, question, "--format", "parquet"))
    assert duckdb.sql(f"FROM '{file}'").fetchall() == [(n, 2000, None, [1, 2]) for n in sorted(NAMES)]
    file.write_bytes(told(capfdbinary, "query", run, "SELECT 1 AS a WHERE false", "--format", "parquet"))
    assert duckdb.sql(f"FROM '{file}'").fetchall() == []
    file.write_bytes(told(capfdbinary, "query", run, "SELECT 1 AS a, 2 AS a", "--format", "parquet"))
    assert duckdb.sql(f"FROM '{file}'").columns == ["a", "a_1"], "Parquet has one column of a name"
    listed = told(capfdbinary, "query", "--list", "--format", "markdown").decode().splitlines()
    assert len(listed) == 2 + len(sql.catalogue())
