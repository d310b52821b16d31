# SPDX-License-Identifier: GPL-2.0-or-later
"""What a capture says of itself: the file `capture` of `key=value` lines, and the kernel's counters in `stats/cpuN`.

`rewake record` and the script of --emit-script write both into the snapshot that goes with the trace.
"""

from __future__ import annotations

import re
from typing import Any

from rewake.collectors.snapshot.cpulist import MAX_CPUS, format_list, parse_list
from rewake.collectors.snapshot.files import Files
from rewake.collectors.snapshot.tasks import escape

_NUMBERS = {"buffer_kb", "page_bytes", "command_status", "overhead_pairs", "stop_latency_ns", "stop_tid"}
_SHARES = {"overhead_wall_pct", "overhead_cpu_pct"}
_TEXTS = {"tool", "mode", "events", "stopped_by"}
_COUNTERS = {"entries": "entries", "overrun": "overrun", "commit overrun": "commit_overrun", "bytes": "bytes",
             "dropped events": "dropped", "read events": "read"}  # fmt: skip
_MOST_TIDS = 100_000


def read(files: Files) -> tuple[dict[str, Any] | None, frozenset[int]]:
    """(what is known of the capture, thread ids of the collector); None: a snapshot of another tool."""
    text = files.text("capture")
    if text is None:
        return None, frozenset()
    said = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    known: dict[str, Any] = {}
    for key, value in said.items():
        if key == "cpus" and re.fullmatch(r"[\d,-]{1,4096}", value):
            known[key] = format_list(_cpus(value))
        elif key in _TEXTS:
            known[key] = escape(value)[:4096]
        elif key in _NUMBERS and re.fullmatch(r"-?\d{1,18}", value):
            known[key] = int(value)
        elif key in _SHARES and re.fullmatch(r"-?\d{1,9}(\.\d{1,9})?", value):
            known[key] = float(value)
    tids = [int(t) for t in said.get("observers", "").split() if re.fullmatch(r"\d{1,9}", t)][:_MOST_TIDS]
    known["observers"] = len(tids)
    if (losses := kernel_losses(files)) is not None:
        known["kernel"] = losses
    return known, frozenset(tids)


def _cpus(text: str) -> frozenset[int]:
    try:
        return parse_list(text)
    except ValueError:
        return frozenset()


def kernel_losses(files: Files) -> list[dict[str, int]] | None:
    """The ring buffer's own counters, per CPU in order; None without any."""
    found = []
    for name in files.children("stats", directories=False):
        if match := re.fullmatch(r"cpu(\d{1,5})", name):
            counters = parse_stats(files.text(f"stats/{name}") or "")
            if int(match[1]) < MAX_CPUS and counters:
                found.append({"cpu": int(match[1]), **counters})
    return sorted(found, key=lambda row: row["cpu"]) or None


def parse_stats(text: str) -> dict[str, int]:
    """per_cpu/cpuN/stats of tracefs: entries (unread), overrun, commit_overrun, dropped, read (events), bytes."""
    counters = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in _COUNTERS and re.fullmatch(r"\d{1,18}", value.strip()):
            counters[_COUNTERS[name]] = int(value)
    return counters


def sched_ext(files: Files) -> bool | None:
    """Whether a sched_ext scheduler was loaded; None: not in the snapshot."""
    state = files.line("sys/kernel/sched_ext/state")
    if state is None:
        # A capture copies the directory where the kernel has it.
        return False if files.text("capture") is not None else None
    return state != "disabled"


def core_scheduling(files: Files) -> bool | None:
    """Whether any thread had a cookie, before or after; None: not in the snapshot."""
    counts = [files.number(f"{when}core_cookies") for when in ("", "before/", "after/")]
    known = [c for c in counts if c is not None]
    return any(known) if known else None


def preempt_rt(files: Files) -> bool | None:
    """/sys/kernel/realtime exists on PREEMPT_RT only; None where it is absent: the kernel's name then tells."""
    return True if files.number("sys/kernel/realtime") == 1 else None
