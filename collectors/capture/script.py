# SPDX-License-Identifier: GPL-2.0-or-later
"""The recorder as one POSIX sh file, for machines where nothing may be installed: record.sh with its values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rewake.collectors.capture import events, probes, tracefs
from rewake.collectors.snapshot import take
from rewake.collectors.snapshot.domains import SHARE_LLC
from rewake.errors import UsageError

TEMPLATE = Path(__file__).with_name("record.sh")
MAX_KB = 256 << 10
"""Size cap of the raw trace unless another is asked for."""
_NAME = re.compile(r"@([A-Z_]+)@")


@dataclass(frozen=True)
class Options:
    """Whole seconds; sizes in KiB, the buffer per CPU. `command` empty: record for `seconds`."""

    seconds: int
    events: tuple[str, ...] = events.ALL
    buffer_kb: int = 8192
    max_kb: int = MAX_KB
    output: str = "rewake-recording.tar"
    command: tuple[str, ...] = ()
    probes: bool = False


def quote(value: object) -> str:
    """One word of sh, whatever it holds. Raises UsageError for a NUL, which no word can hold."""
    text = str(value)
    if "\0" in text:
        raise UsageError("a NUL byte cannot stand in a script")
    return "'" + text.replace("'", "'\\''") + "'"


def words(values: Iterable[object]) -> str:
    return " ".join(map(quote, values))


def whole_seconds(seconds: float) -> int:
    """The script waits in steps of a second."""
    return max(1, math.ceil(seconds))


def emit(options: Options, version: str) -> str:
    """The script. Every value goes through `quote`."""
    root = "/"
    run = f"{words(options.command)} >&2 &\nworkload=$!" if options.command else ":"
    values = {
        "VERSION": _comment(version),
        "SECONDS": quote(options.seconds),
        "EVENTS": words([" ".join(options.events)]),
        "BUFFER_KB": quote(options.buffer_kb),
        "MAX_KB": quote(options.max_kb),
        "OUTPUT": quote(options.output),
        "PLACES": words(tracefs.PLACES),
        "REQUIRED": words(events.REQUIRED),
        "CGROUP_FILES": " -o ".join(f"-name {quote(n)}" for n in take.CGROUP_FILES),
        "MOVING": words(root + f for f in take.MOVING),
        "VERBOSE": quote(root + take.VERBOSE),
        "TREES": words(root + t for t in take.TREES if t != take.SCHED),
        "SCHED": quote(root + take.SCHED),
        "SCHED_TRIES": " ".join(map(str, range(take.SCHED_TRIES))),
        "FILES": words(root + f for f in take.FILES),
        "COMMAND": run,
        "PROBES": quote("yes" if options.probes else ""),
        "PROBES_NEED": probes.NEED,
        "BTF": quote(probes.BTF),
        "DOMAINS": "/sys/kernel/debug/sched/domains",
        "SHARE_LLC": "|".join(sorted(SHARE_LLC)),
        "DOMAIN": quote(probes.DOMAIN),
        "PROBE_IN": quote(probes.WAKEE),
        "PROBE_LLC": quote(probes.LLC.format("DOMAIN")),
        "PROBE_QUEUE": quote(probes.QUEUE),
        "PROBE_OUT": quote(probes.OUT),
    }
    return _NAME.sub(lambda m: values[m[1]], TEMPLATE.read_text(encoding="ascii"))


def _comment(text: str) -> str:
    return re.sub(r"[^\w.+-]", "_", text)
