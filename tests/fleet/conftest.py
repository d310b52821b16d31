# SPDX-License-Identifier: GPL-2.0-or-later
"""A short recording, and what a fleet makes of its windows and seeds in one process: the reference of all engines."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from fleetcheck import study

from rewake.fleet import engines, plan
from rewake.fleet.drive import run
from rewake.fleet.tasks import Task
from rewake.forms import FleetStore

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "fixtures" / "demo-split-llc-schbench"
WINDOWS, SEEDS = 4, 3


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cells are processes of their own: they take the package and the cache from the environment."""
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory, _environment: None) -> Path:
    """80 ms of the demo."""
    from rewake.importing import import_trace
    from rewake.slicing import slice_recording

    out = tmp_path_factory.mktemp("recordings") / "demo.rewake"
    slice_recording(import_trace(DEMO / "trace.dat"), out, (0, 80_000_000))
    return out


@pytest.fixture(scope="session")
def traces(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording, a trace that was cut off, one that is none, and a list that also names one that is gone."""
    folder = tmp_path_factory.mktemp("traces")
    shutil.copytree(recording, folder / "demo.rewake")
    whole = (DEMO / "trace.dat").read_bytes()
    (folder / "garbled.dat").write_bytes(whole[:14] + bytes(range(256)) * 40)
    (folder / "empty.dat").write_bytes(b"")
    (folder / "readme.md").write_text("not a trace")
    parts = [f"demo.rewake@{20 * k}ms..{20 * (k + 1)}ms workload=web time=2026-11-20" for k in range(WINDOWS)]
    (folder / "all.list").write_text("\n".join([*parts, "garbled.dat", "# none", "", "empty.dat", "gone.dat"]) + "\n")
    return folder


@pytest.fixture(scope="session")
def tasks(traces: Path) -> list[Task]:
    """Windows x seeds, and three that fail under each seed."""
    return plan.tasks(plan.find([str(traces / "all.list")]).sources, study(), seeds=range(SEEDS))


@pytest.fixture(scope="session")
def reference(tasks: list[Task], tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("store") / "inline"
    done = run(tasks, FleetStore(store), engines.inline(str(store)))
    assert (done.done, done.failed, done.left) == (WINDOWS * SEEDS, 3 * SEEDS, 0), done
    return store
