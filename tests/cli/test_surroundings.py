# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line where its surroundings are odd: pipes that close, no standard output, Ctrl-C, no home, odd names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import told

import rewake
from rewake.cli import _answers, main
from rewake.errors import EXIT_INTERRUPTED, EXIT_QUALITY, EXIT_USAGE, UsageError

FIXTURE = Path(__file__).parents[2] / "fixtures" / "12cpu-buddy-hackbench" / "trace.dat"
PROGRAM = [sys.executable, "-m", "rewake.cli"]


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that is too short for the quality card."""
    path = tmp_path_factory.mktemp("short") / "short.rewake"
    assert main(["slice", str(FIXTURE), "--window", "..10ms", "-o", str(path)]) == 0
    return path


def test_a_reader_that_leaves_does_not_turn_the_verdict(refused: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*PROGRAM, "check", refused], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == EXIT_QUALITY and done.stderr.startswith("rewake: error: the quality card refuses")
    assert done.stderr.count("\n") == 1


def test_standard_streams_that_are_closed() -> None:
    for closed, code in ((">&-", 0), ("2>&-", 0), (">&- 2>&-", 0)):
        line = f"{sys.executable} -m rewake.cli policies list {closed}"
        assert subprocess.run(line, shell=True, capture_output=True, check=False).returncode == code


def test_an_encoding_without_arrows(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1", "XDG_CACHE_HOME": str(tmp_path)}
    asked = [*PROGRAM, "replay", FIXTURE, "--policy", "oracle-idle"]
    done = subprocess.run(asked, capture_output=True, env=environment, check=False)
    assert done.returncode == 0 and b"\\u2190" in done.stdout


def test_ctrl_c_in_a_query_is_no_bug(refused: Path) -> None:
    sql = "SELECT sum(a.range * b.range) FROM range(3000000) a, range(300000) b"
    child = subprocess.Popen([*PROGRAM, "query", refused, sql], stderr=subprocess.PIPE, text=True)
    for _ in range(600):  # until DuckDB is at it
        time.sleep(0.1)
        ticks = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        if int(ticks[11]) > 2.0 * os.sysconf("SC_CLK_TCK"):
            break
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (EXIT_INTERRUPTED, "rewake: interrupted\n")


def test_a_name_that_is_not_utf8(capsys: pytest.CaptureFixture[str]) -> None:
    assert "a name that is not UTF-8" in told(capsys, "info", os.fsdecode(b"t\xff.dat"), code=EXIT_USAGE)


def test_a_temporary_directory_whose_name_is_not_utf8(refused: Path, tmp_path: Path) -> None:
    (odd := tmp_path / os.fsdecode(b"t\xff")).mkdir()
    asked = [*PROGRAM, "query", refused, "SELECT 1", "--format", "parquet"]
    done = subprocess.run(asked, capture_output=True, env={**os.environ, "TMPDIR": str(odd)}, check=False)
    assert done.returncode == EXIT_USAGE and b"t\\xff/rewake-spill-" in done.stderr
    assert b": a name that is not UTF-8" in done.stderr


def test_a_path_to_type_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/some home")
    assert _answers.path_shown(tmp_path / "a b" / "t.dat") == "'a b/t.dat'"
    assert _answers.path_shown(Path("/some home/a b.run")) == "~/'a b.run'"
    assert _answers.path_shown(Path("/some home/a.run")) == "~/a.run"
    monkeypatch.setattr(Path, "home", _nowhere)
    assert _answers.path_shown(Path("a.run")) == "a.run"


def _nowhere() -> Path:
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.parametrize(
    "asked", ["fidelity x --min-skill nan", "simulate x --move-cost inf", "compare x y --floor nan"]
)
def test_a_limit_is_a_number(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is no finite number" in told(capsys, *asked.split(), code=EXIT_USAGE)


@pytest.mark.parametrize("sql", ["", " ", ";"])
def test_no_question(sql: str, refused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "query: no SQL in it" in told(capsys, "query", refused, sql, code=EXIT_USAGE)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT 1; SELECT 2", "2 statements, not one question"),
        ("DROP VIEW decision", "not a question"),
        ("COPY decision TO 'x.csv'", "not a question"),
        ("EXPLAIN ANALYZE COPY decision TO 'x.csv'", "not a question"),
        ("/* */ EXPLAIN (ANALYZE, FORMAT json) -- a\nCOPY decision TO 'x.csv'", "not a question"),
        ("COPY (PIVOT decision ON kind USING count(*)) TO 'x.csv'", "not a question"),
    ],
)
def test_what_does_not_only_ask(
    sql: str,
    why: str,
    refused: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"query: {why}" in told(capsys, "query", refused, sql, code=EXIT_USAGE)
    with pytest.raises(UsageError, match=f"query: {why}"):
        rewake.open(refused).sql(sql)
    assert not list(tmp_path.glob("*.csv"))


@pytest.mark.parametrize(
    "sql", ["SHOW TABLES", "/* a */ EXPLAIN ANALYZE SELECT 1;", "EXPLAIN (FORMAT json) SELECT 1", "TABLE cpu; -- all",
            "( PIVOT (SELECT 1 AS a) ON a USING count(*) )", "pivot (SELECT 1 AS a) ON a USING count(*)"]
)  # fmt: skip
def test_what_only_asks(sql: str, refused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "query", refused, sql)
    assert rewake.open(refused).sql(sql).fetchall()


def test_a_report_of_a_refused_recording_is_refused(
    refused: Path, tmp_path: Path, own_cache: None, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, "replay", refused, "--policy", "prev", "--force", "-o", tmp_path / "a.run")
    assert "one-step" in told(capsys, "report", tmp_path / "a.run", "--min-skill", "2", code=EXIT_QUALITY)
    told(capsys, "report", tmp_path / "a.run", "--force")
