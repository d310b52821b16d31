# SPDX-License-Identifier: GPL-2.0-or-later
"""What stands in a manifest: of which kind of JSON value each entry is. Its readers rely on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rewake.errors import TraceError
from rewake.forms.tables import RECORDING_TABLES

EACH = "*"
"""Stands for every name of an object whose names are not known beforehand."""

_COUNTS = {EACH: int}
_US = range(1 << 31)
_TEXTS = [str]
_TABLES = {EACH: _TEXTS}

NEVER_NULL = ("machine", "source", "policies", "recording.path")

SHAPES: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "recording": {
        "id": str, "topology": str, "machine": _COUNTS, "tool": {EACH: str}, "kernel": str, "uname": str, "clock": str,
        "source": {"name": str, "format": str, "compression": str, "packed": str, "bytes": int, "sha256": str},
        "snapshot": {"sources": [dict], "threads": int, "clock": str}, "clock_offset_ns": int, "first_ns": int,
        "last_ns": int, "span_ns": int, "events": _COUNTS, "events_total": int, "skipped": _COUNTS,
        "loss": [_COUNTS], "lost": int, "steps_back": int, "wakeup_failed": int, "problems": _TEXTS, "window": dict,
        "silences": [dict], "contexts": bool, "missing": _TEXTS, "notes": _TEXTS, "features": {EACH: bool},
        "sysctl": {EACH: str}, "hz": int, "guest": bool, "steal_pct": float, "exit_latency_us": {EACH: [_US]},
        "capture": dict, "sched_ext": bool, "core_scheduling": bool, "preempt_rt": bool, "outside": [int],
        "replay": dict, "slice": {"events": [int], "window_ns": [int], "damage": list},
        "running_at_start": [(range(1 << 16), range(1 << 32))], "first_decision": range(1 << 62), "n_parts": int,
        "columns": _TABLES,
        "rows": {t.name: [int] if t.parts else int for t in RECORDING_TABLES.values()},
    },
    "run": {
        "recording": {"path": str, "id": str}, "first_decision": int, "tool": {EACH: str}, "name": str, "mode": str,
        "assume": dict, "refusals": {EACH: str}, "auto_notes": _TEXTS, "policies": [dict], "plugins": [dict],
        "seed": int, "sync": str, "sync_share": float, "sync_unknown": float, "auto": str, "notes": _TEXTS,
        "hardirq": str, "options": dict, "settings": dict, "ledgers": {EACH: {"file": str, "rows": [int]}},
        "rows": _COUNTS, "columns": _TABLES,
    },
})  # fmt: skip
"""By kind. A type, a range, a list of one, a tuple of so many, or an object by its names; any may be absent, and null
but for NEVER_NULL and for what a list holds ranges or tuples of."""


def kernel_version(release: str | None) -> tuple[int, int]:
    """(major, minor) of a kernel release such as '6.1.0-56-cloud-amd64'; (0, 0) when unknown."""
    match = re.match(r"(\d{1,4})\.(\d{1,4})", release or "")
    return (int(match[1]), int(match[2])) if match else (0, 0)


_KINDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
_JSON: dict[type, type] = {range: int, tuple: list}


def _too_large(value: Any) -> bool:
    """A number without end, as JSON allows: no time, count or span has more than 64 bits and a sign."""
    return isinstance(value, int) and abs(value) >= 1 << 64


def misfit(value: Any, shape: Any, name: str = "") -> str | None:
    """The first entry that is of another kind than it should be: `machine.cpus: a whole number expected`."""
    kind: type = shape if isinstance(shape, type) else _JSON.get(type(shape), type(shape))
    fits: Any = (int, float) if kind is float else kind
    counted = name.endswith("]") and isinstance(shape, range | tuple)
    if value is None and name not in NEVER_NULL and not counted:
        return None
    if not isinstance(value, fits) or (isinstance(value, bool) and kind is not bool) or _too_large(value):
        return f"{name}: {_KINDS[kind]} expected"
    if isinstance(shape, range) and value not in shape:
        return f"{name}: {shape.start} to {shape.stop - 1} expected"
    if isinstance(shape, tuple) and len(value) != len(shape):
        return f"{name}: a list of {len(shape)} expected"
    inside: list[tuple[str, Any, Any]] = []
    if isinstance(shape, list):
        inside = [(f"{name}[{i}]", each, shape[0]) for i, each in enumerate(value)]
    elif isinstance(shape, tuple):
        inside = [(f"{name}[{i}]", each, kind) for i, (each, kind) in enumerate(zip(value, shape, strict=True))]
    elif isinstance(shape, dict):
        inside = [(f"{name}.{k}".lstrip("."), each, shape.get(k, shape.get(EACH))) for k, each in value.items()]
    found = (misfit(each, expected, at) for at, each, expected in inside if expected is not None)
    return next((told for told in found if told is not None), None)


class MissingEntry(TraceError, KeyError):
    """An entry that its reader needs is not in the manifest; also what a dict raises, for users read manifests, too."""

    __str__ = Exception.__str__


class Entries(dict[str, Any]):
    """An object of the manifest `file`. To read an entry that is not there is damage of it; `remedy`: what then."""

    def __init__(self, given: Mapping[str, Any], file: str, remedy: str, name: str = "") -> None:
        super().__init__({k: _entries(v, file, remedy, f"{name}.{k}".lstrip(".")) for k, v in given.items()})
        self._file, self._remedy, self._name = file, remedy, name

    def __missing__(self, key: str) -> Any:
        told = f"{self._name}.{key}".lstrip(".")
        raise MissingEntry(f"{self._file}: damaged ({told}: missing): {self._remedy}")


def _entries(value: Any, file: str, remedy: str, name: str) -> Any:
    if isinstance(value, dict):
        return Entries(value, file, remedy, name)
    if isinstance(value, list):
        return [_entries(v, file, remedy, f"{name}[{i}]") for i, v in enumerate(value)]
    return value
