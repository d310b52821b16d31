# SPDX-License-Identifier: GPL-2.0-or-later
"""A process that does tasks one after another, and its keeper.

Whatever happens in it (a crash in native code, a task that never ends, one that takes too much memory) costs the one
task and nothing else: the keeper starts another process. Every engine does its work in cells, so a task has one cost,
one set of limits and one answer under all of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rewake.fleet.tasks import Task
from rewake.fleet.work import BROKEN, DONE, FAILED, MEMORY, Outcome, failure
from rewake.forms import FleetStore, confine

TRIES, TRIES_KILLED = 2, 3
"""How often a task is tried that ends its process: by a fault of its own, or killed from outside."""
_DUCKDB_SHARE = 0.5
"""Of a cell's memory, what the database may hold before it spills."""
_PR_SET_PDEATHSIG = 1
_PREFIX = "rewake-cell-"
_PUTTING = threading.Lock()
"""Keepers are threads of one process, and share its database."""


@dataclass(frozen=True)
class Limits:
    """What one task may take."""

    memory_bytes: int | None = 2 << 30
    seconds: float | None = 1800.0


class Cell:
    """The keeper of one process; not to be shared between threads. `run` never raises for what a task does."""

    def __init__(self, store: str, limits: Limits) -> None:
        self._store, self._limits = FleetStore(store), limits
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._scratch: Path | None = None
        self._buffer = b""
        self._closed = False
        self._stopped = False

    def stop(self) -> None:
        """From another thread: ends what is under way; no verdict on it is kept."""
        self._stopped = True
        if (process := self._process) is not None:
            process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Of the process, where there is one."""
        return None if self._process is None else self._process.pid

    def run_all(self, bundle: Sequence[Task]) -> Iterator[Outcome]:
        """Does tasks one after another; of several, those that an earlier try has done are not done again."""
        for task in bundle:
            if len(bundle) > 1 and self._store.has(task.key):
                yield Outcome(task.key, DONE)
            else:
                yield self.run(task)

    def run(self, task: Task) -> Outcome:
        """Does a task; a failure that ended the process is kept like any other."""
        began = time.monotonic()
        tries = 0
        while True:
            tries += 1
            self._start()
            answer = self._ask(task)
            if answer is not None and answer["error"] != MEMORY:
                return Outcome(**answer)
            if answer is not None:  # its database may be in pieces
                self.close()
                kind, message = MEMORY, str(answer["message"])
                break
            assert self._process is not None
            timed_out = self._process.poll() is None and not self._gone()
            code = self.close()
            if self._stopped:
                return Outcome(task.key, BROKEN, time.monotonic() - began, error="stopped", message="stopped")
            if timed_out:
                kind, message = "timeout", f"took longer than {self._limits.seconds:g} s (--timeout)"
                break
            if tries >= (TRIES_KILLED if code == -signal.SIGKILL else TRIES):
                kind, message = "crash", f"the process that did it died {tries} times: {_cause(code)}"
                break
        spent = time.monotonic() - began
        try:
            with _PUTTING:
                written = self._store.put(task.key, failure(task, kind, message))
        except Exception as fault:
            return Outcome(task.key, BROKEN, spent, error="store", message=f"the shard could not be written: {fault}")
        return Outcome(task.key, FAILED, spent, written=written, error=kind, message=message)

    def _gone(self) -> bool:
        """Whether the process is ending: its end of the socket is closed before it can be waited for."""
        assert self._process is not None and self._socket is not None
        if not self._closed:
            return False
        self._process.wait(10)
        return True

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        ours, theirs = socket.socketpair()
        self._scratch = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        environment = {**os.environ, "TMPDIR": str(self._scratch), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), str(self._limits.memory_bytes or 0)],
                pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            )  # fmt: skip
        self._socket, self._buffer, self._closed = ours, b"", False

    def _ask(self, task: Task) -> dict[str, Any] | None:
        """The answer; None where the process died or time is up."""
        assert self._socket is not None
        line = json.dumps({"store": self._store.where, "task": task.plain()}).encode() + b"\n"
        ends = None if self._limits.seconds is None else time.monotonic() + self._limits.seconds
        try:
            self._socket.settimeout(None)
            self._socket.sendall(line)
            while b"\n" not in self._buffer:
                if ends is not None:
                    self._socket.settimeout(max(0.001, ends - time.monotonic()))
                got = self._socket.recv(1 << 16)
                if not got:
                    self._closed = True
                    return None
                self._buffer += got
        except TimeoutError:
            return None
        except OSError:  # it died while it was being told
            self._closed = True
            return None
        answer, _, self._buffer = self._buffer.partition(b"\n")
        told: dict[str, Any] = json.loads(answer)
        return told

    def close(self) -> int:
        """Ends the process, and clears away what it left; its exit code."""
        code = 0
        if self._process is not None:
            self._process.kill()
            code = self._process.wait()
            self._process = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None
        return code


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return name + (" (out of memory, or killed by hand)" if code == -signal.SIGKILL else "")


def sweep() -> None:
    """Removes the scratch directories of keepers that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


# --- the process ---


def _serve(fd: int, memory: int) -> None:
    """Tasks from the socket, answers back, until the keeper is gone."""
    keeper = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != keeper:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the keeper decides
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    confine(int(memory * _DUCKDB_SHARE) if memory else None)
    from rewake.fleet.work import do

    stores: dict[str, FleetStore] = {}
    with socket.socket(fileno=fd) as connection, connection.makefile("rb") as lines:
        for line in lines:
            told = json.loads(line)
            store = stores.setdefault(told["store"], FleetStore(told["store"]))
            outcome = do(Task.of(told["task"]), store)
            try:
                connection.sendall(json.dumps(outcome.plain()).encode() + b"\n")
            except ConnectionError:  # the keeper is gone
                return


if __name__ == "__main__":
    _serve(int(sys.argv[1]), int(sys.argv[2]))
