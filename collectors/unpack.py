# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces that are compressed as a whole or packet by packet, unpacked into a file that goes away.

`atrace -z` leaves the word TRACE: and a zlib stream; Perfetto's `compression_type: COMPRESSION_TYPE_DEFLATE` packs runs
of packets into one packet (TracePacket.compressed_packets, field 50). Sizes are capped: both come from a file that may
be hostile.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rewake.errors import TraceError

_ATRACE = b"TRACE:\n"
_BLOCK = 1 << 20
_MOST_RATIO = 1100  # deflate cannot do better than 1032:1
_MAX_PACKET = 1 << 30
_COMPRESSED_PACKETS = 50


@contextmanager
def atrace(path: Path) -> Iterator[Path]:
    """The text in the output of `atrace -z`. Raises TraceError."""
    with _beside(path) as out, path.open("rb") as file:
        head = file.read(4096)
        start = head.find(_ATRACE) + len(_ATRACE)
        while head[start : start + 1] in (b"\r", b"\n"):
            start += 1
        file.seek(start)
        _inflate(path, file, path.stat().st_size, out)
        with _named(path, out) as unpacked:
            yield unpacked


@contextmanager
def pftrace(path: Path) -> Iterator[Path]:
    """The trace with every compressed packet replaced by the packets in it. Raises TraceError."""
    with _beside(path) as out, path.open("rb") as file:
        size = path.stat().st_size
        while (start := file.tell()) < size:
            tag, length = _varint(file), _varint(file)
            if tag is None or length is None or tag & 7 != 2 or length > size - file.tell():
                file.seek(start)  # the decoder says what is wrong with it
                _copy(file, out, size - start)
                break
            body = file.tell()
            inner, packed = _varint(file), _varint(file)
            whole = packed is not None and file.tell() + packed == body + length
            if tag >> 3 == 1 and inner == _COMPRESSED_PACKETS << 3 | 2 and packed is not None and whole:
                if packed > _MAX_PACKET:
                    raise TraceError(f"{path}: offset {start}: compressed packet of {packed} bytes; refusing it")
                _inflate(path, file, packed, out)
            else:
                file.seek(start)
                _copy(file, out, body + length - start)
            file.seek(body + length)
        with _named(path, out) as unpacked:
            yield unpacked


@contextmanager
def _beside(path: Path) -> Iterator[IO[bytes]]:
    """A file that goes away: beside the trace, where there is room to be expected, else in the usual place."""
    folder = path.absolute().parent
    try:
        out = tempfile.NamedTemporaryFile(prefix="rewake-unpack-", dir=folder)  # noqa: SIM115
    except OSError:
        out = tempfile.NamedTemporaryFile(prefix="rewake-unpack-")  # noqa: SIM115
    with out:
        yield out


@contextmanager
def _named(path: Path, out: IO[bytes]) -> Iterator[Path]:
    """The written file; errors that name it name the trace instead."""
    out.flush()
    try:
        yield Path(out.name)
    except TraceError as error:
        raise TraceError(str(error).replace(out.name, f"{path} (unpacked)")) from None


def _inflate(path: Path, file: IO[bytes], length: int, out: IO[bytes]) -> None:
    """A zlib stream of at most `length` bytes. What lies before damage is kept: the decoder counts what it lacks."""
    unpacker = zlib.decompressobj()
    left, made, most = length, 0, length * _MOST_RATIO
    while left > 0 and not unpacker.eof:
        block = file.read(min(left, _BLOCK))
        if not block:
            break
        left -= len(block)
        while block:
            try:
                text = unpacker.decompress(block, _BLOCK)
            except zlib.error as error:
                if made:
                    return
                raise TraceError(f"{path}: offset {file.tell()}: not a readable zlib stream ({error})") from None
            made += len(text)
            if made > most:
                raise TraceError(f"{path}: unpacks to more than {most} bytes; refusing it")
            out.write(text)
            block = unpacker.unconsumed_tail


def _copy(file: IO[bytes], out: IO[bytes], length: int) -> None:
    while length > 0 and (block := file.read(min(length, _BLOCK))):
        out.write(block)
        length -= len(block)


def _varint(file: IO[bytes]) -> int | None:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None
