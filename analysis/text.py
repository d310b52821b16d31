# SPDX-License-Identifier: GPL-2.0-or-later
r"""Names from a trace are hostile text: the one function per kind of output through which they all go.

Every task, cgroup, event and file name that a writer prints passes one of these. They return text that is harmless in
its place and still tells names apart; what cannot be shown is `\xNN` (bytes) or `\uNNNN`, as decode writes it.
"""

from __future__ import annotations

import html as _html
import json
import re
import unicodedata
from typing import Any

WIDTH = 80
"""Columns of a terminal that one name may take."""


def _visible(text: str) -> str:
    """Control, format, bidirectional and undecodable characters spelled out; a name is one line."""
    if text.isprintable():
        return text
    out = []
    for char in text:
        code = ord(char)
        if char.isprintable():
            out.append(char)
        elif code < 0x100:
            out.append(f"\\x{code:02x}")
        elif 0xDC80 <= code <= 0xDCFF:  # a byte that was no UTF-8 (os.fsdecode)
            out.append(f"\\x{code - 0xDC00:02x}")
        else:
            out.append(f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")
    return "".join(out)


def columns(text: str) -> int:
    """Terminal columns that printable text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def terminal(text: str, width: int | None = WIDTH) -> str:
    """For a terminal or a plain table: one line, no control bytes, at most `width` columns (None: any)."""
    text = _visible(text)
    if width is None or columns(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += columns(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + "…"


_MARKDOWN = re.compile(r"[\\`*_{}\[\]()|~!]|^[-+=]")
_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def markdown(text: str, width: int | None = WIDTH) -> str:
    """For a cell of a markdown table: no markup, no column break, nobody mentioned, nothing linked."""
    text = terminal(text, width)
    text = _MARKDOWN.sub(lambda m: "\\" + m[0], text)
    text = re.sub(r'[&<>"]', lambda m: _MARKUP[m[0]], text)
    # A comment breaks what forges link by themselves: mentions, issue numbers, addresses.
    return re.sub(r"@|#|://|\bwww\.", lambda m: m[0] + "<!-- -->", text)


def csv(text: str) -> str:
    """For a CSV cell, before the csv module quotes it: nothing that a spreadsheet takes for a formula."""
    text = _visible(text)
    return "'" + text if text.lstrip(" ")[:1] in tuple("=+-@") else text


def html(text: str) -> str:
    """For text and quoted attribute values of HTML."""
    return _html.escape(_visible(text), quote=True)


_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def json_in_script(value: Any) -> str:
    """Any value as JSON that may stand inside a script element: pure ASCII and no way to end the element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return re.sub(r"[<>&]", lambda m: _SCRIPT[m[0]], text)
