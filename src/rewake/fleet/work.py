# SPDX-License-Identifier: GPL-2.0-or-later
"""One task, done in this process: open the trace, replay or simulate, keep what adds up."""

from __future__ import annotations

import atexit
import errno
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from rewake import api, runs
from rewake.analysis import shard
from rewake.errors import PluginError, RewakeError, UsageError
from rewake.fleet import remote
from rewake.fleet.tasks import CLOSED, Task, tool
from rewake.forms import FleetStore, Recording, Run

DONE, FAILED, BROKEN = "done", "failed", "broken"
"""A shard was written; the trace's own fault, and that was written; the machine's fault, and nothing was."""

MEMORY = "memory"
"""Kind of an outcome without a shard: there is no memory left to write one in; the keeper does (cell.py)."""

Row = dict[str, Any]

_OUT_OF = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE)


@dataclass(frozen=True)
class Outcome:
    """What became of a task."""

    task: str
    status: str
    seconds: float = 0.0
    cpu_s: float = 0.0
    written: int = 0
    """Bytes of the shard."""
    error: str | None = None
    message: str | None = None

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def do(task: Task, store: FleetStore) -> Outcome:
    """Does a task and keeps what it found, or why it failed. Never raises but for what ends a process."""
    began, cpu = time.monotonic(), _cpu_s()

    def outcome(status: str, written: int = 0, error: str | None = None, message: str | None = None) -> Outcome:
        return Outcome(task.key, status, time.monotonic() - began, _cpu_s() - cpu, written, error, message)

    try:
        if task.study.tool != tool():
            raise _Unfit(f"this machine has rewake {tool()}, the fleet was started by {task.study.tool}")
        rows = rows_of(task)
    except Exception as error:
        if (fault := _of_the_machine(error)) is not None:
            return outcome(BROKEN, error="machine", message=fault)
        if _out_of_memory(error):
            return outcome(BROKEN, error=MEMORY, message="out of memory (--memory)")
        kind, message = _told(error, task)
        return _kept(lambda: store.put(task.key, failure(task, kind, message)), outcome, FAILED, kind, message)
    return _kept(lambda: store.put(task.key, rows), outcome, DONE)


def _kept(
    put: Callable[[], int], outcome: Callable[..., Outcome], status: str, error: str | None = None,
    message: str | None = None,
) -> Outcome:  # fmt: skip
    try:
        return outcome(status, put(), error, message)
    except Exception as fault:
        if _out_of_memory(fault):
            return outcome(BROKEN, error=MEMORY, message="out of memory (--memory)")
        return outcome(BROKEN, error="store", message=f"the shard could not be written: {_line(fault)}")


class _Unfit(Exception):
    """This machine cannot do it; another may."""


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _of_the_machine(error: BaseException) -> str | None:
    """Why it is not the trace's fault; None: it may well be."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, _Unfit | ConnectionError | TimeoutError):
            return _line(seen)
        if isinstance(seen, OSError) and seen.errno in _OUT_OF:
            return f"{seen.filename or ''}: {seen.strerror}".lstrip(": ")
        if "No space left on device" in str(seen):
            return "No space left on device"
        seen = seen.__cause__ or seen.__context__
    return None


def _out_of_memory(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError | duckdb.OutOfMemoryException):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def _told(error: BaseException, task: Task) -> tuple[str, str]:
    """Kind and text of a failure; the trace is called what it was called, wherever it was read."""
    message = _line(error)
    for name in (task.where, *_OPENED.places(task)):
        message = message.replace(name, task.uri)
    if isinstance(error, RewakeError):
        return type(error).__name__.removesuffix("Error").lower(), message
    return "bug", f"{type(error).__name__}: {message}"


def failure(task: Task, kind: str, message: str) -> list[Row]:
    """The row that says why a task found nothing."""
    return [_head(task) | {"error": kind, "message": message}]


def _head(task: Task) -> Row:
    study = task.study
    return {
        "task": task.key, "study": study.key, "asked": study.asked, "mode": study.mode, "uri": task.uri,
        "content": task.content, "from_ns": task.from_ns, "until_ns": task.until_ns, "seed": task.seed,
        "tool": study.tool, "workload": task.labels.get("workload") or _name(task.uri),
        "made": task.labels.get("made"), "machine": task.labels.get("machine"),
    }  # fmt: skip


def _name(uri: str) -> str:
    """What a trace is called: its file, or its directory where that says more."""
    path = Path(uri.partition("://")[2] or uri)
    return path.parent.name if path.stem in runs.GENERIC_NAMES and path.parent.name else path.stem


def rows_of(task: Task) -> list[Row]:
    """The rows of a task; raises what the replay raises."""
    opened = _OPENED.window(task)
    with tempfile.TemporaryDirectory(prefix="rewake-task-") as folder:
        recording = api.Recording(opened, _name(task.uri))
        rows = (_simulated if task.study.mode == CLOSED else _replayed)(task, recording, Path(folder))
        facts = shard.facts(opened.manifest, recording.quality) | dict(rows.told)
        head = _head(task)
        given = {k: v for k, v in head.items() if v is not None}
        return [head | facts | given | dict(row) for row in rows.policies]


@dataclass(frozen=True)
class _Rows:
    policies: Sequence[Mapping[str, Any]]
    told: Mapping[str, str | None]
    """no_column, missed."""


def _replayed(task: Task, recording: api.Recording, folder: Path) -> _Rows:
    from rewake.replay import _engine

    settings = task.study.settings
    hints = None
    if (text := settings.get("hints_text")) is not None:
        hints = folder / Path(str(settings["hints"])).name
        hints.write_text(text, encoding="utf-8")
    run = recording.replay(
        task.study.policies, sync=settings["sync"], hints=hints, use_probes=settings["probes"], seed=task.seed,
        out=folder / "task.run", force=True,
    )  # fmt: skip
    made = Run(run.path)
    if problems := runs.plugin_problems(made):
        raise PluginError("; ".join(problems))
    con = made.connect()
    try:
        rows = shard.open_loop(con, run.manifest, _engine.bucket_edges())
    finally:
        con.close()
    if not rows:
        raise UsageError("no wakeup in it reached the fair class's placement: there is nothing to count")
    return _Rows(rows, {"no_column": (run.manifest.get("refusals") or {}).get("auto")})


def _simulated(task: Task, recording: api.Recording, folder: Path) -> _Rows:
    from rewake.replay import _engine

    run = recording.simulate(
        task.study.policies, windows=task.study.settings["windows"], seed=task.seed, out=folder / "task.run", force=True
    )
    con = Run(run.path).connect()
    try:
        rows = shard.closed_loop(con, _engine.bucket_edges())
    finally:
        con.close()
    if not rows:
        raise UsageError("no wakeup in it could be simulated: there is nothing to count")
    no_column = None if any(row["auto"] for row in rows) else "no column stands for the recorded kernel"
    return _Rows(rows, {"no_column": no_column, "missed": shard.missed(run.report)})


class _Opened:
    """The trace and the window of the last task: windows of one trace, and seeds of one window, follow each other."""

    def __init__(self) -> None:
        self._trace: tuple[tuple[Any, ...], Recording] | None = None
        self._window: tuple[tuple[Any, ...], Recording] | None = None
        self._copied: Path | None = None
        self._cut: Path | None = None

    def window(self, task: Task) -> Recording:
        """The recording of a task; of a part of one, a copy of that part."""
        trace = self._whole(task)
        if task.from_ns is None and task.until_ns is None:
            return trace
        key = (*_source(task), task.from_ns, task.until_ns)
        if self._window is None or self._window[0] != key:
            from rewake.slicing import slice_recording

            self._forget_window()
            self._cut = Path(tempfile.mkdtemp(prefix="rewake-window-"))
            cut = slice_recording(trace, self._cut / "window.rewake", (task.from_ns, task.until_ns))
            self._window = key, cut
        return self._window[1]

    def places(self, task: Task) -> Iterator[str]:
        """Paths under which what a task reads may have been read."""
        if self._copied is not None:
            yield str(self._copied / task.where.rpartition("/")[2])
        if self._cut is not None:
            yield str(self._cut / "window.rewake")

    def _whole(self, task: Task) -> Recording:
        if self._trace is None or self._trace[0] != _source(task):
            self.close()
            self._trace = _source(task), self._open(task)
        return self._trace[1]

    def _open(self, task: Task) -> Recording:
        from rewake.importing import import_trace

        path = Path(task.where)
        if remote.is_url(task.where):
            self._copied = Path(tempfile.mkdtemp(prefix="rewake-trace-"))
            path = remote.copy(task.where, self._copied)
        if (path / "manifest.json").is_file():
            return Recording(path)
        recording = import_trace(path, task.topology)
        if not remote.is_url(task.where) and recording.manifest["id"] != task.content:
            raise _Unfit(f"{task.uri} has changed since the fleet was started")
        return recording

    def close(self) -> None:
        """Forgets both, and removes the copies."""
        self._forget_window()
        self._trace = None
        if self._copied is not None:
            shutil.rmtree(self._copied, ignore_errors=True)
            self._copied = None

    def _forget_window(self) -> None:
        self._window = None
        if self._cut is not None:
            shutil.rmtree(self._cut, ignore_errors=True)
            self._cut = None


def _source(task: Task) -> tuple[Any, ...]:
    return task.where, task.content, task.topology


_OPENED = _Opened()
atexit.register(_OPENED.close)
