# SPDX-License-Identifier: GPL-2.0-or-later
"""Durations and sizes as every option takes them: `500ms`, `2m`, `1.5G`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal

from rewake.errors import UsageError

_TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_NUMBER = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,9})?|\.[0-9]{1,9}) ?([A-Za-z]*)")
_MOST = 2**63 - 1


def instant(text: str) -> int:
    """Nanoseconds of `0s`, `2s`, `5ms`, `1.5s`; UsageError for anything else."""
    found = _parse(text, _TIMES, lambda unit: unit)
    if found is None:
        raise UsageError(f"{text[:40]!r} is no time; 2s, 5ms, 1.5s, 300us or 20ns expected")
    return found


def duration(text: str) -> int:
    """The same, of at least one nanosecond."""
    found = _parse(text, _TIMES, lambda unit: unit)
    if not found:
        raise UsageError(f"{text[:40]}: expected a duration above 0 such as 500ms, 10s or 2m")
    return found


def size(text: str) -> int:
    """Bytes of `512K`, `64MB`, `1.5 GiB`: units are powers of 1,024. UsageError for anything else and for none."""
    found = _parse(text, _SIZES, lambda unit: re.sub("(?<=.)I?B$", "", unit.upper()))
    if not found:
        raise UsageError(f"{text[:40]}: expected a size above 0 such as 512K, 64M or 1.5G")
    return found


def _parse(text: str, units: Mapping[str, int], known: Callable[[str], str]) -> int | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    if not match[2]:
        raise UsageError(f"{text[:40]}: the unit is missing: {', '.join(units)}")
    unit = units.get(known(match[2]))
    found = None if unit is None else int(Decimal(match[1]) * unit)
    return found if found is not None and found <= _MOST else None
