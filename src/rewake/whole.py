# SPDX-License-Identifier: GPL-2.0-or-later
"""Files written whole: under a temporary name beside, renamed when complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rewake.errors import UsageError, writing


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write into that gets its name, with the usual rights, only when the block ends well.

    A symbolic link stays, and what it leads to is replaced; a device or FIFO is written to. UsageError where there is a
    directory, or none to put the file into.
    """
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise UsageError(f"{path}: a directory: give the name of a file")
        with writing(path), path.open("wb") as out:
            yield out
        return
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such directory")
    if path.exists() and (path.parent / "manifest.json").is_file():
        from rewake.forms.directory import kind_of

        if (kind := kind_of(path.parent)) is not None:
            raise UsageError(f"{path}: belongs to a {kind}: give another name")
    fd, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with writing(path), os.fdopen(fd, "wb") as out:
            yield out
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def put(path: Path, text: str) -> None:
    """Writes a text file whole."""
    with whole(path) as out:
        out.write(text.encode())
