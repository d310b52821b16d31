# SPDX-License-Identifier: GPL-2.0-or-later
"""One recording: snapshot, record, snapshot, restore. Leaves a trace and a snapshot in a directory, ready for import.

The directory holds `trace.dat` (or `perf.data`) and `topology/`. Tracing goes on in an instance of its own, which is
removed whatever happens; a SIGKILL of this process stops the tool (it is told by the kernel) and the next start removes
the instance.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from rewake.collectors.capture import probes, process, sizing
from rewake.collectors.capture.tracefs import Instance, Tracefs
from rewake.collectors.snapshot import load, take
from rewake.collectors.snapshot.cpulist import format_list
from rewake.errors import RewakeError

TICK_SECONDS = 1.0
READY_SECONDS = 60.0
FINISH_SECONDS = 3600.0
DISK_RESERVE = 32 << 20
"""Bytes that stay free on the disk of the recording, on top of a second copy of what was written."""
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Request:
    """What to record and when to stop. `max_bytes` caps the raw trace; `cpus` None: all."""

    events: tuple[str, ...]
    directory: Path
    buffer_kb: int
    cpus: frozenset[int] | None = None
    duration_s: float | None = None
    command: tuple[str, ...] = ()
    probes: bool = False
    max_bytes: int | None = None


@dataclass(frozen=True)
class Progress:
    seconds: float
    bytes: int
    lost: int


@dataclass
class Outcome:
    """What came of it. `stopped_by`: command, duration, signal, size, disk, latency or tool."""

    trace: Path
    stopped_by: str
    seconds: float
    stats: dict[int, dict[str, int]]
    run: process.Run | None = None
    losses: list[sizing.Loss] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


OWN_BUFFERS = ("perf", "perfetto")
"""Modes of the back ends that do not record into the tracing instance."""


class BackEnd(Protocol):
    """How events get from the instance into a file."""

    name: str
    mode: str
    trace: Path
    tick_s: float

    def start(self, instance: Instance, request: Request, clock: str) -> None:
        """Returns once events are being recorded."""

    def pids(self) -> Sequence[int]:
        """Processes that belong to the collector besides this one."""

    def written(self) -> int:
        """Bytes of the trace so far, on the disk or on their way there."""

    def poll(self) -> str | None:
        """A reason to stop now, see Outcome.stopped_by."""

    def finish(self) -> None:
        """Puts the trace in its place; the instance is still there, and off."""

    def notes(self) -> dict[str, object]:
        """More lines for the snapshot's file `capture`."""

    def abort(self) -> None:
        """Ends everything at once; what was recorded does not matter."""


def record(tracefs: Tracefs, back_end: BackEnd, request: Request, report: Callable[[Progress], None]) -> Outcome:
    """Records until the command ends, the time is over, a signal comes, or space runs out."""
    stuck = tracefs.clean()
    topology = request.directory / "topology"
    take.take(topology)
    if not any((topology / "sys/devices/system/cpu").glob("cpu[0-9]*")):
        raise RewakeError(
            "/sys/devices/system/cpu cannot be read, and no recording be made without it: as root, mount -t sysfs sysfs"
            " /sys"
        )
    take.take_moving(topology / "before")
    clock = tracefs.clock()
    with ExitStack() as stack:
        stack.enter_context(_signals_held())
        used = stack.enter_context(ExitStack())  # what can only go after the instance
        instance = stack.enter_context(Instance(tracefs))
        # Others know by the instance that the probes have an owner, so it comes first.
        if request.probes:
            plan = probes.examine(tracefs, probes.llc_level(load(topology).domain))
            added = used.enter_context(probes.installed(tracefs, plan))
            request = replace(request, events=(*request.events, *added))
        else:
            probes.tidy(tracefs)
        if back_end.mode not in OWN_BUFFERS:
            instance.set_buffer(request.buffer_kb, len(instance.stats()))
        instance.write("trace_clock", clock)
        if request.cpus is not None:
            instance.write("tracing_cpumask", cpu_mask(request.cpus))
        try:
            back_end.start(instance, request, clock)
            observers = process.tree([os.getpid(), *back_end.pids()])
            stopped_by, seconds, pid, run = _until(instance, back_end, request, report)
            instance.write("tracing_on", "0")
            take.take_moving(topology / "after")
            if pid is not None:  # the recording is over, the command is not
                run = _outlived(pid, time.monotonic() - seconds)
            back_end.finish()
        except BaseException:
            back_end.abort()
            raise
        texts, stats = (instance.stats_text(), instance.stats()) if back_end.mode not in OWN_BUFFERS else ({}, {})
    page_bytes = tracefs.page_bytes()
    for cpu, text in texts.items():
        (topology / "stats").mkdir(exist_ok=True)
        (topology / "stats" / f"cpu{cpu}").write_text(text)
    (topology / "trace_clock").write_text(f"[{clock}]\n")
    done = Outcome(back_end.trace, stopped_by, seconds, stats, run)
    done.notes += [f"tracing instance {name} of an earlier run is still in use: see rewake doctor" for name in stuck]
    if back_end.mode == "stream":
        done.losses = sizing.losses(stats, _event_bytes(back_end.trace, stats), request.buffer_kb)
    write_notes(
        topology, tool=back_end.name, mode=back_end.mode, events=" ".join(request.events), buffer_kb=request.buffer_kb,
        page_bytes=page_bytes, stopped_by=stopped_by, observers=" ".join(map(str, observers)),
        **({"cpus": format_list(request.cpus)} if request.cpus is not None else {}),
        **back_end.notes(),
        **({"command_status": run.status} if run is not None else {}),
    )  # fmt: skip
    return done


def write_notes(topology: Path, **said: object) -> None:
    """Adds `key=value` lines to the snapshot's file `capture` (collectors.snapshot.captured reads it)."""
    with (topology / "capture").open("a") as file:
        file.writelines(f"{key}={value}\n" for key, value in said.items())


def _event_bytes(trace: Path, stats: dict[int, dict[str, int]]) -> float:
    events = sum(s.get("entries", 0) + s.get("read", 0) for s in stats.values())
    return trace.stat().st_size / events if events else 0.0


def cpu_mask(cpus: frozenset[int]) -> str:
    """The kernel's hexadecimal form, 32-bit words from the highest."""
    bits = sum(1 << c for c in cpus)
    words: list[str] = []
    while bits or not words:
        words.append(f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(reversed(words))


def _stops() -> list[signal.Signals]:
    """Signals that end a recording: nohup has SIGHUP ignored, but one that is held would be heard all the same."""
    return [s for s in _STOPS if signal.getsignal(s) != signal.SIG_IGN]


@contextmanager
def _signals_held() -> Iterator[None]:
    """Signals that would end us, and those of children, wait for `_until` to take them."""
    stops = _stops()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*stops, signal.SIGCHLD))
    try:
        yield
    finally:
        # What came while the trace was being put together asked for what was already under way.
        while signal.sigtimedwait(stops, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _until(
    instance: Instance, back_end: BackEnd, request: Request, report: Callable[[Progress], None]
) -> tuple[str, float, int | None, process.Run | None]:
    """Runs the command, if any, and waits. Returns the reason, the seconds, the pid of a command that still runs, and
    what became of one that ended."""
    began = time.monotonic()
    deadline = None if request.duration_s is None else began + request.duration_s
    pid = process.spawn(request.command) if request.command else None
    told = 0.0
    stops = _stops()
    while True:
        now = time.monotonic()
        if pid is not None and (run := process.reap(pid, began)) is not None:
            return "command", now - began, None, run
        if deadline is not None and now >= deadline:
            return "duration", now - began, pid, None
        if reason := back_end.poll() or _space(back_end, request):
            return reason, now - began, pid, None
        if now - told >= TICK_SECONDS:
            told = now
            lost = sum(s.get("overrun", 0) + s.get("dropped", 0) for s in instance.stats().values())
            report(Progress(now - began, back_end.written(), lost if back_end.mode == "stream" else 0))
        wait = back_end.tick_s if deadline is None else min(back_end.tick_s, max(deadline - now, 0))
        if (came := signal.sigtimedwait((*stops, signal.SIGCHLD), wait)) is not None and came.si_signo in stops:
            if pid is not None and came.si_signo != signal.SIGINT:  # a terminal's Ctrl-C has reached it already
                os.kill(pid, came.si_signo)
            return "signal", time.monotonic() - began, pid, None


def _outlived(pid: int, began: float) -> process.Run | None:
    """The end of a command that outlives its recording. A signal that comes meanwhile is for the command; at a second
    one nobody waits for it any longer."""
    sent = False
    stops = _stops()
    while (run := process.reap(pid, began)) is None:
        came = signal.sigtimedwait((*stops, signal.SIGCHLD), 1.0)
        if came is None or came.si_signo not in stops:
            continue
        if sent:
            return None
        os.kill(pid, came.si_signo)
        sent = True
    return run


def _space(back_end: BackEnd, request: Request) -> str | None:
    written = back_end.written()
    if request.max_bytes is not None and written >= request.max_bytes:
        return "size"
    # At the end the parts become one file, and that is imported: a second copy must fit.
    free = shutil.disk_usage(request.directory).free
    return "disk" if free < written + DISK_RESERVE else None


def require_space(directory: Path, trace_bytes: int = 0) -> None:
    """Raises RewakeError where nothing could be recorded, or not a trace of `trace_bytes` and its second copy."""
    free, need = shutil.disk_usage(directory).free, 2 * (DISK_RESERVE + trace_bytes)
    if free < need:
        raise RewakeError(f"{directory}: {free >> 20} MiB free, {need >> 20} MiB are needed to begin with")
