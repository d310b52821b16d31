# SPDX-License-Identifier: GPL-2.0-or-later
"""Files written whole: under a temporary name beside, renamed when complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rewake.errors import UsageError


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write into that gets its name, with the usual rights, only when the block ends well."""
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such directory")
    fd, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(fd, "wb") as out:
            yield out
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
