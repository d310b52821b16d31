# SPDX-License-Identifier: GPL-2.0-or-later
"""The back end that lets trace-cmd move the events to the disk while they come."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rewake.collectors.capture import trace_cmd
from rewake.collectors.capture.process import Tool
from rewake.collectors.capture.session import FINISH_SECONDS, READY_SECONDS, Request
from rewake.collectors.capture.tracefs import Instance
from rewake.errors import RewakeError


class Stream:
    """`trace-cmd record` into the instance."""

    name = "trace-cmd"
    mode = "stream"
    tick_s = 1.0

    def __init__(self, request: Request) -> None:
        self.trace = request.directory / "trace.dat"
        self._tool: Tool | None = None
        self._instance: Instance | None = None

    def start(self, instance: Instance, request: Request, clock: str) -> None:
        self._instance = instance
        options = trace_cmd.Options(instance.name, request.events, clock, request.buffer_kb, self.trace)
        self._tool = trace_cmd.start(options)
        limit = time.monotonic() + READY_SECONDS
        while not instance.on:
            if not self._tool.running:
                raise RewakeError(f"trace-cmd ended before it recorded anything: {self._tool.said()}")
            if time.monotonic() > limit:
                raise RewakeError(f"trace-cmd did not begin within {READY_SECONDS:.0f} s: {self._tool.said()}")
            time.sleep(0.01)

    def pids(self) -> Sequence[int]:
        return [self._tool.pid] if self._tool is not None else []

    def written(self) -> int:
        """And what waits in the buffers: trace-cmd reads them when they are half full."""
        assert self._instance is not None
        waiting = sum(s.get("bytes", 0) for s in self._instance.stats().values())
        return waiting + sum(f.stat().st_size for f in trace_cmd.files_of(self.trace))

    def poll(self) -> str | None:
        return None if self._tool is not None and self._tool.running else "tool"

    def finish(self) -> None:
        assert self._tool is not None
        self._tool.stop(FINISH_SECONDS)
        if not self.trace.is_file():
            raise RewakeError(f"trace-cmd left no {self.trace}: {self._tool.said()}")

    def notes(self) -> dict[str, object]:
        return {}

    def abort(self) -> None:
        if self._tool is not None:
            self._tool.kill()
