# SPDX-License-Identifier: GPL-2.0-or-later
"""Bounded reading of the files of a snapshot directory, with a hash over everything that was read."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rewake.collectors.snapshot.archive import Contents

MAX_FILE_BYTES = 64 << 20


class Files:
    """A snapshot directory. Paths are relative to its root; what is absent, special or leads outside reads as None."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._read: dict[str, bytes] = {}

    def below(self, name: str) -> Files:
        """The directory `name` as a snapshot of its own."""
        return Files(self.root / name)

    def text(self, path: str) -> str | None:
        data = self._bytes(path)
        if data is None:
            return None
        self._read[path] = hashlib.sha256(data).digest()
        return data.decode("utf-8", "surrogateescape")

    def _bytes(self, path: str) -> bytes | None:
        where = self.root / path
        try:
            if not where.is_file() or not where.resolve().is_relative_to(self.root):
                return None
            with where.open("rb") as f:
                return f.read(MAX_FILE_BYTES)
        except OSError:
            return None

    def line(self, path: str) -> str | None:
        """Content without surrounding white space; None when absent or empty."""
        text = self.text(path)
        return (text.strip() or None) if text is not None else None

    def number(self, path: str) -> int | None:
        text = self.line(path)
        return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else None

    def children(self, path: str, *, directories: bool) -> list[str]:
        """Sorted names below `path`; symbolic links are not followed."""
        try:
            entries = list((self.root / path).iterdir())
        except OSError:
            return []
        return sorted(e.name for e in entries if not e.is_symlink() and (e.is_dir() if directories else e.is_file()))

    def sha256(self) -> str:
        """Hash over names and contents of all files read so far, in name order."""
        total = hashlib.sha256()
        for name, digest in sorted(self._read.items()):
            total.update(name.encode("utf-8", "surrogateescape") + b"\0" + digest)
        return total.hexdigest()


class PackedFiles(Files):
    """A snapshot archive: its files are read where they lie in it. `root` holds those that were unpacked for hwloc."""

    def __init__(self, root: Path, contents: Contents, prefix: str = "") -> None:
        super().__init__(root)
        self._contents = contents
        self._prefix = prefix

    def below(self, name: str) -> PackedFiles:
        return PackedFiles(self.root / name, self._contents, f"{self._prefix}{name}/")

    def _bytes(self, path: str) -> bytes | None:
        return self._contents.read(self._prefix + path, MAX_FILE_BYTES)

    def children(self, path: str, *, directories: bool) -> list[str]:
        return self._contents.children((self._prefix + path).rstrip("/"), directories=directories)
