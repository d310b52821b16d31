# SPDX-License-Identifier: GPL-2.0-or-later
"""The back end that lets trace-cmd move the events to the disk while they come."""

from __future__ import annotations

import time

from rewake.collectors.capture import trace_cmd
from rewake.collectors.capture.session import READY_SECONDS, Request
from rewake.collectors.capture.tool import ToolBackEnd
from rewake.collectors.capture.tracefs import Instance
from rewake.errors import RewakeError


class Stream(ToolBackEnd):
    """`trace-cmd record` into the instance."""

    name = "trace-cmd"
    mode = "stream"

    def __init__(self, request: Request) -> None:
        super().__init__(request.directory / "trace.dat")
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

    def written(self) -> int:
        """And what waits in the buffers: trace-cmd reads them when they are half full."""
        assert self._instance is not None
        waiting = sum(s.get("bytes", 0) for s in self._instance.stats().values())
        return waiting + sum(f.stat().st_size for f in trace_cmd.files_of(self.trace))

    def finish(self) -> None:
        super().finish()
        assert self._tool is not None
        if not self.trace.is_file():
            raise RewakeError(f"trace-cmd left no {self.trace}: {self._tool.said()}")
