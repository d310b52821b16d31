# SPDX-License-Identifier: GPL-2.0-or-later
"""What records better: in the words of the program that made a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Recorder:
    """Continuations of `record with`: larger buffers, another clock, and one event more ({}: its name)."""

    buffers: str = "larger buffers"
    clock: str = "another clock, such as mono"
    event: str = "{}"
    between: str = " and "

    def events(self, names: Sequence[str]) -> str:
        return self.between.join(self.event.format(name) for name in names)


_REWAKE = Recorder("larger buffers: rewake record --buffer")
_TRACE_CMD = Recorder("larger buffers: -b", "another clock: -C mono", "-e {}", " ")
_PERF = Recorder("larger buffers: perf record -m", "another clock: perf record -k mono", "-e sched:{}", " ")
_PERFETTO = Recorder(
    "larger buffers: buffer_size_kb of ftrace_config, size_kb of buffers", event='ftrace_events: "sched/{}"'
)
_TRACEFS = Recorder(
    "larger buffers: buffer_size_kb", "another clock: echo mono > trace_clock", "events/sched/{}/enable"
)
_ATRACE = Recorder("larger buffers: -b")
_BY_FORMAT = {
    "trace.dat": _TRACE_CMD, "perf.data": _PERF, "pftrace": _PERFETTO, "atrace -z": _ATRACE,
    "trace-cmd report": _TRACE_CMD, "tracefs": _TRACEFS, "systrace HTML": _ATRACE,
}  # fmt: skip


def of(manifest: Mapping[str, Any]) -> Recorder:
    """What made a recording, from its manifest; text without a header may be of any."""
    if manifest.get("capture"):
        return _REWAKE
    source = manifest.get("source") or {}
    kind = source.get("version") if source.get("format") == "text" else source.get("format")
    return _BY_FORMAT.get(str(kind), Recorder())
