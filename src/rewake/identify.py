# SPDX-License-Identifier: GPL-2.0-or-later
"""What a file is, by its content: names lie."""

from __future__ import annotations

import os
from pathlib import Path

from rewake.errors import TraceError
from rewake.formats import FORMATS, HEAD_BYTES, Format

_PACKED = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"))
_FTRACE_TEXT = (b"# tracer:", b"cpus=", b"version = 6", b"version = 7", b"CPU 0 is empty")


def identify(path: Path) -> Format:
    """The format. TraceError says what else it looks like and what to do about it."""
    try:
        if path.is_dir():
            raise TraceError(f"{path}: a directory, and not a recording (no manifest.json): give the trace file itself")
        if not path.is_file():
            what = "not a regular file" if path.exists() else "no such file"
            raise TraceError(f"{path}: {what}")
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    for known in FORMATS:
        if known.sniff(head):
            return known
    if size == 0:
        raise TraceError(f"{path}: empty: the recording was not finished, or the disk was full; record again")
    what, advice = _looks_like(head)
    raise TraceError(f"{path}: {what}; {advice}")


def _looks_like(head: bytes) -> tuple[str, str]:
    record = "record with trace-cmd record"
    for magic, packer in _PACKED:
        if head.startswith(magic):
            return f"compressed with {packer}", "unpack it and give the trace.dat inside"
    if head[257:262] == b"ustar" or head.startswith(b"PK\3\4"):
        return "an archive", "unpack it and give the trace.dat inside"
    if head.startswith((b"PERFILE2", b"2ELIFREP", b"PERFFILE")):
        return "looks like perf.data, which is not supported yet", record
    if head.startswith((b"\xc1\x1f\xfc\xc1", b"\xc1\xfc\x1f\xc1")):
        return "looks like a CTF stream (LTTng), which is not supported yet", record
    if _is_perfetto(head):
        return "looks like a Perfetto trace, which is not supported yet", record
    if head.startswith(b"PAR1"):
        return "a single Parquet file", "give the recording's directory, NAME.rewake"
    if b"\x17\x08\x44tracing".startswith(head):
        return "a trace.dat cut off within its first bytes", "record or copy it again"
    if head.lstrip().startswith((b"{", b"[")):
        return "looks like JSON, which is not supported", record
    if head.lstrip().startswith(b"<"):
        return "looks like HTML or XML, no trace", "a topology goes to --topology"
    if b"\0" not in head and all(c >= 32 or c in b"\t\n\r\x1b" for c in head):
        if any(mark in head for mark in _FTRACE_TEXT) or b"sched_switch:" in head:
            return "looks like the text of a trace (trace-cmd report, perf script), not supported yet", (
                "give the trace.dat it was printed from"
            )
        return "a text file, no trace", record
    return "unknown format, no trace.dat", record


def _is_perfetto(head: bytes) -> bool:
    """Trace is a sequence of field 1, length-delimited; the first packets are small and nest the same way."""
    at = packets = 0
    while at < len(head) and packets < 3:
        if head[at] != 0x0A:
            return False
        at, length, shift = at + 1, 0, 0
        while at < len(head) and shift <= 28:
            byte = head[at]
            length |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if not byte & 0x80:
                break
        # A packet starts with one of TracePacket's fields: never field 0, never wire type 3, 4, 6 or 7.
        if length == 0 or (at < len(head) and (head[at] >> 3 == 0 or head[at] & 7 in (3, 4, 6, 7))):
            return False
        at, packets = at + length, packets + 1
    return packets > 0
