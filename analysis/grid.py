# SPDX-License-Identifier: GPL-2.0-or-later
"""Plain text in columns, at most 100 wide: alignment and number formats for the table writer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rewake.analysis.text import columns

WIDTH = 100
NOTHING = "-"
"""What stands where there is no figure."""


@dataclass(frozen=True)
class Column:
    """One column of a grid: header lines top down, cells, alignment."""

    header: tuple[str, ...]
    cells: Sequence[str]
    left: bool = False


def pad(text: str, width: int, *, left: bool = False) -> str:
    """Fills up to `width` terminal columns (which wide characters make differ from len)."""
    fill = " " * max(0, width - columns(text))
    return text + fill if left else fill + text


def render(grid: Sequence[Column], *, spill: bool = False) -> list[str]:
    """Lines of a grid, two blanks between columns or one where two are too wide.

    With `spill`, a first cell that would make a line longer than 100 columns gets a line of its own.
    """
    depth = max(len(c.header) for c in grid)
    headers = [("",) * (depth - len(c.header)) + c.header for c in grid]
    widths = [max(columns(t) for t in (*h, *c.cells)) for h, c in zip(headers, grid, strict=True)]
    gap = 2 if sum(widths) + 2 * (len(grid) - 1) <= WIDTH else 1
    if spill:
        room = WIDTH - sum(widths[1:]) - gap * (len(grid) - 1)
        if room < widths[0]:
            fitting = [columns(c) for c in grid[0].cells if columns(c) <= room]
            widths[0] = max([*fitting, *(columns(h) for h in headers[0])])
    lines = [_line([h[i] for h in headers], widths, grid, gap) for i in range(depth)]
    for i in range(len(grid[0].cells)):
        texts = [c.cells[i] for c in grid]
        if columns(texts[0]) > widths[0]:
            lines.append(texts[0])
            texts[0] = ""
        lines.append(_line(texts, widths, grid, gap))
    return lines


def _line(texts: Sequence[str], widths: Sequence[int], grid: Sequence[Column], gap: int) -> str:
    cells = (pad(t, w, left=c.left) for t, w, c in zip(texts, widths, grid, strict=True))
    return (" " * gap).join(cells).rstrip()


def wrap(text: str, indent: str = "  ") -> list[str]:
    """A paragraph in lines of at most 100 columns; a number keeps its per cent sign. Longer words are cut."""
    lines: list[str] = []
    line = ""
    for word in text.replace(" %", "\0%").split(" "):
        rest = word.replace("\0", " ")
        if line.strip() and columns(line) + 1 + columns(rest) > WIDTH:
            lines.append(line.rstrip())
            line = indent
        elif line.strip() or not word:
            line += " "
        while columns(line + rest) > WIDTH:
            fits = next(n for n in range(len(rest), 0, -1) if columns(line + rest[:n]) <= WIDTH)
            lines.append(line + rest[:fits])
            line, rest = indent, rest[fits:]
        line += rest
    return [*lines, line.rstrip()] if line.strip() else lines


def defined(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Terms to the left, what they mean to the right, in at most 100 columns."""
    width = max((columns(term) for term, _ in pairs), default=0) + 2
    lines = []
    for term, meaning in pairs:
        lines += wrap(pad(term, width, left=True) + meaning, indent=" " * width)
    return lines


def number(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value:.{digits}f}"


def count(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def counted(value: int, what: str, many: str | None = None) -> str:
    """So many of them, in words: `1 run`, `1,000 runs`; `many`: their plural, where it is not with an s."""
    return f"{count(value)} {what if value == 1 else many or what + 's'}"


def llcs(value: int | None) -> str:
    return "LLCs unknown" if value is None else counted(value, "LLC")


def percent(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value:.{digits}f} %"


def share(value: float | None) -> str:
    """A share between 0 and 1 in per cent."""
    return percent(None if value is None else 100.0 * value)


def micros(ns: int | None) -> str:
    """Nanoseconds in µs: a decimal below 100, none above."""
    if ns is None:
        return NOTHING
    return f"{ns / 1000:.1f}" if ns < 99_950 else f"{ns / 1000:.0f}"


def bounds(lo: int | None, hi: int | None, at_least: int | None) -> str:
    """`[lo, hi]` in µs; `[lo, ≥ x]` when hi is unbounded."""
    if lo is None:
        return NOTHING
    return f"[{micros(lo)}, {micros(hi) if hi is not None else '≥ ' + micros(at_least)}]"
