# SPDX-License-Identifier: GPL-2.0-or-later
"""How much a recording will be: event rates from a short look, from which buffer and disk follow; and what a loss asks.

The look needs no tool: the events run into a small instance for a second and only the kernel's counters are read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rewake.collectors.capture.tracefs import Instance, Tracefs

LOOK_SECONDS = 1.0
LOOK_BUFFER_KB = 1024
BUFFER_SECONDS = 2.0
"""A reader that is this late still loses nothing at the measured rate."""
MIN_BUFFER_KB, MAX_BUFFER_KB = 4096, 1 << 20
MEMORY_SHARE = 0.25
"""Most of the available memory that all buffers together may take."""


@dataclass(frozen=True)
class Rate:
    """Of one CPU, per second."""

    events: float
    bytes: float


@dataclass(frozen=True)
class Plan:
    """What follows from the rates. Sizes in bytes, `buffer_kb` per CPU; `disk` None without a duration.

    `short` says that memory does not allow the buffer that the rates ask for.
    """

    rates: Mapping[int, Rate]
    buffer_kb: int
    wanted_kb: int
    disk: float | None

    @property
    def short(self) -> bool:
        return self.buffer_kb < self.wanted_kb

    @property
    def events_per_s(self) -> float:
        return sum(r.events for r in self.rates.values())

    @property
    def bytes_per_s(self) -> float:
        return sum(r.bytes for r in self.rates.values())


def rates(stats: Mapping[int, Mapping[str, int]], seconds: float) -> dict[int, Rate]:
    """From the ring buffer's counters after `seconds`; overwritten and dropped events count with the mean size."""
    found = {}
    for cpu, s in stats.items():
        kept = s.get("entries", 0) + s.get("read", 0)
        lost = s.get("overrun", 0) + s.get("commit_overrun", 0) + s.get("dropped", 0)
        size = s.get("bytes", 0) / s["entries"] if s.get("entries") else 0.0
        found[cpu] = Rate((kept + lost) / seconds, (kept + lost) * size / seconds)
    return found


def plan(
    found: Mapping[int, Rate], available_bytes: int, duration_s: float | None, buffer_s: float = BUFFER_SECONDS
) -> Plan:
    """Buffer and disk for these rates. The buffer, a power of two of KiB and the same on each CPU, holds `buffer_s` of
    the busiest CPU."""
    busiest = max((r.bytes for r in found.values()), default=0.0)
    wanted = power_of_two_kb(busiest * buffer_s)
    most = int(available_bytes * MEMORY_SHARE / 1024 / max(len(found), 1))
    buffer_kb = max(64, min(wanted, most, MAX_BUFFER_KB))
    disk = None if duration_s is None else sum(r.bytes for r in found.values()) * duration_s
    return Plan(found, buffer_kb, wanted, disk)


def power_of_two_kb(size: float) -> int:
    """At least `size` bytes and MIN_BUFFER_KB."""
    return max(MIN_BUFFER_KB, 1 << math.ceil(math.log2(max(size, 1024) / 1024)))


def available_memory(meminfo: str) -> int:
    """MemAvailable in bytes, MemFree before 3.14."""
    values = dict(line.partition(":")[::2] for line in meminfo.splitlines())
    for key in ("MemAvailable", "MemFree"):
        words = values.get(key, "").split()
        if words and words[0].isdigit():
            return int(words[0]) * 1024
    return 0


def look(tracefs: Tracefs, events: Sequence[str], seconds: float = LOOK_SECONDS) -> dict[int, Rate]:
    """The machine's present rates: records `seconds` into an instance of its own and throws the events away."""
    with Instance(tracefs) as instance:
        stats = instance.stats()
        instance.set_buffer(LOOK_BUFFER_KB, len(stats))
        instance.enable(events)
        began = time.monotonic()
        instance.write("tracing_on", "1")
        time.sleep(seconds)
        instance.write("tracing_on", "0")
        spent = time.monotonic() - began
        return rates(instance.stats(), spent)


@dataclass(frozen=True)
class Loss:
    """Events that one CPU lost by the kernel's own counters, and a buffer that would have held them."""

    cpu: int
    lost: int
    enough_kb: int


def losses(stats: Mapping[int, Mapping[str, int]], event_bytes: float, buffer_kb: int) -> list[Loss]:
    """CPUs that lost events. `enough_kb`: the present buffer and, on top, room for all that this CPU lost, as if it had
    been lost at once; `event_bytes` is the mean size of a record."""
    found = []
    for cpu, s in sorted(stats.items()):
        lost = s.get("overrun", 0) + s.get("commit_overrun", 0) + s.get("dropped", 0)
        if lost:
            found.append(Loss(cpu, lost, buffer_kb + math.ceil(lost * event_bytes / 1024)))
    return found
