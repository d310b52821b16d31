# SPDX-License-Identifier: GPL-2.0-or-later
"""The back end Perfetto: the configuration that traced is given, as text.

linux.process_stats is left out: it would put every command line of the machine into the trace.
"""

from __future__ import annotations

from dataclasses import dataclass

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
        lines.append(f"duration_ms: {round(o.duration_s * 1000)}")
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
