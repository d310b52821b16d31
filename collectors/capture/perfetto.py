# SPDX-License-Identifier: GPL-2.0-or-later
"""The back end Perfetto: the configuration that traced is given, as text, and the client that hands it over.

linux.process_stats is left out: it would put every command line of the machine into the trace. traced and traced_probes
have to be running; the client records until it is told to stop.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from rewake.collectors.capture.process import Tool
from rewake.collectors.capture.session import READY_SECONDS, Request
from rewake.collectors.capture.tool import ToolBackEnd
from rewake.collectors.capture.tracefs import Instance
from rewake.errors import RewakeError, UsageError

CONNECTED = "Connected to the Perfetto traced service"
"""What the client says once traced has its configuration."""
DRAIN_MS = 250
"""How often traced empties the kernel's buffers."""


@dataclass(frozen=True)
class Options:
    """`buffer_kb`: of the kernel, per CPU; `duration_s` None: until it is told to stop."""

    events: tuple[str, ...]
    buffer_kb: int
    duration_s: float | None = None
    max_bytes: int | None = None


def config(o: Options) -> str:
    """TraceConfig in protobuf's text form. Events are named one by one, switches and wakings in compact form."""
    lines = ["write_into_file: true", "file_write_period_ms: 1000"]
    if o.duration_s is not None:
        lines.append(f"duration_ms: {max(1, round(o.duration_s * 1000))}")  # 0 is without end
    if o.max_bytes is not None:
        lines.append(f"max_file_size_bytes: {o.max_bytes}")
    lines += [
        f"buffers {{ size_kb: {4 * o.buffer_kb} fill_policy: RING_BUFFER }}",
        'data_sources { config { name: "linux.ftrace" ftrace_config {',
        f"  buffer_size_kb: {o.buffer_kb}",
        f"  drain_period_ms: {DRAIN_MS}",
        "  compact_sched { enabled: true }",
        *(f'  ftrace_events: "{e.replace(":", "/", 1)}"' for e in o.events),
        "} } }",
    ]
    return "\n".join(lines) + "\n"


def arguments(config_file: Path, output: Path) -> list[str]:
    """The command line of one recording; it records until SIGINT."""
    return ["perfetto", "--txt", "--config", str(config_file), "--out", str(output)]


class Perfetto(ToolBackEnd):
    """A recording of the whole machine by traced. Its ring-buffer reader is the kernel's main one: no other tracer may
    use that meanwhile."""

    name = "perfetto"
    mode = "perfetto"

    def __init__(self, request: Request) -> None:
        if request.cpus is not None:
            raise UsageError("--tool perfetto: traced records all CPUs; leave out --cpus, or use trace-cmd")
        super().__init__(request.directory / "trace.pftrace")

    def start(self, instance: Instance, request: Request, clock: str) -> None:
        file = request.directory / "perfetto.cfg"
        file.write_text(config(Options(request.events, request.buffer_kb)))
        self._tool = Tool(arguments(file, self.trace), request.directory / "perfetto.log")
        limit = time.monotonic() + READY_SECONDS
        while CONNECTED not in self._tool.said():
            if not self._tool.running:
                raise RewakeError(f"perfetto ended before it recorded anything: {self._tool.said()}")
            if time.monotonic() > limit:
                raise RewakeError(f"traced did not answer within {READY_SECONDS:.0f} s: {self._tool.said()}")
            time.sleep(0.05)
