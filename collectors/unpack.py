# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces that are compressed as a whole or packet by packet, unpacked into a file without a name.

Any trace may be packed with gzip. `atrace -z` leaves the word TRACE: and a zlib stream; Perfetto's `compression_type:
COMPRESSION_TYPE_DEFLATE` packs runs of packets into one packet (TracePacket.compressed_packets, field 50). What lies
before damage is kept and the damage is told. Memory is constant and what goes to the disk is capped, whatever the file
says.
"""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from rewake.errors import TraceError

GZIP = b"\x1f\x8b"
_ATRACE = b"TRACE:\n"
_BLOCK = 1 << 20
_FEED = 1 << 14  # packed bytes at a time: what is left of one is copied at the end of each gzip member
_MOST_RATIO, _FREE = 200, 1 << 30  # text packs to a tenth or so; small files may unpack to _FREE in any case
_MAX_PACKET = 1 << 30
_COMPRESSED_PACKETS = 50
_ZLIB, _GZIP = zlib.MAX_WBITS, zlib.MAX_WBITS | 16


@dataclass
class Unpacked:
    """An unpacked trace: `path` can be opened while the context lasts. `damage`: what could not be unpacked."""

    path: Path
    damage: list[str]


@contextmanager
def gzip(path: Path) -> Iterator[Unpacked]:
    """The contents of a gzip file of one member or more. Raises TraceError."""
    with _Unpacking(path) as to:
        size = path.stat().st_size
        while to.source.tell() < size:
            start = to.source.tell()
            is_member = to.source.read(len(GZIP)) == GZIP
            to.source.seek(start)
            if not is_member:
                if any(
                    block.strip(b"\0") for block in iter(partial(to.source.read, _BLOCK), b"")
                ):  # tapes pad with zeros
                    to.damaged("bytes behind the gzip data, skipped", start)
                break
            if not to.inflate("gzip data", size - start, _GZIP):
                break
        with to.named() as unpacked:
            yield unpacked


def gzip_head(head: bytes, most: int) -> bytes | None:
    """The first bytes of what is packed in a file that begins with `head`; None: not gzip, or damaged."""
    if not head.startswith(GZIP):
        return None
    try:
        return zlib.decompressobj(_GZIP).decompress(head, most)
    except zlib.error:
        return None


@contextmanager
def atrace(path: Path) -> Iterator[Unpacked]:
    """The text in the output of `atrace -z`. Raises TraceError."""
    with _Unpacking(path) as to:
        head = to.source.read(4096)
        start = head.find(_ATRACE) + len(_ATRACE)
        while head[start : start + 1] in (b"\r", b"\n"):
            start += 1
        to.source.seek(start)
        to.inflate("zlib", path.stat().st_size - start, _ZLIB)
        with to.named() as unpacked:
            yield unpacked


@contextmanager
def pftrace(path: Path) -> Iterator[Unpacked]:
    """The trace with every compressed packet replaced by the packets in it. Raises TraceError."""
    with _Unpacking(path) as to:
        file = to.source
        size = path.stat().st_size
        while (start := file.tell()) < size:
            tag, length = _varint(file), _varint(file)
            if tag is None or length is None or tag & 7 != 2 or length > size - file.tell():
                file.seek(start)  # the decoder says what is wrong with it
                to.copy(size - start)
                break
            body = file.tell()
            inner, packed = _varint(file), _varint(file)
            whole = packed is not None and file.tell() + packed == body + length
            if tag >> 3 == 1 and inner == _COMPRESSED_PACKETS << 3 | 2 and packed is not None and whole:
                if packed > _MAX_PACKET:
                    raise TraceError(f"{path}: offset {start}: compressed packet of {packed} bytes; refusing it")
                to.inflate("compressed packet", packed, _ZLIB)
            else:
                file.seek(start)
                to.copy(body + length - start)
            file.seek(body + length)
        with to.named() as unpacked:
            yield unpacked


class _Unpacking:
    """From a packed file, `source`, into one that goes away: beside it, where there is room to be expected, else where
    temporary files are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._most = max(path.stat().st_size * _MOST_RATIO, _FREE)
        self._damage: dict[str, list[int]] = {}  # what: offsets, of which the first and the number are told

    def __enter__(self) -> _Unpacking:
        with ExitStack() as stack:
            try:
                self.source = stack.enter_context(self.path.open("rb"))
            except OSError as error:
                raise TraceError(f"{self.path}: {error.strerror}") from error
            try:
                self.out = stack.enter_context(tempfile.TemporaryFile(dir=self.path.absolute().parent))
            except OSError:
                self.out = stack.enter_context(tempfile.TemporaryFile())
            self._close = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()

    def damaged(self, what: str, offset: int) -> None:
        self._damage.setdefault(what, []).append(offset)

    @contextmanager
    def named(self) -> Iterator[Unpacked]:
        """What was written; errors that name it name the trace instead."""
        damage = [
            f"{what}: {f'{len(at)} times, first at ' if len(at) > 1 else ''}offset {at[0]}"
            for what, at in self._damage.items()
        ]
        try:
            self.out.flush()
            path = Path(f"/proc/self/fd/{self.out.fileno()}")
            yield Unpacked(path, damage)
        except OSError as error:
            raise self._full(error) from error
        except TraceError as error:
            told = str(error).replace(str(path), f"{self.path} (unpacked)")
            raise TraceError("; ".join([told, *damage])) from None

    def write(self, block: bytes) -> None:
        if self.out.tell() + len(block) > self._most:
            raise TraceError(
                f"{self.path}: unpacks to more than {self._most} bytes; no trace packs so well: refusing it"
            )
        try:
            self.out.write(block)
        except OSError as error:
            raise self._full(error) from error

    def copy(self, length: int) -> None:
        while length > 0 and (block := self.source.read(min(length, _BLOCK))):
            self.write(block)
            length -= len(block)

    def inflate(self, what: str, length: int, kind: int) -> bool:
        """Unpacks a stream in the next `length` bytes; the source is then behind it. False where damage ended it early,
        which is told; TraceError when there is nothing before the damage."""
        unpacker = zlib.decompressobj(kind)
        start, made, fed = self.source.tell(), self.out.tell(), 0
        reason = "ends in the middle"
        while not unpacker.eof and (block := self.source.read(min(length - fed, _FEED))):
            before, good = unpacker.copy(), self.out.tell()
            try:
                self._feed(unpacker, block)
                fed += len(block) - len(unpacker.unused_data)
            except zlib.error as error:
                # The call that fails gives nothing of what it unpacked: again, to the byte that is wrong.
                reason = str(error).rpartition(": ")[2]
                self.out.seek(good)
                for byte in range(len(block)):
                    try:
                        self._feed(before, block[byte : byte + 1])
                    except zlib.error:
                        break
                    fed += 1
                break
        self.source.seek(start + fed)
        if unpacker.eof:
            return True
        if self.out.tell() == made:
            raise TraceError(f"{self.path}: offset {start + fed}: {what}: {reason}; copy the file again")
        self.damaged(f"{what}, what is behind is lost: {reason}", start + fed)
        return False

    def _feed(self, unpacker: zlib._Decompress, block: bytes) -> None:
        while block:
            self.write(unpacker.decompress(block, _BLOCK))
            block = unpacker.unconsumed_tail

    def _full(self, error: OSError) -> TraceError:
        return TraceError(f"{self.path}: cannot unpack it: {error.strerror}; give room by TMPDIR")


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
