# SPDX-License-Identifier: GPL-2.0-or-later
"""The back end trace-cmd: its arguments, and a process that records until it is told to stop.

trace-cmd records into the instance that we made, so that nothing of the main buffer changes. `-d -k --no-filter`
keep it away from kernel.ftrace_enabled, set_ftrace_filter and set_ftrace_pid, which a locked-down kernel refuses; what
`-k` leaves behind goes with the instance.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rewake.collectors.capture import process
from rewake.collectors.capture.process import Tool
from rewake.errors import RewakeError

ADVICE = "install trace-cmd (apt install trace-cmd), or use rewake record --emit-script, which does without"
MIN_COMPRESSION = (3, 0)
"""From here on files are of version 7, and trace-cmd would choose a compression that may not be zstd."""


@dataclass(frozen=True)
class Options:
    """What to record. `buffer_kb` is per CPU."""

    instance: str
    events: tuple[str, ...]
    clock: str
    buffer_kb: int
    output: Path


def arguments(o: Options, version: tuple[int, int] = (3, 1)) -> list[str]:
    """The command line of one recording; it has no command to run, so it records until SIGINT."""
    return [
        "trace-cmd", "record", "-o", str(o.output), *(["--compression", "none"] if version >= MIN_COMPRESSION else []),
        "-B", o.instance, "-d", "-k", "--no-filter", "-C", o.clock, "-b", str(o.buffer_kb),
        *(word for event in o.events for word in ("-e", event)),
    ]  # fmt: skip


def parse_version(text: str) -> tuple[int, int] | None:
    match = re.search(r"version (\d{1,4})\.(\d{1,4})", text)
    return (int(match[1]), int(match[2])) if match else None


def version() -> tuple[int, int] | None:
    """Of the installed trace-cmd; None: there is none. Raises RewakeError where it does not run."""
    if shutil.which("trace-cmd") is None:
        return None
    return parse_version(process.ask(["trace-cmd", "--version"])[1]) or (0, 0)


def installed() -> tuple[int, int]:
    """As `version`; raises RewakeError when there is none."""
    found = version()
    if found is None:
        raise RewakeError(f"trace-cmd is not installed: {ADVICE}")
    return found


def files_of(output: Path) -> Sequence[Path]:
    """What trace-cmd has written so far: one file per CPU until it puts them together at the end."""
    return [p for p in output.parent.glob(f"*{output.name}*") if p.is_file()]


def start(o: Options) -> Tool:
    """Starts trace-cmd; it is ready when the instance's tracing_on says 1."""
    return Tool(arguments(o, installed()), o.output.parent / "trace-cmd.log")
