# SPDX-License-Identifier: GPL-2.0-or-later
"""A store loses and damages nothing: killed writers, two at once, a full disk, other versions, remote ones."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import history
import numpy as np
import pytest

from rewake.analysis.store import moment
from rewake.errors import RewakeError, TraceError, UsageError
from rewake.forms import Store, connect

TESTS = Path(__file__).parents[1]
WRITER = """
import sys, numpy, history
from rewake.forms import Store
store = Store(sys.argv[1])
first, last = int(sys.argv[2]), int(sys.argv[3])
for day in range(first, last):
    name, new = store.add(history.rows(day, history.figures(numpy.random.default_rng(day), 0.02)))
    print(name, new, flush=True)
"""


def day(n: int, **given: Any) -> list[dict[str, Any]]:
    return history.rows(n, history.figures(np.random.default_rng(n), 0.02), **given)


def read(store: Store) -> dict[str, int]:
    """Rows by shard; reads every one of them."""
    con = store.connect()
    try:
        return dict(con.execute("SELECT shard, count(*) FROM figure GROUP BY shard").fetchall())
    finally:
        con.close()


def writer(where: Path, first: int, last: int, **given: Any) -> subprocess.Popen[str]:
    source = Path(history.__file__).parents[1] / "src"
    env = {**os.environ, "PYTHONPATH": f"{TESTS}:{source}"}
    command = [sys.executable, "-c", WRITER, str(where), str(first), str(last)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **given)


def test_what_was_added_is_read_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    rows = day(1)
    name, new = store.add(rows)
    assert new and name.startswith("suite=schbench/")
    con = store.connect()
    found = con.execute("SELECT value FROM figure WHERE policy = 'recorded' AND metric = 'p99' AND side = 'lo'")
    assert found.fetchall() == [(float(r["value"]),) for r in rows
                                if (r["policy"], r["metric"], r.get("side")) == ("recorded", "p99", "lo")]  # fmt: skip


def test_the_same_run_twice_is_one_file(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    name, _ = store.add(day(1))
    before = (tmp_path / "s" / name).stat()
    assert store.add(day(1)) == (name, False)
    assert (tmp_path / "s" / name).stat().st_mtime_ns == before.st_mtime_ns
    assert list(read(store)) == [name]


def test_a_suite_may_have_any_name(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.add(day(1, suite="../../a b/ü'=x"))
    assert [p.parent.parent for p in (tmp_path / "s").rglob("*.parquet")] == [tmp_path / "s"]
    assert store.connect().execute("SELECT DISTINCT suite FROM figure").fetchall() == [("../../a b/ü'=x",)]


def test_a_suite_with_a_long_name(tmp_path: Path) -> None:
    """Percent signs make nine bytes of each of these letters, and a file name has 255."""
    store = Store(tmp_path / "s")
    for suite in ("日" * 40, "日" * 40 + "本"):
        assert store.add(day(1, suite=suite))[1]
    found = store.connect().execute("SELECT DISTINCT suite FROM figure ORDER BY 1").fetchall()
    assert found == [("日" * 40,), ("日" * 40 + "本",)] and len(store.shards()) == 2


def test_killed_at_any_point_a_run_is_there_whole_or_not(tmp_path: Path) -> None:
    """A writer of many runs is killed after ever longer times; what it said was added, is; the rest comes later."""
    where = tmp_path / "s"
    told: set[str] = set()
    whole = len(day(0))
    for delay in (0.0, 0.005, 0.03):
        process = writer(where, 0, 400)
        assert process.stdout is not None
        told.add(process.stdout.readline().split()[0])
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        said, _ = process.communicate()
        told |= {line.split()[0] for line in said.splitlines() if line.endswith(("True", "False"))}
        found = read(Store(where))
        assert told <= set(found) and set(found.values()) == {whole}
    process = writer(where, 0, len(told) + 3)
    assert process.communicate()[0].count("\n") == len(told) + 3
    assert set(read(Store(where)).values()) == {whole}


@pytest.mark.parametrize("point", ["fsync", "replace", "mkstemp"])
def test_death_between_two_steps(tmp_path: Path, point: str) -> None:
    """As if killed right there: what is left behind is nothing that a reader sees."""
    store = Store(tmp_path / "s")
    store.add(day(1))
    pid = os.fork()
    if pid == 0:
        from rewake.forms import objects as module

        owner = {"fsync": module.os, "replace": Path, "mkstemp": module.tempfile}[point]
        setattr(owner, point, lambda *_, **__: os._exit(9))
        try:
            store.add(day(2))
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert len(read(Store(tmp_path / "s"))) == 1
    store.add(day(2))
    assert len(read(Store(tmp_path / "s"))) == 2


def test_what_killed_writers_left_goes_after_a_day(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.add(day(1))
    folder = tmp_path / "s" / "suite=schbench"
    old, young = folder / ".old.part", folder / ".young.part"
    for part in (old, young):
        part.write_bytes(b"half")
    os.utime(old, (0, 0))
    store.add(day(2))
    assert (old.exists(), young.exists()) == (False, True)


def test_two_writers_at_once(tmp_path: Path) -> None:
    """Of the same runs, and each of its own."""
    where = tmp_path / "s"
    writers = [writer(where, 0, 25), writer(where, 0, 25), writer(where, 15, 40)]
    for process in writers:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert len(out.splitlines()) == 25
    found = read(Store(where))
    assert len(found) == 40 and set(found.values()) == {len(day(0))}
    assert not list(where.rglob("*.part"))


def test_a_full_disk_is_an_error_and_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    """The limit on the size of a file stands for the disk: a write fails in the middle."""
    where = tmp_path / "s"
    Store(where).add(day(0))
    process = writer(where, 1, 2, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500)))
    out, err = process.communicate()
    assert process.returncode == 1 and out == "" and "Error" in err
    assert len(read(Store(where))) == 1 and not list(where.rglob("*.part"))
    assert Store(where).add(day(1))[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    where = tmp_path / "s"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48k", "none", where], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("may not mount")
    try:
        store, added = Store(where), []
        with pytest.raises(OSError, match="No space left"):
            for n in range(40):
                added.append(store.add(day(n))[0])
        assert 0 < len(added) < 40
        assert sorted(read(store)) == sorted(added) and not list(where.rglob("*.part"))
    finally:
        subprocess.run(["umount", where], check=True)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2026-11-20", "2026-11-20T00:00:00Z"),
        ("2026-11-20T03:00:00.9+01:00", "2026-11-20T02:00:00Z"),
        ("@1000000000", "2001-09-09T01:46:40Z"),
        ("0999-01-01", "0999-01-01T00:00:00Z"),
    ],
)
def test_moments_are_ordered_as_text(given: str, kept: str) -> None:
    assert moment(given) == kept


def test_a_file_of_an_older_version_lacks_columns(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    name, _ = store.add(day(1))
    file = tmp_path / "s" / name
    older = file.with_name("older.parquet")
    con = connect()
    con.execute(f"COPY (SELECT * EXCLUDE (revision, report) FROM '{file}') TO '{older}'").fetchall()
    file.unlink()
    assert store.connect().execute("SELECT count(*), count(revision) FROM figure").fetchall() == [(len(day(1)), 0)]


def test_a_file_of_a_newer_version_has_more_columns(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    name, _ = store.add(day(1))
    file = tmp_path / "s" / name
    con = connect()
    con.execute(f"COPY (SELECT *, 7 AS flavour FROM '{file}') TO '{file.with_name('newer.parquet')}'").fetchall()
    file.unlink()
    assert read(store) == {name.replace(file.name, "newer.parquet"): len(day(1))}


@pytest.mark.parametrize("folder", ["suite=schbench", "suite=other"])
def test_a_copy_of_a_file_does_not_count(tmp_path: Path, folder: str) -> None:
    store = Store(tmp_path / "s")
    names = [store.add(day(n))[0] for n in range(3)]
    copy = tmp_path / "s" / folder / "again (1).parquet"
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes((tmp_path / "s" / names[1]).read_bytes())
    with pytest.raises(TraceError) as told:
        store.connect()
    assert names[1] in str(told.value) and f"{folder}/{copy.name}" in str(told.value)
    copy.unlink()
    assert sorted(read(store)) == sorted(names)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    name, _ = store.add(day(1))
    file = tmp_path / "s" / name
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(TraceError, match="damaged"):
        store.connect()


def test_a_run_whose_file_has_lost_its_bytes_is_added_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    name, _ = store.add(day(1))
    (tmp_path / "s" / name).write_bytes(b"")
    assert store.add(day(1)) == (name, True) and store.add(day(1)) == (name, False)
    assert read(store) == {name: len(day(1))}


def test_the_same_behind_a_url() -> None:
    fsspec = pytest.importorskip("fsspec")
    store = Store("memory://emptied/history")
    name, _ = store.add(day(1))
    fsspec.filesystem("memory").pipe_file(f"/emptied/history/{name}", b"")
    assert store.add(day(1)) == (name, True) and store.add(day(1)) == (name, False)


@pytest.mark.parametrize("what", ["a page", "another table"])
def test_of_many_files_the_one_at_fault_is_named(tmp_path: Path, what: str) -> None:
    store = Store(tmp_path / "s")
    files = [tmp_path / "s" / store.add(day(n))[0] for n in range(3)]
    if what == "a page":
        data = files[1].read_bytes()
        files[1].write_bytes(data[:20] + bytes(b ^ 0x55 for b in data[20:-8]) + data[-8:])
    else:
        connect().execute(f"COPY (SELECT 'prev' AS policy, 7 AS cpu) TO '{files[1]}'").fetchall()
    with pytest.raises(TraceError, match=f"{files[1]}: .* damaged; move it away"):
        store.connect()


@pytest.mark.parametrize("value", ["nan", "-inf"])
def test_a_value_that_is_no_number_is_damage(tmp_path: Path, value: str) -> None:
    """trend looked for slips beside it without end."""
    store = Store(tmp_path / "s")
    file, _ = (tmp_path / "s" / store.add(day(n))[0] for n in range(2))
    other = tmp_path / "other.parquet"
    connect().execute(f"COPY (SELECT * REPLACE ('{value}'::DOUBLE AS value) FROM '{file}') TO '{other}'").fetchall()
    other.replace(file)
    with pytest.raises(TraceError, match=f"{file}: a value is no finite number"):
        store.connect()


def test_no_store_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no store there"):
        Store(tmp_path / "none").connect()
    (tmp_path / "s").mkdir()
    with pytest.raises(UsageError, match="empty"):
        Store(tmp_path / "s").connect()
    with pytest.raises(UsageError):
        Store("nonsense://x/y")
    with pytest.raises(UsageError, match="without a name"):
        Store("")  # not the current directory


def test_a_store_behind_a_url() -> None:
    pytest.importorskip("fsspec")
    store = Store("memory://bucket/history")
    assert [store.add(day(n))[1] for n in (1, 2, 1)] == [True, True, False]
    assert set(read(Store("memory://bucket/history")).values()) == {len(day(1))}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_DEFAULT_REGION", "us-east-1"),
                        ("AWS_ENDPOINT_URL", f"http://{host}:{port}")):  # fmt: skip
        monkeypatch.setenv(name, value)
    yield f"http://{host}:{port}"
    running.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_store_in_an_object_store(s3: str) -> None:
    import fsspec

    fsspec.filesystem("s3").mkdir("bucket")
    store = Store("s3://bucket/history")
    assert [store.add(day(n))[1] for n in (1, 2, 1)] == [True, True, False]
    assert set(read(store).values()) == {len(day(1))} and len(store.shards()) == 2


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(RewakeError, match=r"rewake\[fleet\]"):
        Store("s3://bucket/x")
