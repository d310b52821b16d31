# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshot archives, read as hostile: member by member, into a directory that the caller owns.

Debian 12's Python has no extraction filter, so the rules are spelled out here: regular files and directories only, no
`..`, no leading `/`, capped count, size and depth, nothing but plain new files written below the target.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def unpack(path: Path, target: Path) -> list[str]:
    """Unpacks `path` below the empty directory `target`; returns notes on what was left out. Raises TraceError."""
    plain = target.with_name(target.name + ".tar")
    try:
        # Decompressed to a file first: a header of a compressed archive could otherwise ask for any amount of memory.
        with plain.open("xb") as out:
            size = 0
            for block in _blocks(path):
                size += len(block)
                if size > MAX_BYTES:
                    raise TraceError(f"{path}: more than {MAX_BYTES >> 20} MiB when unpacked; refusing it")
                out.write(block)
        with tarfile.open(plain, "r:") as tar:
            return _members(tar, path, target)
    except _BROKEN as e:
        raise TraceError(f"{path}: not a readable tar archive ({e}); take the snapshot again") from None
    finally:
        plain.unlink(missing_ok=True)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as f:
        head = f.read(6)
    kinds: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
    with kinds.get(head[:2], open)(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            yield block


def _members(tar: tarfile.TarFile, path: Path, target: Path) -> list[str]:
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
        where = "/".join((str(target), *parts))
        if not (member.isdir() or member.isreg()):
            others += 1
            continue
        folder = where if member.isdir() else where.rpartition("/")[0]
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        if member.isreg():
            source = tar.extractfile(member)
            assert source is not None
            # Never an existing name: a second member of that name is an error, not an overwrite.
            with source, open(where, "xb", buffering=0) as out:
                while block := source.read(_BLOCK):
                    out.write(block)
    if count == 0:
        raise tarfile.ReadError("no members")
    return [f"{others} members that are neither files nor directories were left out"] if others else []
