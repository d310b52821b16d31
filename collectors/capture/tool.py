# SPDX-License-Identifier: GPL-2.0-or-later
"""What back ends share whose tool records into a file until SIGINT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rewake.collectors.capture.process import Tool
from rewake.collectors.capture.session import FINISH_SECONDS


class ToolBackEnd:
    """Everything of session.BackEnd but its name, its mode and how it starts, which sets `_tool`."""

    tick_s = 1.0

    def __init__(self, trace: Path) -> None:
        self.trace = trace
        self._tool: Tool | None = None

    def pids(self) -> Sequence[int]:
        return [self._tool.pid] if self._tool is not None else []

    def written(self) -> int:
        return self.trace.stat().st_size if self.trace.exists() else 0

    def poll(self) -> str | None:
        return None if self._tool is not None and self._tool.running else "tool"

    def finish(self) -> None:
        assert self._tool is not None
        self._tool.stop(FINISH_SECONDS)

    def notes(self) -> dict[str, object]:
        return {}

    def abort(self) -> None:
        if self._tool is not None:
            self._tool.kill()
