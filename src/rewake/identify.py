# SPDX-License-Identifier: GPL-2.0-or-later
"""What a file is, by its content: names lie."""

from __future__ import annotations

import os
from pathlib import Path

from rewake.collectors import unpack
from rewake.errors import TraceError
from rewake.formats import FORMATS, HEAD_BYTES, Format, in_gzip
from rewake.forms.directory import kind_of
from rewake.sniff import utf16

_PACKED_HEAD = 1 << 16  # of a packed file, in which the first HEAD_BYTES of its contents are
_PACKED = (
    (b"\x1f\x8b", "gzip", "gzip -d"), (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"), (b"\xfd7zXZ\0", "xz", "xz -d"),
    (b"BZh", "bzip2", "bzip2 -d"), (b"\x04\x22\x4d\x18", "lz4", "lz4 -d"),
)  # fmt: skip


def identify(path: Path) -> Format:
    """The format. TraceError says what else it looks like and what to do about it."""
    try:
        if (path / "data").is_file() and (path / "data.0").is_file():
            raise TraceError(f"{path}: a directory of `perf record --threads`, not supported: record without --threads")
        if path.is_dir():
            if kind := kind_of(path):
                raise TraceError(f"{path}: a {kind}, and no trace: nothing to import")
            raise TraceError(f"{path}: a directory, and not a recording (no manifest.json): give the trace file itself")
        if not path.is_file():
            what = "not a regular file: write it into one first" if path.exists() else "no such file"
            if str(path) == "-":
                what += "; standard input is not read, as a trace is read more than once: write it into a file first"
            raise TraceError(f"{path}: {what}")
        with path.open("rb") as file:
            start = file.read(_PACKED_HEAD)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    head = start[:HEAD_BYTES]
    if known := _known(head):
        if known.name == "text" and b"\r" in head and b"\n" not in head:
            raise TraceError(f"{path}: text whose lines end in CR alone: give it LF, by tr '\\r' '\\n' < FILE > NEW")
        return known
    if size == 0:
        raise TraceError(f"{path}: empty: the recording was not finished, or the disk was full; record again")
    inside = unpack.gzip_head(start, HEAD_BYTES)
    if inside is None:
        what, advice = _looks_like(head)
        raise TraceError(f"{path}: {what}; {advice}")
    if known := _known(inside):
        return in_gzip(known)
    what, advice = _looks_like(inside) if inside else ("nothing", "pack it again")
    raise TraceError(f"{path}: compressed with gzip, in it: {what}; {advice}")


def _known(head: bytes) -> Format | None:
    return next((f for f in FORMATS if f.sniff(head)), None)


def _looks_like(head: bytes) -> tuple[str, str]:
    record = "record with trace-cmd record"
    for magic, packer, command in _PACKED:
        if head.startswith(magic):
            return f"compressed with {packer}", f"unpack it first: {command}"
    if head[257:262] == b"ustar" or head.startswith(b"PK\3\4"):
        return "an archive", "unpack it and give the trace.dat inside"
    if head.startswith((b"\xc1\x1f\xfc\xc1", b"\xc1\xfc\x1f\xc1")):
        return "looks like a CTF stream (LTTng), which is not supported yet", record
    if head.startswith(b"PAR1"):
        return "a single Parquet file", "give the recording's directory, NAME.rewake"
    if encoding := utf16(head):
        return f"text in {encoding}", f"give it in UTF-8: iconv -f {encoding} -t UTF-8 FILE > NEW"
    if b"\x17\x08\x44tracing".startswith(head):
        return "a trace.dat cut off within its first bytes", "record or copy it again"
    if head.lstrip().startswith((b"{", b"[")):
        return "looks like JSON, which is not supported", record
    if head.lstrip().startswith(b"<"):
        return "looks like HTML or XML, no trace", "a topology goes to --topology"
    if b"\0" not in head and all(c >= 32 or c in b"\t\n\r\x1b" for c in head):
        return "a text file, no trace", record
    return "unknown format, no trace.dat", record
