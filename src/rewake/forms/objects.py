# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that are written whole and never changed, in a directory or behind a URL that fsspec knows (s3://bucket/prefix).

Locally a file is written aside, synced and renamed, remotely it is put as one object; a writer that is killed leaves at
most a `.part`, which nobody reads. So there is no lock: two writers of one name write the same bytes.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rewake.errors import RewakeError, UsageError
from rewake.forms.parquet import first_line

_STALE_S = 24 * 3600


class Objects:
    """What is kept under a path or a URL; names are relative to it, with forward slashes."""

    def __init__(self, where: str | Path) -> None:
        self.where = str(where)
        if not self.where:
            raise UsageError("a store without a name: give a directory, or a URL such as s3://bucket/prefix")
        self.remote: Any = None
        """The fsspec file system; None: a directory."""
        self.root = self.where
        if self.where.startswith("file://"):
            self.root = self.where.removeprefix("file://")
        elif "://" in self.where:
            self.remote, self.root = remote(self.where)

    def exists(self) -> bool:
        """Whether the directory is there; of an object store nobody knows before it holds something."""
        return self.remote is not None or Path(self.root).is_dir()

    def has(self, name: str) -> bool:
        """Whether a file is there that holds something: one without a byte is what a disk that failed leaves."""
        if self.remote is not None:
            path = f"{self.root}/{name}"
            return bool(self.remote.exists(path)) and bool(self.remote.size(path))
        return _size(Path(self.root) / name) > 0

    def put(self, name: str, data: bytes) -> None:
        """Writes a file whole, over what may be there."""
        if self.remote is not None:
            self.remote.pipe_file(f"{self.root}/{name}", data)
        else:
            _place(Path(self.root) / name, data)

    def sweep(self, folder: str) -> None:
        """Removes what killed writers left in a folder long ago."""
        if self.remote is None:
            _sweep(Path(self.root) / folder)

    def remove(self, name: str) -> None:
        """Takes a file away; none there is no error."""
        if self.remote is None:
            (Path(self.root) / name).unlink(missing_ok=True)
        elif self.remote.exists(f"{self.root}/{name}"):
            self.remote.rm_file(f"{self.root}/{name}")

    def names(self, folder: str, empty: bool = True) -> list[str]:
        """Names of the Parquet files in the folders that match (`done`, `suite=*`), in order; no hidden ones. `empty`:
        also of those that hold nothing (`has`)."""
        pattern = f"{folder}/*.parquet"
        if self.remote is None:
            files = Path(self.root).glob(pattern)
            found = [f"{p.parent.name}/{p.name}" for p in files if empty or _size(p)]
        else:
            self.remote.invalidate_cache()
            told = self.remote.glob(f"{self.root}/{pattern}", detail=True)
            found = ["/".join(str(p).split("/")[-2:]) for p, of in told.items() if empty or of["size"]]
        return sorted(n for n in found if not n.rpartition("/")[2].startswith("."))

    @contextmanager
    def fetched(self, names: Iterable[str]) -> Iterator[list[Path]]:
        """The files as local ones, in order: as they are, or copied for as long as the block runs."""
        listed = list(names)
        if self.remote is None:
            yield [Path(self.root) / n for n in listed]
            return
        with tempfile.TemporaryDirectory(prefix="rewake-fetched-") as folder:
            local = [Path(folder) / n for n in listed]
            for parent in {p.parent for p in local}:
                parent.mkdir(parents=True, exist_ok=True)
            self.remote.get([f"{self.root}/{n}" for n in listed], [str(p) for p in local])
            yield local


def remote(where: str) -> tuple[Any, str]:
    """The file system of a URL and the path in it; RewakeError names the extra that is missing."""
    try:
        core = importlib.import_module("fsspec.core")
    except ModuleNotFoundError:
        raise RewakeError(f"{where} needs fsspec: install the extra, pip install 'rewake[fleet]'") from None
    try:
        filesystem, path = core.url_to_fs(where)
    except (ImportError, ValueError) as error:
        raise UsageError(f"{where}: {first_line(error)}") from error
    return filesystem, str(path).rstrip("/")


def _size(path: Path) -> int:
    """Bytes of a file; 0 where it is gone, which another writer may do at any time."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _place(target: Path, data: bytes) -> None:
    """Writes a file whole: aside, synced, renamed; no reader looks at a name that begins with a dot."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o644)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _sweep(folder: Path) -> None:
    for part in folder.glob(".*.part"):
        try:
            if part.stat().st_mtime < time.time() - _STALE_S:
                part.unlink()
        except OSError:  # another writer was faster
            continue
