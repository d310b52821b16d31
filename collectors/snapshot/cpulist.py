# SPDX-License-Identifier: GPL-2.0-or-later
"""CPU sets in the kernel's two spellings: lists (`0-3,8`) and hexadecimal masks (`ffff0000,0000ffff`)."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_CPUS = 8192
"""Largest NR_CPUS that a kernel can be built with; what lies above is not a CPU number."""
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9})/([0-9]{1,9}))?)?")


def parse_list(text: str) -> frozenset[int]:
    """Kernel list form, with strides (`0-7:2/4`). Empty text is the empty set. Raises ValueError."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        if not part.strip():
            continue
        match = _RANGE.fullmatch(part.strip())
        lo, hi = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        used, group = (int(match[3] or 1), int(match[4] or 1)) if match else (0, 0)
        if not 0 <= lo <= hi < MAX_CPUS or group < 1:
            raise ValueError(f"not a list of CPUs below {MAX_CPUS}: {text.strip()[:60]!r}")
        cpus.update(c for c in range(lo, hi + 1) if (c - lo) % group < used)
    return frozenset(cpus)


def parse_mask(text: str) -> frozenset[int]:
    """Hexadecimal mask, 32-bit words separated by commas, highest first. Raises ValueError."""
    digits = text.strip().replace(",", "")
    bits = int(digits, 16) if re.fullmatch(r"[0-9a-fA-F]+", digits) else -1
    if bits < 0 or bits.bit_length() > MAX_CPUS:
        raise ValueError(f"not a CPU mask: {text.strip()[:60]!r}")
    return frozenset(i for i, bit in enumerate(reversed(f"{bits:b}")) if bit == "1")


def format_list(cpus: Iterable[int]) -> str:
    """Kernel list form, ascending, ranges joined."""
    parts: list[str] = []
    start = last = -2
    for c in [*sorted(cpus), None]:
        if c is not None and c == last + 1:
            last = c
            continue
        if start >= 0:
            parts.append(str(start) if start == last else f"{start}-{last}")
        if c is not None:
            start = last = c
    return ",".join(parts)
