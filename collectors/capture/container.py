# SPDX-License-Identifier: GPL-2.0-or-later
"""Raw ring-buffer pages and format files put into a trace.dat (version 6), which the decoder reads.

Layout: trace-cmd.dat.v6(5). The pages are those of the kernel's per_cpu/cpuN/trace_pipe_raw, copied as they are.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rewake.errors import TraceError

MAX_PAGE = 1 << 24
_MAGIC = b"\x17\x08\x44tracing"
_CPU_COUNT, _TRACE_CLOCK, _UNAME = 8, 4, 5


@dataclass(frozen=True)
class Formats:
    """Of tracefs: events/header_page, events/header_event, and (system, text) of the recorded events."""

    header_page: bytes
    header_event: bytes
    events: Sequence[tuple[str, bytes]]


def page_bytes(header_page: bytes) -> tuple[int, int]:
    """(bytes of a sub-buffer, bytes of a long) as events/header_page has them. Raises TraceError."""
    data = re.search(rb"char data;\s*offset:(\d{1,4});\s*size:(\d{1,9});", header_page)
    commit = re.search(rb"commit;\s*offset:\d{1,4};\s*size:([48]);", header_page)
    size = int(data[1]) + int(data[2]) if data else 0
    if commit is None or not 64 <= size <= MAX_PAGE or size & (size - 1):
        raise TraceError("formats/header_page does not describe a ring-buffer page: record again")
    return size, int(commit[1])


def write(
    out: Path, formats: Formats, pages: Mapping[int, Path], *, clock: str, uname: str, order: str = "little"
) -> None:
    """`pages`: the file of each CPU's pages; a last page that was cut off is left out. `clock` and `uname` may be
    empty: not known. Raises TraceError, OSError."""
    size, long_size = page_bytes(formats.header_page)
    end = "<" if order == "little" else ">"
    count = max(pages, default=-1) + 1

    def u32(n: int) -> bytes:
        return struct.pack(end + "I", n)

    def u64(n: int) -> bytes:
        return struct.pack(end + "Q", n)

    def option(number: int, data: bytes) -> bytes:
        return struct.pack(end + "HI", number, len(data)) + data

    with out.open("wb") as file:
        file.write(_MAGIC + b"6\0" + bytes([end == ">", long_size]) + u32(size))
        for name, text in ((b"header_page", formats.header_page), (b"header_event", formats.header_event)):
            file.write(name + b"\0" + u64(len(text)) + text)
        file.write(u32(0))  # the function tracer's own events
        systems: dict[str, list[bytes]] = {}
        for system, text in formats.events:
            systems.setdefault(system, []).append(text)
        file.write(u32(len(systems)))
        for system, texts in systems.items():
            file.write(system.encode() + b"\0" + u32(len(texts)))
            file.writelines(u64(len(text)) + text for text in texts)
        file.write(u32(0) + u32(0) + u64(0))  # symbols, formats of printk, names of tasks
        file.write(u32(count) + b"options  \0")
        file.write(option(_CPU_COUNT, u32(count)))
        if clock:
            file.write(option(_TRACE_CLOCK, f"[{clock}]".encode() + b"\0"))
        if uname:
            file.write(option(_UNAME, uname.encode("utf-8", "surrogateescape") + b"\0"))
        file.write(bytes(2) + b"flyrecord\0")
        lengths = {cpu: path.stat().st_size // size * size for cpu, path in pages.items()}
        at = -(-(file.tell() + 16 * count) // size) * size
        for cpu in range(count):
            file.write(u64(at) + u64(lengths.get(cpu, 0)))
            at += lengths.get(cpu, 0)
        file.write(bytes(-file.tell() % size))
        for cpu in range(count):
            if cpu in pages:
                with pages[cpu].open("rb") as source:
                    _copy(source, file, lengths[cpu])


def _copy(source: IO[bytes], target: IO[bytes], length: int) -> None:
    began = target.tell()
    shutil.copyfileobj(source, target, 1 << 20)
    target.seek(began + length)
    target.truncate()
