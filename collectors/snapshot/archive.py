# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshot archives, read as hostile: member by member, hwloc's files into a directory that the caller owns.

Debian 12's Python has no extraction filter, so the rules are spelled out here: regular files and directories only, no
`..`, no leading `/`, capped count, size and depth, nothing but plain new files written below the target.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from rewake.errors import TraceError

MAX_MEMBERS = 400_000
MAX_BYTES = 512 << 20
MAX_DEPTH = 40
_BLOCK = 1 << 20
_MEMORY = "/dev/shm"
_MEMORY_BYTES = 128 << 20
Wanted = Callable[[Sequence[str]], bool]
"""Says of a file or directory, by the parts of its name, whether it is to be unpacked."""

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
        self._folders: dict[str, set[str]] = {"": set()}
        self.notes: list[str] = []

    def add_folder(self, parts: Sequence[str]) -> None:
        if "/".join(parts) in self._folders:
            return
        for depth in range(1, len(parts) + 1):
            name = "/".join(parts[:depth])
            if name in self._where:
                raise tarfile.ReadError(f"{name[:80]!r} is a file and a directory")
            self._folders.setdefault(name, set())
            self._folders["/".join(parts[: depth - 1])].add(parts[depth - 1])

    def add_file(self, parts: Sequence[str], offset: int, size: int) -> None:
        name = "/".join(parts)
        if name in self._where and self._same(*self._where[name], offset, size):
            return
        if name in self._where or name in self._folders:
            raise tarfile.ReadError(f"{name[:80]!r} twice")
        self.add_folder(parts[:-1])
        self._folders["/".join(parts[:-1])].add(parts[-1])
        self._where[name] = offset, size

    def _same(self, offset: int, size: int, offset2: int, size2: int) -> bool:
        """Whether two small members hold the same: /proc/device-tree lists some names twice."""
        if size != size2 or size > _BLOCK:
            return False
        found = []
        here = self._plain.tell()
        for where in (offset, offset2):
            self._plain.seek(where)
            found.append(self._plain.read(size))
        self._plain.seek(here)
        return found[0] == found[1]

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

    def room(self, wanted: Wanted) -> int:
        """Bytes that the wanted files and directories take on a disk, at least a page each."""
        sizes = {name: size for name, (_, size) in self._where.items()} | dict.fromkeys(self._folders, 0)
        return sum(max(size, 4096) for name, size in sizes.items() if wanted(name.split("/")))

    def unpack(self, target: Path, wanted: Wanted) -> None:
        """Writes the wanted files and directories below the empty directory `target`."""
        for name in sorted(self._folders):
            if name and wanted(name.split("/")):
                os.makedirs(target / name, exist_ok=True)
        for name, (_, size) in self._where.items():
            parts = name.split("/")
            if wanted(parts):
                where = target / name
                if len(parts) > 1 and not wanted(parts[:-1]):
                    where.parent.mkdir(parents=True, exist_ok=True)
                with open(where, "xb", buffering=0) as out:
                    out.write(self.read(name, size) or b"")


def hwloc_reads(parts: Sequence[str]) -> bool:
    """Whether hwloc may look at a file of a snapshot, which may have one directory around everything."""
    start = 0 if parts[0] in ("sys", "proc") else 1
    if parts[0] in ("before", "after") or len(parts) < start + 2:
        return False
    where = tuple(parts[start : start + 3])
    if where[0] == "proc":
        return where[1] not in ("sys", "irq")
    return where[0] == "sys" and where[:2] != ("sys", "fs") and where != ("sys", "kernel", "debug")


def scratch(room: int) -> str | None:
    """Where to unpack: into memory what is small, for there a file costs microseconds; None: the usual place."""
    try:
        free = os.statvfs(_MEMORY)
    except OSError:
        return None
    fits = room <= min(_MEMORY_BYTES, free.f_bavail * free.f_frsize // 2)
    return _MEMORY if fits and os.access(_MEMORY, os.W_OK | os.X_OK) else None


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """The contents of an archive. Raises TraceError for one that is broken or means harm."""
    with ExitStack() as stack:
        try:
            plain = stack.enter_context(_plain(path))
            contents = Contents(plain)
            with tarfile.open(fileobj=plain, mode="r:") as tar:
                _index(tar, path, contents)
        except _BROKEN as e:
            if isinstance(e, OSError) and e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
                raise TraceError(f"{path}: cannot unpack it: {e.strerror}; give room by TMPDIR") from None
            raise TraceError(f"{path}: not a readable tar archive ({e}); take the snapshot again") from None
        yield contents


@contextmanager
def _plain(path: Path) -> Iterator[IO[bytes]]:
    """The archive without compression: itself, or unpacked to a file, for a header of a compressed archive could
    otherwise ask for any amount of memory."""
    with path.open("rb") as file:
        if file.read(512)[257:262] == b"ustar":
            file.seek(0)
            yield file
            return
    with tempfile.TemporaryFile(prefix="rewake-") as plain:
        size = 0
        for block in _blocks(path):
            size += len(block)
            if size > MAX_BYTES:
                raise TraceError(f"{path}: more than {MAX_BYTES >> 20} MiB when unpacked; refusing it")
            plain.write(block)
        plain.seek(0)
        yield plain


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as f:
        head = f.read(6)
    kinds: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
    with kinds.get(head[:2], open)(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            yield block


def require_end(tar: tarfile.TarFile) -> None:
    """After the last member: raises tarfile.ReadError where that was not the last one of the archive. The module takes
    a damaged header and the end of the file for the end of the archive, which is a block of zeros."""
    assert tar.fileobj is not None
    tar.fileobj.seek(tar.offset)
    block = tar.fileobj.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError("it ends before its end")
    if block.strip(b"\0"):
        raise tarfile.ReadError(f"damaged at byte {tar.offset}")


def _index(tar: tarfile.TarFile, path: Path, contents: Contents) -> None:
    others = count = 0
    for member in tar:
        count += 1
        if count > MAX_MEMBERS:
            raise TraceError(f"{path}: more than {MAX_MEMBERS} members; refusing it")
        parts = [p for p in member.name.split("/") if p not in ("", ".")]
        if member.name.startswith("/") or ".." in parts or len(parts) > MAX_DEPTH or "\0" in member.name:
            raise TraceError(f"{path}: member {member.name[:80]!r} leads out of the archive; refusing it")
        if not parts or (not _UNUSED.isdisjoint(parts) and "cgroup" not in parts):
            continue
        if member.isdir():
            contents.add_folder(parts)
        elif member.isreg() and not member.issparse():
            contents.add_file(parts, member.offset_data, member.size)
        else:  # of a sparse file a few bytes may stand for any number
            others += 1
    if count == 0:
        raise tarfile.ReadError("no members")
    require_end(tar)
    if others:
        contents.notes.append(f"{others} members that are neither plain files nor directories were left out")
