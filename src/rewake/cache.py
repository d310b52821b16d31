# SPDX-License-Identifier: GPL-2.0-or-later
"""Recordings and runs that nobody named: kept under a hash of what made them, least recently used go first."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rewake.errors import RewakeError, TraceError
from rewake.whole import put

LIMIT_BYTES = 10 << 30


def folder() -> Path:
    """`$XDG_CACHE_HOME/rewake`, made when absent; a relative XDG_CACHE_HOME does not count (its specification)."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
        path = base / "rewake"
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError) as error:
        raise TraceError(
            f"no cache directory ({error}): set XDG_CACHE_HOME to a directory that can be written"
        ) from error
    return path


def fetch(name: str, build: Callable[[Path], object], check: Callable[[Path], object]) -> tuple[Path, bool]:
    """The entry `name` (`KEY.rewake`, `KEY.run`), built when absent or `check` raises RewakeError; True: it was there.

    A second process that wants the same entry waits for the first and takes what it made.
    """
    path = folder() / name
    with _lock(path):
        if path.exists():
            try:
                check(path)
                os.utime(path / "manifest.json")
                return path, True
            except (RewakeError, OSError):
                shutil.rmtree(path, ignore_errors=True)
        build(path)
    _trim(keep=path)
    return path, False


def text(name: str, build: Callable[[], str]) -> str:
    """A small file that is costly to make and always the same: kept under its name, made when absent."""
    try:
        path = folder() / name
        return path.read_text(encoding="utf-8")
    except (RewakeError, OSError):
        made = build()
    with suppress(RewakeError, OSError):  # nowhere to keep it
        put(folder() / name, made)
    return made


@contextmanager
def _lock(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Holds `NAME.lock`; yields False when it is taken and `wait` is off."""
    file = path.with_name(path.name + ".lock")
    while True:
        try:
            fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise TraceError(
                f"{file}: {error.strerror}: set XDG_CACHE_HOME to a directory that can be written"
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(fd)
            yield False
            return
        # If the holder before us removed the file, what we locked has no name any more: nobody would meet us there.
        try:
            if os.fstat(fd).st_ino == os.stat(file).st_ino:
                break
        except FileNotFoundError:
            pass
        os.close(fd)
    try:
        yield True
    finally:
        file.unlink(missing_ok=True)
        os.close(fd)


def _bytes(path: Path) -> int:
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def _trim(keep: Path) -> None:
    """Removes least recently used entries until the rest fits, never `keep` and none that is in use for building."""
    entries = []
    for path in folder().iterdir():
        if path.suffix in (".rewake", ".run") and path.is_dir():
            try:
                entries.append(((path / "manifest.json").stat().st_mtime_ns, path.name, path, _bytes(path)))
            except OSError:  # another process is removing it
                continue
        elif path.name.endswith((".rewake.part", ".run.part")):  # of a process that was killed
            with _lock(path.with_name(path.stem), wait=False) as held:
                if held:
                    shutil.rmtree(path, ignore_errors=True)
    total = sum(size for *_, size in entries)
    for *_, path, size in sorted(entries):
        if total <= LIMIT_BYTES:
            return
        if path == keep:
            continue
        with _lock(path, wait=False) as held:
            if held:
                shutil.rmtree(path, ignore_errors=True)
                total -= size
