# SPDX-License-Identifier: GPL-2.0-or-later
"""Recording and run on disk: what is written comes back, whole or not at all, the same bytes every time."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewake import forms
from rewake.analysis import summary
from rewake.errors import TraceError, UsageError

Columns = forms.Columns


def random_columns(table: forms.Table, rows: int, seed: int) -> Columns:
    """Full-range values of every type, NULLs where the table allows them."""
    rng = np.random.default_rng(seed)
    columns: Columns = {}
    for column in table.columns:
        dtype = forms.dtype_of(column)
        values: np.ndarray[Any, Any]
        if dtype.kind == "O":
            values = np.array([f"n{i}é'\"\n" for i in rng.integers(0, 9, rows)], dtype=object)
        elif dtype.kind == "b":
            values = rng.integers(0, 2, rows).astype(np.bool_)
        else:
            limit = np.iinfo(dtype)
            values = rng.integers(limit.min, limit.max, rows, dtype=dtype, endpoint=True)
        columns[column.name] = (values, rng.integers(0, 2, rows).astype(np.bool_)) if column.nullable else values
    return columns


def assert_same(got: Columns, want: Columns, table: forms.Table) -> None:
    for column in table.columns:
        g, w = got[column.name], want[column.name]
        gv, gn = g if isinstance(g, tuple) else (g, np.zeros(len(g), np.bool_))
        wv, wn = w if isinstance(w, tuple) else (w, np.zeros(len(w), np.bool_))
        assert gv.dtype == forms.dtype_of(column), column.name
        np.testing.assert_array_equal(gn, wn, err_msg=column.name)
        np.testing.assert_array_equal(gv[~gn], wv[~wn], err_msg=column.name)


def fitting(table: forms.Table, columns: Columns, first: int) -> Columns:
    """The same with codes, tasks and CPUs that there are, and with dense numbers from `first` on."""
    out: Columns = {}
    for column in table.columns:
        given = columns[column.name]
        values, null = given if isinstance(given, tuple) else (given, None)
        dense = (("cpu", "cpu"), ("comm", "id"), ("cgroup", "cgroup_id"))
        if column.name in ("task_id", "decision_id") or (table.name, column.name) in dense:
            values = np.arange(first, first + len(values)).astype(values.dtype)
        elif column.enum:
            values = (values % len(forms.ENUMS[column.enum])).astype(values.dtype)
        elif column.name.endswith(("task", "child", "cpu", "comm", "cgroup")):
            values = values % len(values)
        elif column.name in ("allowed", "span"):
            values = np.array([f"0-{i},9999" for i in range(len(values))], dtype=object)
        out[column.name] = values if null is None else (values, null)
    return out


def small(path: Path, parts: int = 2, rows: int = 50, threads: int = 2) -> dict[str, list[Columns]]:
    """A recording with every table filled; the columns that went in."""
    given_columns: dict[str, list[Columns]] = {}
    with forms.RecordingWriter(path, threads) as writer:
        for n, table in enumerate(forms.RECORDING_TABLES.values()):
            for part in range(parts if table.parts else 1):
                columns = fitting(table, random_columns(table, rows, 100 * n + part), part * rows)
                given_columns.setdefault(table.name, []).append(columns)
                if table.parts:
                    writer.write_part(table.name, part, columns)
                else:
                    writer.write(table.name, columns)
        writer.manifest["id"] = "abc"
        writer.put_file("topology.xml", b"<topology/>")
        writer.commit()
    return given_columns


@pytest.mark.parametrize("name", sorted(forms.TABLES))
def test_every_table_declares_what_duckdb_and_numpy_understand(name: str) -> None:
    table = forms.TABLES[name]
    assert len(set(table.names)) == len(table.names)
    for column in table.columns:
        assert column.meaning
        assert column.enum == "" or column.enum in forms.ENUMS
        assert column.name.endswith("_ns") == (column.unit == "ns")
        forms.dtype_of(column)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    wrote = small(tmp_path / "a.rewake")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.rewake"]
    recording = forms.Recording(tmp_path / "a.rewake")
    assert recording.n_parts == 2
    assert recording.manifest["id"] == "abc"
    assert (recording.path / "topology.xml").read_bytes() == b"<topology/>"
    con = recording.connect()
    for name, parts in wrote.items():
        table = forms.TABLES[name]
        assert recording.rows(name) == 50 * len(parts)
        for index, columns in enumerate(parts):
            assert_same(recording.read_part(name, index) if table.parts else recording.read(name), columns, table)
        assert con.execute(f"SELECT count(*) FROM {name}").fetchall() == [(50 * len(parts),)]
        whole = recording.read(name, [table.names[0]])
        first = [c[table.names[0]] for c in parts]
        np.testing.assert_array_equal(whole[table.names[0]], np.concatenate(first))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.integers(0, 2**16 - 1),
            st.none() | st.integers(0, 2**32 - 1),
            st.none() | st.integers(-(2**63), 2**63 - 1),
        ),
        max_size=30,
    )
)
def test_nulls_and_extremes_survive(tmp_path: Path, rows: list[tuple[int, int, int | None, int | None]]) -> None:
    def nullable(values: list[int | None], dtype: Any) -> tuple[Any, Any]:
        return np.array([v or 0 for v in values], dtype), np.array([v is None for v in values], bool)

    columns: Columns = {
        "id": np.arange(len(rows), dtype=np.int64),
        "ts_ns": np.array([r[0] for r in rows], np.int64),
        "cpu": np.array([r[1] for r in rows], np.uint16),
        "idle_cpu": np.array([r[1] for r in rows], np.uint16),
        "state": nullable([r[2] for r in rows], np.uint32),
    }
    loss: Columns = {k: columns[k] for k in ("id", "ts_ns", "cpu")} | {"lost": nullable([r[3] for r in rows], np.int64)}
    with forms.RecordingWriter(tmp_path / "h.rewake") as writer:
        writer.write_part("idle", 0, columns)
        writer.write_part("loss", 0, loss)
        assert_same(writer.read_part("idle", 0), columns, forms.TABLES["idle"])
        assert_same(writer.read_part("loss", 0), loss, forms.TABLES["loss"])


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20), max_size=10))
def test_any_text_survives(tmp_path: Path, names: list[str]) -> None:
    columns: Columns = {"id": np.arange(len(names), dtype=np.uint32), "name": np.array(names, dtype=object)}
    with forms.RecordingWriter(tmp_path / "t.rewake") as writer:
        writer.write("comm", columns)
        assert list(writer.read("comm")["name"]) == names


def test_same_input_same_bytes_at_any_thread_count(tmp_path: Path) -> None:
    for threads in (1, 2, 4):
        with forms.RecordingWriter(tmp_path / f"{threads}.rewake", threads) as writer:
            for name in ("switch", "loss", "decision"):  # more rows than a row group, so that threads share the work
                writer.write_part(name, 0, random_columns(forms.TABLES[name], 300_000, 1))
            writer.write("task_attr", random_columns(forms.TABLES["task_attr"], 50, 1))
            writer.commit()
    one = {p.relative_to(tmp_path / "1.rewake"): p.read_bytes() for p in (tmp_path / "1.rewake").rglob("*.*")}
    assert len(one) == 5
    for threads in (2, 4):
        other = tmp_path / f"{threads}.rewake"
        assert {p.relative_to(other): p.read_bytes() for p in other.rglob("*.*")} == one


def test_what_stands_under_a_null_does_not_reach_the_file(tmp_path: Path) -> None:
    files = []
    for garbage in (7, 9):
        with forms.RecordingWriter(tmp_path / f"{garbage}.rewake") as writer:
            null = np.array([True, False])
            writer.write_part(
                "loss", 0, {
                    "id": np.arange(2), "ts_ns": np.arange(2), "cpu": np.zeros(2, np.uint16),
                    "lost": (np.array([garbage, 1]), null),
                },
            )  # fmt: skip
            writer.commit()
        files.append((tmp_path / f"{garbage}.rewake" / "loss" / "000000.parquet").read_bytes())
    assert files[0] == files[1]


def test_a_missing_table_and_an_empty_part_read_as_no_rows(tmp_path: Path) -> None:
    with forms.RecordingWriter(tmp_path / "e.rewake") as writer:
        writer.write_part("exit", 1, random_columns(forms.TABLES["exit"], 3, 1))
        writer.commit()
    recording = forms.Recording(tmp_path / "e.rewake")
    assert recording.n_parts == 2
    assert recording.read_part("exit", 0)["prio"].dtype == np.int16  # type: ignore[union-attr]
    assert len(recording.read_part("switch", 1)["id"]) == 0
    assert len(recording.read("decision")["decision_id"]) == 0
    con = recording.connect()
    assert con.execute("SELECT count(*) FROM exit").fetchall() == [(3,)]
    assert con.execute("SELECT * FROM probe").fetchall() == []
    with pytest.raises(ValueError, match="no part 2"):
        recording.read_part("exit", 2)


def test_what_stands_under_a_null_need_not_fit(tmp_path: Path) -> None:
    null = np.array([True, False])
    cpu: Columns = {c.name: (np.array([-1, 3]), null) for c in forms.TABLES["cpu"].columns[1:]}
    with forms.RecordingWriter(tmp_path / "n.rewake") as writer:
        writer.write("cpu", cpu | {"cpu": np.array([0, 1], np.uint16)})
        assert forms.TABLES["cpu"].names == tuple(writer.read("cpu"))
        values, absent = writer.read("cpu")["llc"]
        assert (values[1], list(absent)) == (3, [True, False])
    with forms.RunWriter(tmp_path / "n.run") as run:
        run.write_ledger("prev", 0, {"cpu": (np.array([-1, 3]), null)})


BAD: list[tuple[str, Columns, str]] = [
    ("comm", {"id": np.array([1]), "name": np.array(["a"], object), "x": np.array([1])}, "no column x"),
    ("comm", {"id": np.array([1])}, "comm.name is missing"),
    ("comm", {"id": np.array([1, 2]), "name": np.array(["a"], object)}, "1 rows"),
    ("comm", {"id": np.array([-1]), "name": np.array(["a"], object)}, "out of the range"),
    ("comm", {"id": np.array([1.5]), "name": np.array(["a"], object)}, "float64 given"),
    ("comm", {"id": np.array([1]), "name": np.array([None], object)}, "may not be NULL"),
    ("comm", {"id": (np.array([1]), np.array([True])), "name": np.array(["a"], object)}, "may not be NULL"),
]


@pytest.mark.parametrize(("table", "columns", "message"), BAD)
def test_columns_that_do_not_fit_the_declaration_are_refused(
    tmp_path: Path, table: str, columns: Columns, message: str
) -> None:
    with forms.RecordingWriter(tmp_path / "b.rewake") as writer, pytest.raises(ValueError, match=message):
        writer.write(table, columns)


def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), forms.RecordingWriter(tmp_path / "x.rewake") as writer:
        writer.write_part("exit", 0, random_columns(forms.TABLES["exit"], 3, 1))
        raise RuntimeError
    with forms.RecordingWriter(tmp_path / "x.rewake") as writer:
        writer.write_part("exit", 0, random_columns(forms.TABLES["exit"], 3, 1))
    assert list(tmp_path.iterdir()) == []


def test_an_error_keeps_the_recording_that_was_there(tmp_path: Path) -> None:
    small(tmp_path / "k.rewake")
    with pytest.raises(RuntimeError), forms.RecordingWriter(tmp_path / "k.rewake") as writer:
        writer.write("comm", random_columns(forms.TABLES["comm"], 1, 1))
        raise RuntimeError
    assert forms.Recording(tmp_path / "k.rewake").rows("comm") == 50
    with forms.RecordingWriter(tmp_path / "k.rewake") as writer:
        writer.write("comm", random_columns(forms.TABLES["comm"], 1, 1))
        writer.commit()
    assert forms.Recording(tmp_path / "k.rewake").rows("comm") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["k.rewake"]


@pytest.mark.parametrize("finished", [False, True])
def test_what_a_killed_writer_left_is_cleared(tmp_path: Path, finished: bool) -> None:
    part = tmp_path / "x.rewake.part"
    with forms.RecordingWriter(tmp_path / "x.rewake") as writer:
        writer.write_part("switch", 9, random_columns(forms.TABLES["switch"], 3, 1))
        if finished:  # killed just before the directory gets its name
            (part / "manifest.json").write_text('{"format": "rewake-recording"}')
            (part / ".rewake-part").unlink()
        copy = shutil.copytree(part, tmp_path / "copy")
    copy.rename(part)
    small(tmp_path / "x.rewake")
    assert [p.name for p in tmp_path.iterdir()] == ["x.rewake"]
    assert not (tmp_path / "x.rewake" / "switch" / "000009.parquet").exists()
    assert not (tmp_path / "x.rewake" / ".rewake-part").exists()


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    part = tmp_path / "x.rewake.part"
    part.mkdir()
    (part / "thesis.txt").write_text("precious")
    with pytest.raises(UsageError, match="not of rewake"), forms.RecordingWriter(tmp_path / "x.rewake"):
        pass
    (tmp_path / "y.rewake.part").symlink_to(part)
    with pytest.raises(UsageError, match="a symbolic link in the way"), forms.RecordingWriter(tmp_path / "y.rewake"):
        pass
    assert (part / "thesis.txt").read_text() == "precious"


def test_a_link_to_a_recording_stays_a_link(tmp_path: Path) -> None:
    small(tmp_path / "x.rewake")
    (tmp_path / "link").symlink_to("x.rewake")
    (tmp_path / "new").symlink_to("y.rewake")
    for name in ("link", "new"):
        with forms.RecordingWriter(tmp_path / name) as writer:
            writer.write("comm", random_columns(forms.TABLES["comm"], 1, 1))
            writer.commit()
        assert (tmp_path / name).is_symlink() and forms.Recording(tmp_path / name).rows("comm") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "new", "x.rewake", "y.rewake"]


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_a_recording_needs_a_name(name: str) -> None:
    with pytest.raises(UsageError, match="no name for a recording"):
        forms.RecordingWriter(name)


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    """DuckDB is given the paths of tables: it answered with a std::bad_cast."""
    name = tmp_path / os.fsdecode(b"a\xff.rewake")
    for use in (forms.Recording, forms.Run, forms.RecordingWriter, forms.RunWriter):
        with pytest.raises(UsageError, match="a name that is not UTF-8: rename it, or give a link to it"):
            use(name)


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="File name too long"), forms.RecordingWriter(tmp_path / ("a" * 300)):
        pass


def test_two_writers_of_one_name(tmp_path: Path) -> None:
    with (
        forms.RecordingWriter(tmp_path / "x.rewake"),
        pytest.raises(TraceError, match="another rewake is writing it"),
        forms.RecordingWriter(tmp_path / "x.rewake"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["manifest.json", "topology.xml"])
def test_a_full_disk_is_told_with_the_file(tmp_path: Path, name: str) -> None:
    """Only of tables; of other files it was "No space left on device" and nothing else."""
    with forms.RecordingWriter(tmp_path / "d.rewake") as writer:
        (writer.part / name).symlink_to("/dev/full")

        def write() -> None:
            writer.put_file("topology.xml", b"<topology/>")
            writer.commit()

        with pytest.raises(OSError, match="No space left on device") as caught:
            write()
        assert caught.value.filename == str(writer.part / name)


def test_nothing_that_is_not_ours_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("x")
    for name in ("dir", "file"):
        with pytest.raises(UsageError, match="exists"), forms.RecordingWriter(tmp_path / name):
            pass


def edit(path: Path, **changes: Any) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | changes))


def test_a_damaged_recording_is_an_error_and_never_empty(tmp_path: Path) -> None:
    path = tmp_path / "d.rewake"
    for damage, message in (
        (lambda: (path / "manifest.json").unlink(), "not a rewake recording"),
        (lambda: (path / "manifest.json").write_text("{"), "damaged"),
        (lambda: (path / "manifest.json").write_text("[]"), "does not describe"),
        (lambda: edit(path, schema_version=99), "schema version 99, this rewake reads 1"),
        (lambda: edit(path, rows=3), "damaged"),
        (lambda: (path / "switch" / "000001.parquet").unlink(), "missing"),
        (lambda: (path / "switch" / "000001.parquet").write_bytes(b"junk" * 9), "damaged"),
        (lambda: (path / "comm.parquet").write_bytes(b""), "damaged"),
    ):
        small(path)
        damage()
        with pytest.raises(TraceError, match=message) as caught:
            recording = forms.Recording(path)
            recording.read("switch")
            recording.read("comm")
        assert "\n" not in str(caught.value)
        shutil.rmtree(path)


@pytest.mark.parametrize(("begin", "end"), [(4, 40), (20, 60), (40, 200)])
def test_a_page_that_cannot_be_unpacked_is_damage_in_any_query(tmp_path: Path, begin: int, end: int) -> None:
    """Opening the file sees its footer only. The command line took this for a bug of its own."""
    path = tmp_path / "d.rewake"
    small(path)
    file = path / "switch" / "000000.parquet"
    data = bytearray(file.read_bytes())
    data[begin:end] = bytes(end - begin)
    file.write_bytes(data)
    con = forms.Recording(path).connect()
    with pytest.raises(duckdb.Error) as caught:
        con.execute("FROM switch").fetchall()
    told = forms.unreadable(caught.value)
    assert told is not None and "a Parquet file is damaged" in told and "\n" not in told
    with pytest.raises(duckdb.Error) as mistaken:
        con.execute("SELECT nothing FROM switch")
    assert forms.unreadable(mistaken.value) is None
    assert forms.unreadable(ValueError("'a.parquet'")) is None


@pytest.mark.parametrize("value", ["NULL::USMALLINT", "'x'", "7::BIGINT"])
def test_a_column_of_another_type_is_damage(tmp_path: Path, value: str) -> None:
    path = tmp_path / "d.rewake"
    small(path)
    file = path / "switch" / "000000.parquet"
    copied = tmp_path / "copied"
    duckdb.sql(f"COPY (SELECT * REPLACE ({value} AS cpu) FROM '{file}') TO '{copied}' (FORMAT parquet)")
    copied.replace(file)
    with pytest.raises(TraceError, match=r"000000\.parquet.: column cpu: .* where USMALLINT is declared; .*damaged"):
        forms.Recording(path).read_part("switch", 0)


@pytest.mark.parametrize(
    ("entry", "value", "told"),
    [
        (("recording", "path"), 5, "recording.path: text expected"),
        (("first_decision",), "x", "first_decision: a whole number expected"),
        (("ledgers", "prev", "rows"), [1, "x"], "ledgers.prev.rows[1]: a whole number expected"),
        (("policies",), {"prev": 1}, "policies: a list expected"),
        (("seed",), True, "seed: a whole number expected"),
        (("machine", "cpus"), [4], "machine.cpus: a whole number expected"),
        (("loss",), [{"cpu": 0, "lost": "many"}], "loss[0].lost: a whole number expected"),
        (("source",), "trace.dat", "source: an object expected"),
        (("rows", "switch"), [50, "x"], "rows.switch[1]: a whole number expected"),
        (("machine",), None, "machine: an object expected"),
        (("problems",), "cut off", "problems: a list expected"),
        (("span_ns",), 1 << 64, "span_ns: a whole number expected"),
        (("silences",), [1], "silences[0]: an object expected"),
        (("n_parts",), 10**9, "rows.switch: rows of 1000000000 files expected"),
        (("rows", "switch"), [], "rows.switch: rows of 2 files expected"),
        (("rows", "switch"), [50, -1], "rows.switch: rows of 2 files expected"),
        (("rows", "task"), None, "rows.task: rows of 1 files expected"),
        (("running_at_start",), [[10**9]], "running_at_start[0]: a list of 2 expected"),
        (("running_at_start",), [[0, 1], [-1, 1]], "running_at_start[1][0]: 0 to 65535 expected"),
        (("running_at_start",), [[0, None]], "running_at_start[0][1]: a whole number expected"),
        (("exit_latency_us",), {"0": [0, 10**10]}, "exit_latency_us.0[1]: 0 to 2147483647 expected"),
        (("exit_latency_us",), {"0": [-1]}, "exit_latency_us.0[0]: 0 to 2147483647 expected"),
        (("exit_latency_us",), {"0": [None]}, "exit_latency_us.0[0]: a whole number expected"),
        (("steal_pct",), math.nan, "NaN is no number of JSON"),
        (("capture",), {"seconds": math.inf}, "Infinity is no number of JSON"),
    ],
)
def test_an_entry_of_a_manifest_of_another_kind_is_damage(
    tmp_path: Path, entry: tuple[str, ...], value: Any, told: str
) -> None:
    path = tmp_path / "m.rewake"
    small(path)
    if entry[0] in ("recording", "first_decision", "ledgers", "policies", "seed"):
        with forms.RunWriter(tmp_path / "m.run", forms.Recording(path)) as writer:
            writer.write_ledger("prev", 0, random_columns(forms.RUN_TABLES["ledger"], 50, 1))
            writer.commit()
        path = tmp_path / "m.run"
    manifest = json.loads((path / "manifest.json").read_bytes())
    inner = manifest
    for name in entry[:-1]:
        inner = inner.setdefault(name, {})
    inner[entry[-1]] = value
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(TraceError, match=re.escape(f"{path}/manifest.json: damaged ({told})")):
        (forms.Run if path.suffix == ".run" else forms.Recording)(path)


@pytest.mark.parametrize(
    ("file", "edited", "told"),
    [
        ("decision/000001", "* REPLACE (99::UTINYINT AS kind)", "kind: 99, and 3 codes are known"),
        ("decision/000000", "* REPLACE (99::UTINYINT AS class)", "class: 99, and 16 codes are known"),
        ("decision/000001", "* REPLACE (decision_id * 2 AS decision_id)", "decision_id: 100 to 198, 50 to 99 exp"),
        ("decision/000001", "* REPLACE (50::UINTEGER AS waker_task)", "waker_task: 50, and 50 tasks"),
        ("task", "* REPLACE (least(task_id, 48)::UINTEGER AS task_id)", "task_id: 0 to 48, 0 to 49 expected"),
        ("task", "* REPLACE (if(task_id = 7, 8, task_id)::UINTEGER AS task_id)", "50 tasks with 49 task_ids"),
        ("switch/000000", "* REPLACE (999::USMALLINT AS cpu)", "cpu: 999, and 50 CPUs are in the recording"),
        ("switch/000000", "* REPLACE (4000000000::UINTEGER AS next_task)", "next_task: 4,000,000,000, and 50"),
        ("waking/000001", "* REPLACE (50::USMALLINT AS target_cpu)", "target_cpu: 50, and 50 CPUs"),
        ("task_attr", "* REPLACE (4000000000::UINTEGER AS task_id)", "task_id: 4,000,000,000, and 50 tasks"),
        ("task_attr", "* REPLACE (50::UINTEGER AS comm)", "comm: 50, and 50 names are in the recording"),
        ("task_attr", "* REPLACE (50::UINTEGER AS cgroup)", "cgroup: 50, and 50 cgroups are in the recording"),
        ("task_attr", "* REPLACE ('0-99999999' AS allowed)", "allowed: '0-99999999' is not a list of CPUs"),
        ("domain", "* REPLACE ('0-3,x' AS span)", "span: '0-3,x' is not a list of CPUs"),
        ("exit/000001", "* LIMIT 20", "20 rows, 50 in the manifest"),
    ],
)
def test_tables_that_do_not_fit_together_are_damage(tmp_path: Path, file: str, edited: str, told: str) -> None:
    """What an editor changed made an index error of the command that came to it, or was passed over without a word."""
    path = tmp_path / "d.rewake"
    small(path)
    parquet, copied = path / f"{file}.parquet", tmp_path / "copied"
    what, _, rest = edited.partition(" LIMIT")
    duckdb.sql(f"COPY (SELECT {what} FROM '{parquet}' {rest and 'LIMIT' + rest}) TO '{copied}' (FORMAT parquet)")
    copied.replace(parquet)
    message = re.escape(f"{parquet}: damaged ({told}")
    table = file.partition("/")[0]
    with pytest.raises(TraceError, match=message):
        forms.Recording(path).check()
    with pytest.raises(TraceError, match=message):
        forms.Recording(path).read(table)
    with pytest.raises(TraceError, match=message):
        forms.Recording(path).connect((table,))


def test_the_first_decision_is_that_of_the_table(tmp_path: Path) -> None:
    small(tmp_path / "d.rewake")
    forms.Recording(tmp_path / "d.rewake").check()
    edit(tmp_path / "d.rewake", first_decision=10**18)
    with pytest.raises(TraceError, match="decision_id: 0 to 49, 1,000,000,000,000,000,000 to"):
        forms.Recording(tmp_path / "d.rewake").read("decision")


def test_an_entry_that_a_manifest_lacks_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "m.rewake"
    small(path)
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_bytes()) | {"machine": {"a": 1}, "loss": [{"lost": 0}]}))
    manifest = forms.Recording(path).manifest
    with pytest.raises(TraceError, match=re.escape(f"{file}: damaged (machine.cpus: missing): make the recording")):
        summary.machine_line(manifest["machine"])
    with pytest.raises(TraceError, match=re.escape("(loss[0].cpu: missing)")):
        pickle.loads(pickle.dumps(copy.deepcopy(manifest)))["loss"][0]["cpu"]
    with pytest.raises(KeyError):  # what a script expects of a dict
        manifest["no_such"]
    with forms.RunWriter(tmp_path / "m.run", forms.Recording(path)) as writer:
        writer.write_ledger("prev", 0, random_columns(forms.RUN_TABLES["ledger"], 50, 1))
        writer.commit()
    file = tmp_path / "m.run" / "manifest.json"
    said = json.loads(file.read_bytes())
    del said["ledgers"]["prev"]["rows"]
    file.write_text(json.dumps(said))
    with pytest.raises(TraceError, match=re.escape("(ledgers.prev.rows: missing): make the run again")):
        forms.Run(tmp_path / "m.run")


def test_a_column_newer_than_the_recording_is_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(tmp_path / "o.rewake")
    old = forms.RECORDING_TABLES["cpu"]
    new = forms.Table("cpu", old.meaning, (*old.columns, forms.Column("die", "USMALLINT", True, "", "", "die")), False)
    monkeypatch.setitem(forms.RECORDING_TABLES, "cpu", new)
    recording = forms.Recording(tmp_path / "o.rewake")
    _, null = recording.read("cpu")["die"]
    assert null.all() and len(null) == 50
    assert recording.connect().execute("SELECT count(*), count(die) FROM cpu").fetchall() == [(50, 0)]


def test_odd_path_names(tmp_path: Path) -> None:
    folder = tmp_path / "it's [a] *odd* ?name"
    folder.mkdir()
    wrote = small(folder / "r'.rewake")
    recording = forms.Recording(folder / "r'.rewake")
    assert_same(recording.read_part("switch", 1), wrote["switch"][1], forms.TABLES["switch"])
    assert recording.connect().execute("SELECT count(*) FROM switch").fetchall() == [(100,)]


POLICIES = ["recorded", "linux-6.1:SIS_UTIL=0", "a/b:x=1", "..", "ledger", "bucket", "x" * 300, "x" * 299 + "y", "é|"]


def test_a_run_comes_back(tmp_path: Path) -> None:
    small(tmp_path / "a.rewake")
    recording = forms.Recording(tmp_path / "a.rewake")
    table = forms.TABLES["ledger"]
    wrote = {p: [random_columns(table, 50, 7 * n + part) for part in (0, 1)] for n, p in enumerate(POLICIES)}
    bucket: Columns = {
        "policy": np.array(["recorded"] * 2, object), "metric": np.array(["lo", "hi"], object),
        "bucket": (np.array([1, 2], np.int32), np.array([False, True])), "n": np.array([3, 4]),
    }  # fmt: skip
    with forms.RunWriter(tmp_path / "a.run", recording) as writer:
        for part in (0, 1):
            for policy in POLICIES:
                writer.write_ledger(policy, part, wrote[policy][part])
        with pytest.raises(ValueError, match="part 1 after part 1"):
            writer.write_ledger("recorded", 1, wrote["recorded"][1])
        writer.write("bucket", bucket)
        writer.manifest["seed"] = 1
        writer.commit()
    run = forms.Run(tmp_path / "a.run")
    assert run.policies == POLICIES
    assert run.manifest["seed"] == 1
    assert (run.path / "recorded.parquet").is_file()
    assert len(list(run.path.iterdir())) == len(POLICIES) + 2  # bucket and manifest; no raw columns left
    assert all(p.parent == run.path for p in run.path.rglob("*.parquet"))
    for policy in POLICIES:
        for part in (0, 1):
            assert_same(run.read_ledger(policy, part), wrote[policy][part], table)
    assert run.recording.path == recording.path
    con = run.connect()
    assert con.execute("SELECT count(*), count(DISTINCT policy), max(decision_id) FROM ledger").fetchall() == [
        (len(POLICIES) * 100, len(POLICIES), 99)
    ]
    assert con.execute("SELECT count(*) FROM decision").fetchall() == [(100,)]
    assert con.execute("SELECT * FROM bucket").fetchall() == [("recorded", "lo", 1, 3), ("recorded", "hi", None, 4)]
    with pytest.raises(UsageError, match="no policy nope; it has recorded"):
        run.read_ledger("nope")


def test_a_run_whose_files_have_other_rows_is_damage(tmp_path: Path) -> None:
    small(tmp_path / "d.rewake")
    with forms.RunWriter(tmp_path / "r.run", forms.Recording(tmp_path / "d.rewake")) as writer:
        for part in (0, 1):
            writer.write_ledger("prev", part, random_columns(forms.TABLES["ledger"], 50, part))
        writer.commit()
    run = forms.Run(tmp_path / "r.run")
    run.check()
    file = tmp_path / "r.run" / "prev.parquet"
    whole = file.read_bytes()
    duckdb.sql(f"COPY (SELECT * FROM '{file}' LIMIT 99) TO '{tmp_path / 'less'}' (FORMAT parquet)")
    for damaged, told in ((whole[:-1], "prev.parquet"), ((tmp_path / "less").read_bytes(), "99 rows, 100 in the man")):
        file.write_bytes(damaged)
        with pytest.raises(TraceError, match=f"{told}.*replay the recording again"):
            run.check()


def test_a_run_follows_its_recording_when_both_move_and_notices_another(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    small(tmp_path / "one" / "a.rewake")
    with forms.RunWriter(tmp_path / "one" / "a.run", forms.Recording(tmp_path / "one" / "a.rewake")) as writer:
        writer.write_ledger("prev", 0, {"cpu": (np.array([1], np.uint16), np.array([True]))})
        writer.commit()
    (tmp_path / "one").rename(tmp_path / "two")
    run = forms.Run(tmp_path / "two" / "a.run")
    assert run.recording.path == tmp_path / "two" / "a.rewake"
    edit(tmp_path / "two" / "a.rewake", id="other")
    with pytest.raises(TraceError, match="gone or has changed"):
        _ = run.recording


def test_an_unfinished_run_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), forms.RunWriter(tmp_path / "a.run") as writer:
        writer.write_ledger("prev", 0, {"cpu": np.array([1], np.uint16)})
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
