# SPDX-License-Identifier: GPL-2.0-or-later
"""Formats without a magic number, told by the first bytes of a file."""

from __future__ import annotations

import re
import zlib

_UTF8_MARK, _UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_HEADERS = (b"# tracer:", b"cpus=", b"version = 6", b"version = 7", b"CPU 0 is empty", b"# ========\n# captured on")
_HTML = re.compile(rb"\s*<(?:!doctype html|html)", re.IGNORECASE)
_EVENT = re.compile(
    rb"^[^\n]{1,64}\[\d{1,5}\]\s+(?:\S{3,8}\s+)?\d+(?:\.\d+)?:\s"  # COMM-TID [CPU] FLAGS TIME: ...
    rb"|^.{8}-\d+ +\d+[.dDX]\S{4,6} +\d+\.\d+:\s",  # trace-cmd report -l
    re.MULTILINE,
)


def is_text(head: bytes) -> bool:
    """ftrace text: tracefs, trace-cmd report, perf script, atrace; or an HTML page, which may hold such text."""
    if b"\0" in head:
        return False
    text = head.removeprefix(_UTF8_MARK).lstrip()
    if _HTML.match(text):
        return True
    return text.startswith(_HEADERS) or _EVENT.search(head) is not None


def utf16(head: bytes) -> str | None:
    """The encoding, by its name for iconv, of text in UTF-16, which PowerShell makes of what goes to a file."""
    if head.startswith(_UTF16_MARKS):
        return "UTF-16"
    for name, zeros, letters in (("UTF-16LE", head[1::2], head[::2]), ("UTF-16BE", head[::2], head[1::2])):
        if zeros and not any(zeros) and all(32 <= c < 127 or c in b"\t\r\n" for c in letters):
            return name
    return None


def is_atrace(head: bytes) -> bool:
    """Whether the first bytes are those of `atrace -z`: TRACE: and a zlib stream, perhaps behind a line of the tool."""
    at = head.find(b"TRACE:\n", 0, 200)
    return at >= 0 and head[at + 7 :].lstrip(b"\r\n").startswith((b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"))


def is_schedviz(head: bytes) -> bool:
    """Whether a tar, packed with gzip, begins with the event formats that SchedViz keeps."""
    if not head.startswith(b"\x1f\x8b"):
        return False
    try:
        tar = zlib.decompressobj(31).decompress(head, 512)
    except zlib.error:
        return False
    return tar[257:262] == b"ustar" and tar.startswith(b"formats/")


def is_perfetto(head: bytes) -> bool:
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
