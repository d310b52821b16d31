# SPDX-License-Identifier: GPL-2.0-or-later
"""A decoder and a decision builder that say what a test tells them to: the import pipeline without their rooms."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewake import collectors, forms, replay

MAGIC = b"\x17\x08\x44tracing6\0\0\1\4\0\0\0"


class Script:
    """What the fake decoder hands out."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {
            "format": "trace.dat", "version": 6, "compression": "none", "cpus": 4, "clock": "mono",
            "uname": "Linux x 6.1.0-1 #1 SMP PREEMPT_DYNAMIC x86_64", "kernel": "6.1.0-1", "is_guest": False,
        }  # fmt: skip
        self.batches = [switches(0, 600) | wakeups(1200, 1500), switches(600, 600)]
        self.wakeups = 1500
        self.resync = 0
        self.observer = 0
        self.finish: dict[str, Any] = {
            "tasks": tasks_columns([(0, 0, 0, None, 0), (1, 0, 0, None, 0), (2, 0, 0, None, 0), (3, 0, 0, None, 0)]),
            "names": {"task_id": np.arange(4), "from_ns": np.zeros(4, np.int64), "comm": np.zeros(4, np.uint32)},
            "comm": {"id": np.arange(1), "name": ["swapper"]},
            "event_counts": {"sched_switch": 1200, "sched_waking": 1500, "sched_wakeup": 1500},
            "skipped": {}, "lost": [{"cpu": c, "lost": 0, "gaps": 0, "blind_ns": 0} for c in range(4)],
            "events": 4200, "first_ns": 1000, "last_ns": 2_000_001_000, "steps_back": 0, "wakeup_failed": 0,
            "problems": [],
        }  # fmt: skip
        self.fail: BaseException | None = None
        self.decoded = 0


def switches(first_id: int, n: int) -> dict[str, forms.Columns]:
    """A batch of `n` switches to and from the idle task."""
    ids = np.arange(first_id, first_id + n)
    return {
        "switch": {
            "id": ids, "ts_ns": ids * 1000, "cpu": (ids % 4).astype(np.uint16), "prev_task": np.zeros(n, np.uint32),
            "prev_prio": np.full(n, 120, np.int16), "prev_state": np.zeros(n, np.uint8),
            "next_task": np.ones(n, np.uint32), "next_prio": np.full(n, 120, np.int16),
        }
    }  # fmt: skip


def wakeups(first_id: int, n: int) -> dict[str, forms.Columns]:
    """`n` rows each of waking and wakeup, all of the idle task."""
    tables = {name: forms.EVENT_TABLES[name] for name in ("waking", "wakeup")}
    rows: dict[str, dict[str, Any]] = {
        name: {c.name: np.zeros(n, forms.dtype_of(c)) for c in table.columns} for name, table in tables.items()
    }
    for k, columns in enumerate(rows.values()):
        columns["id"] = np.arange(first_id + k * n, first_id + (k + 1) * n)
    return {name: dict(columns) for name, columns in rows.items()}


def tasks_columns(rows: list[tuple[int, int, int, int | None, int]]) -> forms.Columns:
    """decode's `tasks` from (task_id, tid, generation, parent, source)."""
    parent = [r[3] for r in rows]
    return {
        "task_id": np.array([r[0] for r in rows], np.uint32), "tid": np.array([r[1] for r in rows], np.uint32),
        "generation": np.array([r[2] for r in rows], np.uint32),
        "parent": (np.array([p or 0 for p in parent], np.uint32), np.array([p is None for p in parent], np.bool_)),
        "source": np.array([r[4] for r in rows], np.uint8), "first_ns": np.zeros(len(rows), np.int64),
        "exit_ns": (np.zeros(len(rows), np.int64), np.ones(len(rows), np.bool_)),
    }  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rewake"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """The pipeline runs on this script instead of on decode and the engine."""
    told = Script()

    class TraceDat:
        def __init__(self, path: str, batch_events: int = 1_000_000) -> None:
            self.header = told.header
            self._left = list(told.batches)
            told.decoded += 1

        def reserve_idle(self, n_cpus: int) -> None:
            assert n_cpus >= self.header["cpus"]

        def next_batch(self) -> dict[str, forms.Columns] | None:
            if not self._left and told.fail is not None:
                raise told.fail
            return self._left.pop(0) if self._left else None

        def finish(self) -> dict[str, Any]:
            return told.finish

    def build_decisions(writer: forms.RecordingWriter) -> None:
        table = forms.DECISION
        columns = {c.name: np.zeros(told.wakeups, forms.dtype_of(c)) for c in table.columns}
        columns["decision_id"] = np.arange(told.wakeups)
        columns["class"] = np.full(told.wakeups, forms.ENUMS["decision_class"].index("stayed"), np.uint8)
        columns["class"][: told.observer] = forms.ENUMS["decision_class"].index("observer")
        writer.write_part("decision", 0, dict(columns))
        writer.manifest["replay"] = {"resync": told.resync}

    decode: Any = types.ModuleType("rewake.collectors._decode")
    decode.TraceDat = TraceDat
    decisions: Any = types.ModuleType("rewake.replay.decisions")
    decisions.build_decisions = build_decisions
    for name, package, module in (("_decode", collectors, decode), ("decisions", replay, decisions)):
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(package, name, module, raising=False)
    return told


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A file that is a trace.dat by its first bytes."""
    path = tmp_path / "t" / "trace.dat"
    path.parent.mkdir()
    path.write_bytes(MAGIC + bytes(100))
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """One command line: (exit code, stdout, stderr)."""
    from rewake.cli import main

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call
