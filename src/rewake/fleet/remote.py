# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces behind a URL that fsspec knows: which there are, what identifies them, and a local copy of one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewake.errors import TraceError, UsageError
from rewake.forms.objects import remote as file_system

_SNAPSHOTS = ("topology.tar.gz", "topology.tar.xz", "topology.tar", "topology.xml")
"""What may lie beside a trace (collectors.snapshot.beside), but for a directory."""


def is_url(name: str) -> bool:
    return "://" in name


def expand(url: str, suffixes: Sequence[str]) -> list[str]:
    """URLs of the traces and recordings that a URL stands for: a pattern, a directory or one of them itself."""
    system, path = file_system(url)
    protocol = url.partition("://")[0]
    if any(c in path for c in "*?["):
        found = sorted(map(str, system.glob(path)))
        if not found:
            raise UsageError(f"{url}: nothing matches")
    elif system.isfile(path) or not system.isdir(path) or system.isfile(f"{path}/manifest.json"):
        return [url]
    else:
        every = sorted(map(str, system.find(path)))
        recordings = [p.removesuffix("/manifest.json") for p in every if p.endswith("/manifest.json")]
        inside = tuple(f"{r}/" for r in recordings)
        found = sorted(recordings + [p for p in every if p.endswith(tuple(suffixes)) and not p.startswith(inside)])
    return [f"{protocol}://{p}" for p in found]


def content(url: str) -> str:
    """What tells whether the objects are the same ones: what the store itself says of them (size, ETag or time)."""
    system, path = file_system(url)
    marks = []
    for name in _objects(system, path):
        try:
            info = system.info(name)
            mark = info.get("ETag") or info.get("md5Hash") or info.get("mtime") or info.get("LastModified") or ""
            marks.append(f"{name.rpartition('/')[2]} {info.get('size')} {mark}")
        except FileNotFoundError:
            continue
    return ("remote-" if marks else "unreadable-") + hashlib.sha256("\0".join(marks).encode()).hexdigest()


def _objects(system: Any, path: str) -> list[str]:
    if system.isfile(f"{path}/manifest.json"):
        return [f"{path}/manifest.json"]
    folder = path.rpartition("/")[0]
    return [path, *(f"{folder}/{name}" for name in _SNAPSHOTS)]


def copy(url: str, folder: Path) -> Path:
    """The trace with what lies beside it, or the recording, below an empty local folder."""
    system, path = file_system(url)
    target = folder / path.rpartition("/")[2]
    try:
        if system.isfile(f"{path}/manifest.json"):
            system.get(path.rstrip("/") + "/", str(target) + "/", recursive=True)
            return target
        for name in _objects(system, path):
            if system.isfile(name):
                system.get_file(name, str(folder / name.rpartition("/")[2]))
    except FileNotFoundError:
        pass
    if not target.exists():
        raise TraceError(f"{url}: no such object")
    return target
