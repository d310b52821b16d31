# SPDX-License-Identifier: GPL-2.0-or-later
"""The back end perf: its arguments, and a process that records until it is told to stop.

It starts disabled and is enabled through its control pipe, so that its own start is not in the recording (perf 5.10+).
"""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass
from pathlib import Path

from rewake.collectors.capture.process import Tool
from rewake.collectors.capture.session import READY_SECONDS, Request
from rewake.collectors.capture.tool import ToolBackEnd
from rewake.collectors.capture.tracefs import Instance
from rewake.collectors.snapshot.cpulist import format_list
from rewake.errors import RewakeError, UsageError

MOST_KB = 1 << 20
"""2 GiB are refused; of 4 GiB and more perf 6.1 says nothing and records nothing."""
CLOCKS = {"mono": "CLOCK_MONOTONIC"}


@dataclass(frozen=True)
class Options:
    """What to record. `buffer_kb` is per CPU, rounded up to a power of two; `cpus` None: all."""

    events: tuple[str, ...]
    clock: str
    buffer_kb: int
    output: Path
    control: Path
    ack: Path
    cpus: frozenset[int] | None = None


def arguments(o: Options) -> list[str]:
    """The command line of one recording, disabled at first; it records until SIGINT. Every event, with its raw data."""
    return [
        "perf", "record", "-q", "-o", str(o.output), *(["-C", format_list(o.cpus)] if o.cpus else ["-a"]),
        *(["-k", CLOCKS[o.clock]] if o.clock in CLOCKS else []), "-R", "-c", "1", "--no-buildid", "--no-buildid-cache",
        "-m", f"{1 << (max(o.buffer_kb, 4) - 1).bit_length()}K", "-D", "-1", f"--control=fifo:{o.control},{o.ack}",
        "-e", ",".join(o.events),
    ]  # fmt: skip


class Perf(ToolBackEnd):
    """`perf record` of the whole machine."""

    name = "perf"
    mode = "perf"

    def __init__(self, request: Request) -> None:
        if request.buffer_kb > MOST_KB:
            raise UsageError(f"--tool perf: --buffer is {MOST_KB >> 20}G at most: with more, perf records nothing")
        super().__init__(request.directory / "perf.data")

    def start(self, instance: Instance, request: Request, clock: str) -> None:
        control, ack = (request.directory / name for name in ("control", "ack"))
        for fifo in (control, ack):
            os.mkfifo(fifo, 0o600)
        answer = os.open(ack, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        order = os.open(control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            options = Options(request.events, clock, request.buffer_kb, self.trace, control, ack, request.cpus)
            self._tool = Tool(arguments(options), request.directory / "perf.log")
            os.write(order, b"enable\n")
            limit = time.monotonic() + READY_SECONDS
            while not select.select([answer], [], [], 0.05)[0]:
                if not self._tool.running:
                    raise RewakeError(f"perf ended before it recorded anything: {self._tool.said()}")
                if time.monotonic() > limit:
                    raise RewakeError(f"perf did not begin within {READY_SECONDS:.0f} s: {self._tool.said()}")
        finally:
            os.close(order)
            os.close(answer)
