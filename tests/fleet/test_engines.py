# SPDX-License-Identifier: GPL-2.0-or-later
"""Whoever does the tasks, and whatever happens to them on the way, a store ends up the same, byte by byte."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from fleetcheck import Killer, alive, cells_of, check, left, parent, shards

from rewake.cli.fleet import _seeds
from rewake.errors import MissingExtra, TraceError, UsageError
from rewake.fleet import engines
from rewake.fleet.cell import Cell, Limits
from rewake.fleet.drive import MaxFailed, Summary, max_failed, run
from rewake.fleet.tasks import Task
from rewake.fleet.work import BROKEN, DONE, FAILED
from rewake.forms import FleetStore

LIMITS = Limits(1 << 30, 60)


def test_what_is_there_is_not_done_again(tasks: list[Task], reference: Path, tmp_path: Path) -> None:
    for name, data in list(shards(reference).items())[::2]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    before = {n: (tmp_path / n).stat().st_mtime_ns for n in shards(tmp_path)}
    found = run(tasks, FleetStore(tmp_path), engines.inline(str(tmp_path)))
    check(found, tmp_path, reference)
    assert found.skipped == len(before) and found.done + found.failed == len(tasks) - len(before)
    assert {n: (tmp_path / n).stat().st_mtime_ns for n in before} == before


def test_a_shard_without_a_byte_is_done_again(tasks: list[Task], reference: Path, tmp_path: Path) -> None:
    for name, data in shards(reference).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    lost = [min((tmp_path / folder).iterdir()) for folder in ("done", "failed")]
    for file in lost:
        file.write_bytes(b"")
    with pytest.raises(TraceError, match=f"{lost[0]}: .* damaged"):
        FleetStore(tmp_path).connect()
    found = run(tasks, FleetStore(tmp_path), engines.inline(str(tmp_path)))
    check(found, tmp_path, reference)
    assert (found.done, found.failed, found.skipped) == (1, 1, len(tasks) - 2)


def _killing(engine: engines.Engine, tasks: list[Task], store: Path, pick: Callable[[list[int]], int]) -> Summary:
    killer = Killer(os.getpid(), store, pick, 6)
    killer.start()
    try:
        return run(tasks, FleetStore(store), engine)
    finally:
        killer.done = True
        killer.join()
        assert killer.killed >= 2


def test_local_with_cells_killed(tasks: list[Task], reference: Path, tmp_path: Path) -> None:
    engine = engines.local(str(tmp_path), LIMITS, 2)
    found = _killing(engine, tasks, tmp_path, lambda cells: cells[0])
    check(found, tmp_path, reference)
    for part in left(tmp_path):
        os.utime(part, (0, 0))
    run(tasks, FleetStore(tmp_path), engine)
    assert not left(tmp_path), "the next run takes away what is old"


@pytest.mark.filterwarnings("ignore")
def test_dask_with_workers_killed(tasks: list[Task], reference: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    engine = engines.dask(str(tmp_path), LIMITS, 2, None)
    found = _killing(engine, tasks, tmp_path, lambda cells: parent(cells[0]))
    check(found, tmp_path, reference)


def test_a_folder_of_that_name_is_not_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "not_there").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtra):
        engines._extra("not_there", "ray", "--engine ray")


@pytest.mark.filterwarnings("ignore")
def test_ray(tasks: list[Task], reference: Path, tmp_path: Path) -> None:
    if pytest.importorskip("ray").__file__ is None:
        pytest.skip("a folder named ray, and not Ray")
    check(run(tasks, FleetStore(tmp_path), engines.ray(str(tmp_path), LIMITS, 2, None)), tmp_path, reference)


def test_a_killed_driver_goes_on_where_it_was(tasks: list[Task], reference: Path, traces: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rewake.cli", "fleet", "run", str(traces / "all.list"), "--policy", "random-idle",
               "--seed", "0..2", "-o", str(tmp_path)]  # fmt: skip
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while len(shards(tmp_path)) < 3:
        assert driver.poll() is None
        time.sleep(0.02)
    orphans = cells_of(driver.pid)
    driver.kill()
    driver.wait()
    assert orphans
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}/cmdline").exists() and parent(pid) != 0 and alive(pid) for pid in orphans):
        assert time.monotonic() < deadline, "the cells outlive their keeper"
        time.sleep(0.02)
    there = shards(tmp_path)
    assert there.items() <= shards(reference).items()
    found = run(tasks, FleetStore(tmp_path), engines.local(str(tmp_path), LIMITS, 2))
    check(found, tmp_path, reference)
    assert found.skipped == len(there)


def test_interrupted(traces: Path, tmp_path: Path) -> None:
    """Ctrl-C: soon over, no verdict on what was under way."""
    command = [sys.executable, "-m", "rewake.cli", "fleet", "run", str(traces / "demo.rewake"), "--policy", "prev",
               "--seed", "0..50", "-o", str(tmp_path)]  # fmt: skip
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while not shards(tmp_path):
        assert driver.poll() is None
        time.sleep(0.02)
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate(timeout=120)
    assert driver.returncode == 130 and b"interrupted" in said and b"Traceback" not in said, said
    left(tmp_path)
    assert not list(tmp_path.glob("failed/[!.]*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_stops_the_run_and_loses_nothing(tasks: list[Task], reference: Path, tmp_path: Path) -> None:
    where = tmp_path / "store"
    where.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "none", where], check=False).returncode:
        pytest.skip("may not mount")
    try:
        store = FleetStore(where)
        found = run(tasks, store, engines.inline(str(where)))
        assert found.left > 0 and "No space left" in str(found.why)
        there = shards(where)
        assert there and there.items() <= shards(reference).items() and not left(where)
        subprocess.run(["mount", "-o", "remount,size=4m", where], check=True)
        again = run(tasks, store, engines.inline(str(where)))
        check(again, where, reference)
        assert again.skipped == len(there)
    finally:
        subprocess.run(["umount", where], check=True)


def test_a_task_that_kills_its_process(tasks: list[Task], tmp_path: Path) -> None:
    with Cell(str(tmp_path), LIMITS) as cell:
        done = threading.Event()

        def shoot() -> None:
            last = None
            while not done.is_set():
                if (pid := cell.pid) is not None and pid != last:
                    last = pid
                    os.kill(pid, signal.SIGSEGV)
                time.sleep(0.005)

        shooter = threading.Thread(target=shoot)
        shooter.start()
        found = cell.run(tasks[0])
        done.set()
        shooter.join()
        assert (found.status, found.error) == (FAILED, "crash") and "died 2 times: SIGSEGV" in str(found.message)
        assert cell.run(tasks[1]).status == DONE, "the next task has a process again"
    con = FleetStore(tmp_path).connect()
    assert con.execute("SELECT error, uri FROM shard WHERE error IS NOT NULL").fetchall() == [("crash", tasks[0].uri)]


def test_a_task_that_takes_too_long_or_too_much(tasks: list[Task], tmp_path: Path) -> None:
    with Cell(str(tmp_path), Limits(None, 0.05)) as cell:
        found = cell.run(tasks[0])
        assert (found.status, found.error) == (FAILED, "timeout") and "0.05 s" in str(found.message)
    with Cell(str(tmp_path), Limits(120 << 20, 60)) as cell:
        found = cell.run(tasks[0])
        assert (found.status, found.error) in {(FAILED, "memory"), (FAILED, "crash")}, found
    with Cell(str(tmp_path), LIMITS) as cell:
        assert cell.run(tasks[0]).status == DONE
    assert FleetStore(tmp_path).tasks() == ({tasks[0].key}, set()), "what succeeds has not failed any more"


def test_another_rewake_is_no_verdict_on_the_trace(tasks: list[Task], tmp_path: Path) -> None:
    from dataclasses import replace

    from rewake.fleet.work import do

    other = replace(tasks[0], study=replace(tasks[0].study, tool="0.0.1+other"))
    found = do(other, FleetStore(tmp_path))
    assert found.status == BROKEN and "0.0.1+other" in str(found.message) and not shards(tmp_path)


def test_more_failures_than_allowed(tasks: list[Task], tmp_path: Path) -> None:
    bad = [t for t in tasks if not t.uri.endswith(".rewake")]
    found = run(bad, FleetStore(tmp_path), engines.inline(str(tmp_path)), limit=MaxFailed(2, False))
    assert (found.failed, found.left) == (3, len(bad) - 3) and "--max-failed" in str(found.why)
    assert max_failed("5%") == MaxFailed(5, True) and MaxFailed(50, True).limit(10) == 5
    assert max_failed("100%") == MaxFailed(100, True) and max_failed("101") == MaxFailed(101, False)
    with pytest.raises(UsageError, match=r"--max-failed 101%: no more than 100% can fail"):
        max_failed("101%")


@pytest.mark.parametrize("text", ["²", "3..1", "-1", "..9", "9223372036854775808", "0..99999999999999999999"])
def test_seeds_that_replay_does_not_take_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--seed"):
        _seeds(text)
    with pytest.raises(UsageError, match=r"1,000,000,000,000,000,001 tasks are more than the 1,000,000 of one run"):
        _seeds("0..1000000000000000000")
    assert _seeds("0..2") == range(3) and _seeds("9223372036854775807")[0] == 2**63 - 1


def test_known_failures_are_done_again_on_request_only(tasks: list[Task], tmp_path: Path) -> None:
    bad = [t for t in tasks if t.uri.endswith("gone.dat")][:1]
    store, engine = FleetStore(tmp_path), engines.inline(str(tmp_path))
    assert run(bad, store, engine).failed == 1
    again = run(bad, store, engine)
    assert (again.failed, again.known_failures, again.skipped) == (0, 1, 1)
    assert run(bad, store, engine, retry_failed=True).failed == 1


@pytest.mark.parametrize("engine", [engines.dask, engines.ray])
def test_a_missing_extra_is_named(
    engine: Callable[..., engines.Engine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, {"dask": "distributed", "ray": "ray"}[engine.__name__], None)
    with pytest.raises(MissingExtra, match=r"rewake\[(fleet|ray)\]"):
        next(engine(str(tmp_path), LIMITS, 1, None)(iter([])))
