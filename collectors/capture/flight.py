# SPDX-License-Identifier: GPL-2.0-or-later
"""The flight recorder: the kernel's buffers go round until something ends it, then their last content is the trace.

Nothing is read while it runs. What is kept is the common window: from the moment since which no CPU has overwritten
anything.
"""

from __future__ import annotations

import os
import struct
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rewake.collectors.capture import container
from rewake.collectors.capture.session import Request
from rewake.collectors.capture.tracefs import Instance, Tracefs
from rewake.collectors.capture.watch import Looks, Sample
from rewake.errors import RewakeError

BUFFER_SECONDS = 5.0
POLL_SECONDS = 0.25
WATCHED = ("sched:sched_switch", "sched:sched_waking")
WATCH_BUFFER_KB = 4096
_MISSED = 0b11 << 30
"""Marks in a page's commit word: events were lost before it, and how many stands behind its data."""


class Flight:
    """Events stay in the instance. `stop_ns`: end on the first wakeup that waits this long."""

    name = "tracefs"
    mode = "flight"

    def __init__(self, tracefs: Tracefs, request: Request, stop_ns: int | None) -> None:
        self.trace = request.directory / "trace.dat"
        self.sample: Sample | None = None
        self._tracefs = tracefs
        self._events = request.events
        self._stop_ns = stop_ns
        self._instance: Instance | None = None
        self._watch: Watch | None = None
        self.tick_s = POLL_SECONDS if stop_ns is not None else 1.0

    def start(self, instance: Instance, request: Request, clock: str) -> None:
        self._instance, self._events = instance, request.events
        if self._stop_ns is not None:
            self._watch = Watch(self._tracefs, clock, self._stop_ns)
        instance.enable(request.events)
        instance.write("tracing_on", "1")

    def pids(self) -> Sequence[int]:
        return ()

    def written(self) -> int:
        return 0

    def poll(self) -> str | None:
        if self._watch is None or (sample := self._watch.poll()) is None:
            return None
        assert self._instance is not None
        self._instance.write("tracing_on", "0")  # at once: each moment more overwrites what led to this
        self.sample = sample
        return "latency"

    def notes(self) -> dict[str, object]:
        """What belongs into the snapshot's file `capture`."""
        return {} if self.sample is None else {"stop_latency_ns": self.sample.ns, "stop_tid": self.sample.tid}

    def finish(self) -> None:
        assert self._instance is not None
        self._end_watch()
        with tempfile.TemporaryDirectory(dir=self.trace.parent) as place:
            files = drain(self._instance, Path(place), self._tracefs.page_bytes())
            clip(files, self._tracefs.page_bytes())
            write_trace(self._tracefs, self.trace, files, self._events, self._tracefs.clock())

    def abort(self) -> None:
        self._end_watch()

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None


def drain(instance: Instance, place: Path, page: int) -> dict[int, Path]:
    """What is in the buffers, moved to `place/cpuN`; CPUs without events have none."""
    found = {}
    for folder in sorted((instance.root / "per_cpu").glob("cpu[0-9]*")):
        data = read_pages(folder / "trace_pipe_raw", page)
        first = next(data, None)
        if first is None:
            continue
        file = place / folder.name
        with file.open("wb") as out:
            out.write(first)
            out.writelines(data)
        found[int(folder.name[3:])] = file
    return found


def read_pages(pipe: Path, page: int) -> Iterator[bytes]:
    """Pages until there is none."""
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while True:
            try:
                data = os.read(fd, page)
            except BlockingIOError:
                return
            if len(data) < page:
                return
            yield data
    finally:
        os.close(fd)


def clip(files: Mapping[int, Path], page: int) -> None:
    """Drops whole pages from before the common window. A CPU that overwrote something starts with a marked page; the
    mark goes, for nothing is missing inside the window."""
    started: dict[int, list[int]] = {}
    since = 0
    for cpu, path in files.items():
        with path.open("r+b") as file:
            count = path.stat().st_size // page
            stamps = []
            for i in range(count):
                file.seek(i * page)
                stamps.append(struct.unpack("=Q", file.read(8))[0])
            file.seek(8)
            commit = struct.unpack("=I", file.read(4))[0]
            if commit & _MISSED:
                since = max(since, stamps[0])
                file.seek(8)
                file.write(struct.pack("=I", commit & ~_MISSED))
            started[cpu] = stamps
    for cpu, stamps in started.items():
        # The page that began last before the window still holds events of it.
        drop = max((i for i, at in enumerate(stamps) if at <= since), default=0)
        if drop:
            data = files[cpu].read_bytes()
            files[cpu].write_bytes(data[drop * page :])


def write_trace(tracefs: Tracefs, out: Path, files: Mapping[int, Path], events: Sequence[str], clock: str) -> None:
    """A trace.dat of these pages with this kernel's formats."""

    def read(name: str) -> bytes:
        return (tracefs.root / "events" / name).read_bytes()

    formats = container.Formats(
        read("header_page"), read("header_event"),
        [(e.partition(":")[0], read(e.replace(":", "/", 1) + "/format")) for e in events],
    )  # fmt: skip
    uname = os.uname()
    container.write(
        out, formats, files, clock=clock, uname=f"Linux {uname.nodename} {uname.release} {uname.machine}",
        order="little" if struct.pack("=H", 1)[0] else "big",
    )  # fmt: skip


class Watch:
    """Looks for a wakeup that waited too long, in a small instance of its own that holds switches and wakings only."""

    def __init__(self, tracefs: Tracefs, clock: str, limit_ns: int) -> None:
        missing = [e for e in WATCHED if e not in tracefs.events()]
        if missing:
            raise RewakeError(f"--stop-on: this kernel has no event {' '.join(missing)}")
        self._tracefs, self._clock, self._limit = tracefs, clock, limit_ns
        self._page = tracefs.page_bytes()
        self._place = tempfile.TemporaryDirectory(prefix="rewake-watch-")
        self._looks = Looks()
        self._lost = 0
        self._looked = time.monotonic()
        self._instance = Instance(tracefs, f"rewake-{os.getpid()}-watch")
        self._instance.__enter__()
        try:
            self._instance.set_buffer(WATCH_BUFFER_KB, len(self._instance.stats()))
            self._instance.write("trace_clock", clock)
            self._instance.enable(WATCHED)
            self._instance.write("tracing_on", "1")
        except BaseException:
            self.close()
            raise

    def poll(self) -> Sample | None:
        """The longest wait that ended since the last look, or still goes on; None below the limit."""
        if time.monotonic() - self._looked < POLL_SECONDS:
            return None
        self._looked = time.monotonic()
        place = Path(self._place.name)
        files = drain(self._instance, place, self._page)
        lost = sum(s.get("overrun", 0) + s.get("commit_overrun", 0) for s in self._instance.stats().values())
        if lost != self._lost:  # a task may have got its CPU unseen
            self._lost = lost
            self._looks.forget()
            clip(files, self._page)
        if not files:
            return None
        trace = place / "trace.dat"
        write_trace(self._tracefs, trace, files, WATCHED, self._clock)
        found = self._looks.worst(trace)
        return found if found is not None and found.ns >= self._limit else None

    def close(self) -> None:
        self._instance.remove()
        self._place.cleanup()
