# SPDX-License-Identifier: GPL-2.0-or-later
"""tracefs: where it is, what it allows, and a tracing instance of our own that goes away with one rmdir.

Nothing here touches the kernel's main trace buffer. The instance is named `rewake-PID`; one whose process is dead was
left by a kill and is removed by the next start.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rewake.collectors.snapshot.captured import parse_stats
from rewake.errors import RewakeError

PLACES = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
CLOCKS = ("mono", "global", "local")
"""By preference: the first is ordered across CPUs and close to what other tools print (4.2+ as of an instance)."""
MOUNT = "mount -t tracefs nodev /sys/kernel/tracing"
_NAME = re.compile(r"rewake-(\d{1,9})(?:-watch)?")


def put(file: Path, value: str, flags: int = os.O_TRUNC) -> None:
    """Writes a file of the kernel, which exists; nothing is created. Raises OSError."""
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC | flags)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


class Tracefs:
    """A mounted tracefs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def find(cls, places: Iterable[Path] = PLACES) -> Tracefs:
        """Raises RewakeError with the reason and the remedy: not mounted, not allowed, not in the kernel."""
        denied = None
        for place in places:
            try:
                if "events" in os.listdir(place):
                    if not os.access(place / "instances", os.W_OK | os.X_OK):
                        raise RewakeError(f"{place}: no right to trace: run as root")
                    return cls(place)
            except FileNotFoundError:
                continue
            except PermissionError:
                denied = place
        if denied is not None:
            raise RewakeError(f"{denied}: no right to trace: run as root")
        raise RewakeError(f"tracefs is not mounted: as root, {MOUNT} (or the kernel has no CONFIG_TRACING)")

    def events(self) -> frozenset[str]:
        """All events of the kernel, as `system:event`."""
        try:
            return frozenset((self.root / "available_events").read_text().split())
        except OSError as error:
            raise RewakeError(f"{self.root}/available_events: {error.strerror}") from error

    def clocks(self) -> tuple[str, ...]:
        try:
            return tuple((self.root / "trace_clock").read_text().replace("[", "").replace("]", "").split())
        except OSError:
            return ()

    def clock(self) -> str:
        """The preferred clock that this kernel has."""
        offered = self.clocks()
        return next((c for c in CLOCKS if c in offered), "local")

    def page_bytes(self) -> int:
        """Of a sub-buffer, header and data."""
        with suppress(OSError):
            match = re.search(
                r"char data;\s*offset:(\d+);\s*size:(\d+)", (self.root / "events/header_page").read_text()
            )
            if match:
                return int(match[1]) + int(match[2])
        return os.sysconf("SC_PAGESIZE")

    def stale(self) -> list[str]:
        """Instances that were left behind: their process has ended."""
        return [name for name, pid in self._instances() if not Path(f"/proc/{pid}").exists()]

    def live(self) -> list[str]:
        """Instances of recordings that run, ours left out."""
        return [n for n, pid in self._instances() if Path(f"/proc/{pid}").exists() and int(pid) != os.getpid()]

    def beginning(self) -> bool:
        """Whether a recording that runs has its instance off: it begins, or its tool has buffers of its own."""
        for name in self.live():
            with suppress(OSError):
                if (self.root / "instances" / name / "tracing_on").read_text().strip() != "1":
                    return True
        return False

    def _instances(self) -> list[tuple[str, str]]:
        try:
            names = sorted(os.listdir(self.root / "instances"))
        except OSError:
            return []
        return [(n, m[1]) for n in names if (m := _NAME.fullmatch(n))]

    def clean(self) -> list[str]:
        """Removes what was left behind; the names of instances that could not be removed."""
        stuck = []
        for name in self.stale():
            try:
                Instance(self, name).remove()
            except RewakeError:
                stuck.append(name)
        return stuck


PATIENCE_S = 10.0
"""A reader of an instance that goes may take so long to close it."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals that end us wait: what is made here has somebody to remove it when they come. Not by a mask: a library's
    thread without one would take the signal, and the main thread's handler runs all the same."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    came: list[int] = []
    before: dict[int, Any] = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None: not Python's to give back
            before[number] = signal.signal(number, lambda n, _: came.append(n))
    try:
        yield
    finally:
        for held, handler in before.items():
            signal.signal(held, handler)
        if came:
            signal.raise_signal(came[0])


class Instance:
    """A tracing instance: made on entry, off and empty, removed on exit whatever happened."""

    def __init__(self, tracefs: Tracefs, name: str | None = None) -> None:
        self.tracefs = tracefs
        self.name = name or f"rewake-{os.getpid()}"
        self.root = tracefs.root / "instances" / self.name

    def __enter__(self) -> Self:
        try:
            with undisturbed():
                self.root.mkdir(exist_ok=True)
                self.write("tracing_on", "0")
        except OSError as error:
            raise RewakeError(f"{self.root}: cannot make a tracing instance: {error.strerror}") from error
        except BaseException:  # also a signal that came meanwhile
            self.remove(patience_s=PATIENCE_S)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove(patience_s=PATIENCE_S)

    def remove(self, patience_s: float = 0.0) -> None:
        """Raises RewakeError when a reader still holds it after `patience_s`. A signal waits as long: one that came
        while it was removed would leave it."""
        limit = time.monotonic() + patience_s
        with undisturbed():
            with suppress(RewakeError):
                self.write("tracing_on", "0")
                self.write("events/enable", "0")
            while not self._removed(time.monotonic() < limit):
                time.sleep(0.1)

    def _removed(self, may_wait: bool) -> bool:
        """Whether it is gone; False where a reader holds it and `may_wait`."""
        try:
            self.root.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            busy = error.errno == errno.EBUSY
            if busy and may_wait:
                return False
            hint = "a reader still has it open" if busy else str(error.strerror)
            raise RewakeError(f"{self.root}: cannot remove the tracing instance ({hint}): rmdir it") from error
        return True

    def write(self, file: str, value: str) -> None:
        try:
            put(self.root / file, value)
        except OSError as error:
            raise RewakeError(f"{self.root / file}: cannot write {value!r}: {error.strerror}") from error

    def read(self, file: str) -> str:
        try:
            return (self.root / file).read_text()
        except OSError as error:
            raise RewakeError(f"{self.root / file}: {error.strerror}") from error

    @property
    def on(self) -> bool:
        return self.read("tracing_on").strip() == "1"

    def set_buffer(self, kb: int, n_cpus: int) -> None:
        """KiB per CPU. Raises RewakeError when the kernel has not the memory."""
        try:
            put(self.root / "buffer_size_kb", str(kb))
        except OSError as error:
            raise RewakeError(
                f"{self.root}/buffer_size_kb: {kb} KiB on each of {n_cpus} CPUs: {error.strerror};"
                " give a smaller --buffer, or --events sched"
            ) from error

    def enable(self, events: Iterable[str]) -> None:
        for event in events:
            self.write(f"events/{event.replace(':', '/', 1)}/enable", "1")

    def stats(self) -> dict[int, dict[str, int]]:
        """The ring buffer's counters per CPU, see `parse_stats`."""
        found = {}
        for cpu, text in self.stats_text().items():
            found[cpu] = parse_stats(text)
        return found

    def stats_text(self) -> dict[int, str]:
        found = {}
        for folder in (self.root / "per_cpu").glob("cpu[0-9]*"):
            with suppress(OSError):
                found[int(folder.name[3:])] = (folder / "stats").read_text()
        return dict(sorted(found.items()))
