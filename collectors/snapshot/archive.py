# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshot archives, read as hostile: member by member, hwloc's files into a directory that the caller owns.

Debian 12's Python has no extraction filter, so the rules are spelled out here: regular files and directories only, no
`..`, no leading `/`, capped count, size and depth, nothing but plain new files written below the target.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rewake.errors import TraceError

MAX_MEMBERS = 400_000
MAX_BYTES = 512 << 20
MAX_DEPTH = 40
_BLOCK = 1 << 20
# Most of a big machine's files, and nothing reads them: neither hwloc nor this package.
_UNUSED = frozenset(
    "irq hotplug power shared_cpu_list ways_of_associativity busy_factor cache_nice_tries max_interval min_interval "
    "max_newidle_lb_cost core_siblings_list thread_siblings_list core_cpus_list package_cpus_list die_cpus_list "
    "cluster_cpus_list vulnerabilities softirqs interrupts".split()
)
_BROKEN = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError)


def is_archive(path: Path) -> bool:
    """By content: gzip, bzip2, xz or plain tar."""
    with path.open("rb") as f:
        head = f.read(512)
    return head[:2] == b"\x1f\x8b" or head[:3] == b"BZh" or head[:6] == b"\xfd7zXZ\x00" or head[257:262] == b"ustar"


class Contents:
    """The files of an archive, read where they lie in it. Names are relative and have no `.`, `..` or empty parts."""

    def __init__(self, plain: IO[bytes]) -> None:
        self._plain = plain
        self._where: dict[str, tuple[int, int]] = {}
        self._folders: dict[str, set[str]] = {}
        self.notes: list[str] = []

    def add_folder(self, parts: Sequence[str]) -> None:
        for depth in range(len(parts), 0, -1):
            above = self._folders.setdefault("/".join(parts[: depth - 1]), set())
            if parts[depth - 1] in above:
                return
            above.add(parts[depth - 1])

    def add_file(self, parts: Sequence[str], offset: int, size: int) -> None:
        name = "/".join(parts)
        if name in self._where:
            raise tarfile.ReadError(f"{name[:80]!r} twice")
        self._where[name] = offset, size
        self.add_folder(parts)

    def read(self, name: str, limit: int) -> bytes | None:
        """Up to `limit` bytes of a file; None when there is none of this name."""
        if name not in self._where:
            return None
        offset, size = self._where[name]
        self._plain.seek(offset)
        return self._plain.read(min(size, limit))

    def children(self, path: str, *, directories: bool) -> list[str]:
        """Sorted names below `path`, '' being the root."""
        start = f"{path}/" if path else ""
        return sorted(n for n in self._folders.get(path, ()) if (start + n not in self._where) == directories)


def hwloc_reads(parts: Sequence[str]) -> bool:
    """Whether hwloc may look at a file of a snapshot, which may have one directory around everything."""
    start = 0 if parts[0] in ("sys", "proc") else 1
    if parts[0] in ("before", "after") or len(parts) < start + 2:
        return False
    where = tuple(parts[start : start + 3])
    if where[0] == "proc":
        return where[1] not in ("sys", "irq")
    return where[0] == "sys" and where[:2] != ("sys", "fs") and where != ("sys", "kernel", "debug")


@contextmanager
def unpacked(
    path: Path, target: Path, wanted: Callable[[Sequence[str]], bool] = lambda parts: True
) -> Iterator[Contents]:
    """Opens an archive and unpacks the `wanted` files (by the parts of their names) below the empty `target`.

    Raises TraceError for an archive that is broken or means harm.
    """
    # Decompressed to a file first: a header of a compressed archive could otherwise ask for any amount of memory.
    with tempfile.TemporaryFile(dir=target.parent) as plain:
        try:
            size = 0
            for block in _blocks(path):
                size += len(block)
                if size > MAX_BYTES:
                    raise TraceError(f"{path}: more than {MAX_BYTES >> 20} MiB when unpacked; refusing it")
                plain.write(block)
            plain.seek(0)
            contents = Contents(plain)
            with tarfile.open(fileobj=plain, mode="r:") as tar:
                _members(tar, path, target, contents, wanted)
        except _BROKEN as e:
            raise TraceError(f"{path}: not a readable tar archive ({e}); take the snapshot again") from None
        yield contents


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as f:
        head = f.read(6)
    kinds: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
    with kinds.get(head[:2], open)(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            yield block


def _members(
    tar: tarfile.TarFile, path: Path, target: Path, contents: Contents, wanted: Callable[[Sequence[str]], bool]
) -> None:
    others = count = 0
    made = {str(target)}
    for member in tar:
        count += 1
        if count > MAX_MEMBERS:
            raise TraceError(f"{path}: more than {MAX_MEMBERS} members; refusing it")
        parts = [p for p in member.name.split("/") if p not in ("", ".")]
        if member.name.startswith("/") or ".." in parts or len(parts) > MAX_DEPTH or "\0" in member.name:
            raise TraceError(f"{path}: member {member.name[:80]!r} leads out of the archive; refusing it")
        if not parts or (not _UNUSED.isdisjoint(parts) and "cgroup" not in parts):
            continue
        # A sparse file is left out as well: its few bytes may stand for any number.
        if not (member.isdir() or (member.isreg() and not member.issparse())):
            others += 1
            continue
        if member.isdir():
            contents.add_folder(parts)
        else:
            contents.add_file(parts, member.offset_data, member.size)
        if not wanted(parts):
            continue
        where = "/".join((str(target), *parts))
        folder = where if member.isdir() else where.rpartition("/")[0]
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        if member.isreg():
            source = tar.extractfile(member)
            assert source is not None
            # Never an existing name: what would be an overwrite is an error.
            with source, open(where, "xb", buffering=0) as out:
                while block := source.read(_BLOCK):
                    out.write(block)
    if count == 0:
        raise tarfile.ReadError("no members")
    if others:
        contents.notes.append(f"{others} members that are neither plain files nor directories were left out")
