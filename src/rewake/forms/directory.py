# SPDX-License-Identifier: GPL-2.0-or-later
"""What a recording and a run have in common as directories: built aside and renamed, one manifest each."""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rewake.errors import TraceError, UsageError, writing
from rewake.forms.manifest import SHAPES, Entries, misfit
from rewake.forms.parquet import connect, first_line, require_utf8
from rewake.forms.tables import SCHEMA_VERSION

if TYPE_CHECKING:
    import duckdb


_MARK = ".rewake-part"
"""A file that tells a `NAME.part` of a writer that was killed from a directory of somebody else."""

_OTHER = {
    "recording": "a run, and no recording: rewake report and rewake query read it",
    "run": "a recording, and no run: rewake replay -o makes a run of it",
}
"""What lies where one of this kind is expected, and what serves."""


class Writer:
    """Builds a directory in the sibling `NAME.part`, locked against a second writer; renames it when all is written.

    Where NAME is a symbolic link, what it leads to is written. A `NAME.part` that no writer made is left alone.
    """

    kind = ""

    def __init__(self, path: Path | str, threads: int = 1) -> None:
        self.path = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
        if not self.path.name:
            raise UsageError(f"{str(path)!r}: no name for a {self.kind}: give one")
        require_utf8(self.path)
        self.part = self.path.with_name(self.path.name + ".part")
        self.manifest: dict[str, Any] = {}
        self._threads = threads
        self._con: duckdb.DuckDBPyConnection | None = None
        self._lock: int | None = None

    def require_free(self) -> None:
        """Raises UsageError where something else has the name; for those who work long before they write."""
        if os.path.exists(self.path) and kind_of(self.path) != self.kind:  # no error: the writer's mkdir tells it
            raise UsageError(f"{self.path}: exists and is no rewake {self.kind}: give another name")
        if os.path.islink(self.part):
            raise UsageError(f"{self.part}: a symbolic link in the way: give another name, or remove it")

    def __enter__(self) -> Self:
        self.require_free()
        try:
            self.part.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.part, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise TraceError(f"{self.part}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise TraceError(f"{self.path}: another rewake is writing it: wait for it, or give another name") from None
        if any(self.part.iterdir()) and not (self.part / _MARK).exists() and kind_of(self.part) is None:
            os.close(lock)
            raise UsageError(f"{self.part}: not of rewake, and in the way: give another name, or remove it")
        self._lock = lock
        (self.part / _MARK).touch()
        for stale in self.part.iterdir():  # of a writer that was killed: its lock went with it
            if stale.name != _MARK:
                shutil.rmtree(stale) if stale.is_dir() and not stale.is_symlink() else stale.unlink()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._con is not None:
            self._con.close()
            self._con = None
        if self._lock is not None:
            shutil.rmtree(self.part, ignore_errors=True)
            os.close(self._lock)
            self._lock = None

    @property
    def _duck(self) -> duckdb.DuckDBPyConnection:
        if self._lock is None:
            raise ValueError("the writer is not open")
        if self._con is None:
            self._con = connect(self._threads)
        return self._con

    def put_file(self, name: str, data: bytes) -> None:
        """A file beside the tables, kept as evidence."""
        if Path(name).name != name:
            raise ValueError(f"not a file name: {name!r}")
        with writing(self.part / name):
            (self.part / name).write_bytes(data)

    def _finish(self) -> None:
        text = json.dumps(self.manifest, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
        with writing(self.part / "manifest.json"):
            (self.part / "manifest.json").write_text(text, encoding="ascii")
        if self._lock is None:
            raise ValueError("the writer is not open")
        (self.part / _MARK).unlink()  # the manifest tells by now
        old = self.path.with_name(f"{self.path.name}.{os.getpid()}.old")
        if self.path.exists():
            self.path.rename(old)
        self.part.rename(self.path)
        shutil.rmtree(old, ignore_errors=True)
        os.close(self._lock)
        self._lock = None


def kind_of(path: Path) -> str | None:
    """'recording' or 'run' when a directory says so itself, else None."""
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return None
    name = manifest.get("format") if isinstance(manifest, dict) else None
    return {"rewake-recording": "recording", "rewake-run": "run"}.get(name) if isinstance(name, str) else None


def damaged(path: Path, suffix: str) -> bool:
    """Whether a directory has a manifest that cannot be read, or, with this suffix in its name, none."""
    try:
        json.loads((path / "manifest.json").read_bytes())
    except FileNotFoundError:
        return path.suffix == suffix and path.is_dir()
    except NotADirectoryError:
        return False
    except (OSError, ValueError):
        return True
    return False


def _finite(text: str) -> float:
    """ValueError for what JSON does not know and Python reads all the same: NaN, Infinity, 1e999."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def read_manifest(path: Path, kind: str) -> dict[str, Any]:
    require_utf8(path)
    try:
        text = (path / "manifest.json").read_bytes()
    except FileNotFoundError:
        raise TraceError(f"{path}: not a rewake {kind}: it has no manifest.json") from None
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error
    try:
        manifest = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except ValueError as error:
        raise TraceError(f"{path}/manifest.json: damaged ({first_line(error)}): make the {kind} again") from error
    if kind_of(path) not in (None, kind):
        raise TraceError(f"{path}: {_OTHER[kind]}")
    if not isinstance(manifest, dict) or manifest.get("format") != f"rewake-{kind}":
        raise TraceError(f"{path}: its manifest does not describe a rewake {kind}")
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION:
        raise TraceError(
            f"{path}: schema version {version!r}, this rewake reads {SCHEMA_VERSION}:"
            " import the trace again with this rewake"
        )
    if told := misfit(manifest, SHAPES[kind]):
        raise TraceError(f"{path}/manifest.json: damaged ({told}): make the {kind} again")
    return Entries(manifest, f"{path}/manifest.json", f"make the {kind} again")
