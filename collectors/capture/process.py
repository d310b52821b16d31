# SPDX-License-Identifier: GPL-2.0-or-later
"""Child processes of a capture: the recording tool, the user's command, and who belongs to the collector."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rewake.errors import RewakeError

_PR_SET_PDEATHSIG = 1
_LOG_BYTES = 2000
_LIBC = ctypes.CDLL(None)


def _prepare() -> None:
    """In the child: it stops when we are killed, and hears the signals that we wait for."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class Tool:
    """A recording tool that runs until SIGINT, in a session of its own: Ctrl-C is ours to handle. Output to `log`."""

    def __init__(self, argv: Sequence[str], log: Path) -> None:
        self.argv = list(argv)
        self.log = log
        with log.open("wb") as out:
            try:
                self._child = subprocess.Popen(
                    self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                    preexec_fn=_prepare, env={**os.environ, "LC_ALL": "C"},
                )  # fmt: skip
            except OSError as error:
                raise RewakeError(f"{self.argv[0]}: {error.strerror}") from error
        self.pid = self._child.pid

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def stop(self, timeout: float) -> None:
        """Lets it finish what it writes. Raises RewakeError when it fails, or takes longer than `timeout` s."""
        if self.running:
            self._child.send_signal(signal.SIGINT)
        try:
            status = self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RewakeError(f"{self.argv[0]} did not finish within {timeout:.0f} s: {self.said()}") from None
        if status not in (0, -signal.SIGINT):
            raise RewakeError(f"{self.argv[0]} failed with status {status}: {self.said()}")

    def kill(self) -> None:
        """With its helpers, without waiting for anything to be written."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._child.wait()

    def said(self) -> str:
        """The end of its output, in one line."""
        try:
            lines = self.log.read_bytes()[-_LOG_BYTES:].decode("utf-8", "replace").split("\n")
        except OSError:
            return "it wrote no log"
        return "; ".join(x.strip() for x in lines if x.strip())[-400:] or "it said nothing"


def ask(argv: Sequence[str], seconds: float = 20.0) -> tuple[int, str]:
    """Status and output, or else errors, of a tool that only says something. Raises RewakeError where it does not run,
    or does not end within `seconds`."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=seconds)
    except OSError as error:
        raise RewakeError(f"{argv[0]} does not run: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise RewakeError(f"{' '.join(argv)} does not end") from None
    return done.returncode, (done.stdout or done.stderr).decode("utf-8", "replace")


@dataclass(frozen=True)
class Run:
    """What a command did: exit status (minus a signal), wall and CPU seconds, the latter with all its children."""

    status: int
    wall_s: float
    cpu_s: float


def spawn(command: Sequence[str]) -> int:
    """Starts the user's command in our process group, its output on stderr: stdout is ours. Returns the pid."""
    try:
        return os.posix_spawnp(
            command[0], list(command), os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)], setsigmask=()
        )
    except OSError as error:
        raise RewakeError(f"{command[0]}: {error.strerror}") from error


def reap(pid: int, began: float, *, wait: bool = False) -> Run | None:
    """The end of a command that was spawned at `began` (monotonic); None while it runs, unless `wait`."""
    got, status, usage = os.wait4(pid, 0 if wait else os.WNOHANG)
    if got == 0:
        return None
    return Run(os.waitstatus_to_exitcode(status), time.monotonic() - began, usage.ru_utime + usage.ru_stime)


def tree(roots: Iterable[int]) -> list[int]:
    """Thread ids of the processes `roots` and all their descendants, ascending."""
    parent: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_bytes()
            except OSError:
                continue
            if match := re.match(rb" \w (\d+) ", stat.rpartition(b")")[2]):
                parent[int(entry.name)] = int(match[1])
    members = set(roots)
    while more := {pid for pid, up in parent.items() if up in members and pid not in members}:
        members |= more
    tids: set[int] = set()
    for pid in members:
        try:
            tids.update(int(t) for t in os.listdir(f"/proc/{pid}/task"))
        except OSError:
            continue
    return sorted(tids)
