# SPDX-License-Identifier: GPL-2.0-or-later
"""Two thousand tasks: windows and seeds of the shared recordings on two Dask workers that keep dying, a store that gets
full, a driver that is killed. The store ends up as one undisturbed process fills it. Takes an hour
on a busy machine."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fleetcheck import Killer, check, left, names, parent, shards, study

from rewake.fleet import engines, plan
from rewake.fleet.drive import run
from rewake.forms import FleetStore
from rewake.importing import import_trace

SHARED = Path(__file__).parents[2].parent / "shared" / "traces"
TRACES = sorted(p for p in SHARED.glob("*/trace.*") if p.suffix in plan.SUFFIXES)
WINDOW_MS, WINDOWS, SEEDS, BROKEN = 75, 400, 5, 4
SMALL = "6m"
"""The store is full with a fifth of the shards."""
EVERY = 50
"""Shards between two that are killed."""


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Windows from all over the recordings, and traces that are cut off, garbled, empty and gone."""
    folder = tmp_path_factory.mktemp("listed")
    windows = []
    for trace in TRACES:
        span = int(import_trace(trace).manifest.get("span_ns") or 0) // 1_000_000
        windows += [f"{trace}@{at}ms..{at + WINDOW_MS}ms" for at in range(0, span - WINDOW_MS, WINDOW_MS)]
    assert len(windows) >= WINDOWS
    chosen = [windows[k * len(windows) // WINDOWS] for k in range(WINDOWS)]
    whole = TRACES[0].read_bytes()
    (folder / "cut.dat").write_bytes(whole[: len(whole) // 2])
    (folder / "garbled.dat").write_bytes(whole[:14] + bytes(range(256)) * 40)
    (folder / "empty.dat").write_bytes(b"")
    broken = ["cut.dat", "garbled.dat", "empty.dat", "gone.dat"]
    middle = WINDOWS // 2
    (folder / "all.list").write_text("\n".join([*chosen[:middle], *broken, *chosen[middle:]]) + "\n")
    return folder / "all.list"


@contextmanager
def _small(where: Path) -> Iterator[bool]:
    """Whether `where` could be made a small file system."""
    where.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "none", where], stderr=subprocess.DEVNULL, check=False
        ).returncode
    )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", where], check=True)


@pytest.mark.slow
@pytest.mark.skipif(not TRACES, reason="no shared recordings")
@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount here")
def test_two_thousand_tasks_whatever_happens(listed: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    tasks = plan.tasks(plan.find([str(listed)]).sources, study(), seeds=range(SEEDS))
    assert len(tasks) == (WINDOWS + BROKEN) * SEEDS
    reference = tmp_path / "reference"
    alone = run(tasks, FleetStore(reference), engines.inline(str(reference)))
    assert alone.left == 0 and alone.failed >= (BROKEN - 1) * SEEDS
    assert alone.done >= 0.9 * len(tasks), "windows of the recordings are counted"

    with _small(tmp_path / "store") as mounted:
        store = tmp_path / "store"
        command = [sys.executable, "-m", "rewake.cli", "fleet", "run", str(listed), "--policy", "random-idle", "--seed",
                   f"0..{SEEDS - 1}", "--engine", "dask", "--workers", "2", "-o", str(store)]  # fmt: skip
        turns = itertools.count()

        def one(cells: list[int]) -> int:
            """In turn a cell and the worker that keeps it."""
            return cells[0] if next(turns) % 2 else parent(cells[0])

        def start() -> tuple[subprocess.Popen[bytes], Killer]:
            driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            killer = Killer(driver.pid, store, one, EVERY)
            killer.start()
            return driver, killer

        killed = 0

        def end(driver: subprocess.Popen[bytes], killer: Killer) -> bytes:
            nonlocal killed
            said = driver.communicate()[1]
            killer.done = True
            killer.join()
            killed += killer.killed
            return said

        if mounted:  # until it is full
            driver, killer = start()
            said = end(driver, killer)
            assert driver.returncode == 1 and b"No space left" in said, said
            there = shards(store)
            assert 0 < len(there) < len(tasks) and there.items() <= shards(reference).items()
            subprocess.run(["mount", "-o", "remount,size=512m", store], check=True)
        driver, killer = start()  # until the driver is killed
        while len(names(store)) < len(tasks) * 2 // 3:
            assert driver.poll() is None, driver.communicate()[1]
            time.sleep(0.1)
        driver.kill()
        end(driver, killer)
        assert len(names(store)) < len(tasks)
        driver, killer = start()
        said = end(driver, killer)
        assert driver.returncode == 0, said
        assert killed >= 20
        assert shards(store) == shards(reference)
        left(store)
        check(run(tasks, FleetStore(store), engines.inline(str(store))), store, reference)
    if not mounted:
        pytest.skip("all but the full disk: a small file system may not be mounted here")
