# SPDX-License-Identifier: GPL-2.0-or-later
"""A store: an append-only directory of Parquet files, here or behind a URL. What stays of many runs.

`STORE/suite=NAME/HASH.parquet`, one file per run, named by the hash of what it says. A file is written whole (locally
aside, synced and renamed; remotely as one object) and never changed, so there is no lock: two writers of different runs
make different files, two of the same run the same one, and one that is killed leaves at most a `.part`, which nobody
reads.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from rewake.errors import RewakeError, TraceError, UsageError
from rewake.forms.parquet import Columns, connect, copy_out, dtype_of, first_line, literal
from rewake.forms.tables import STORE_TABLES

if TYPE_CHECKING:
    import duckdb

_FIGURE = STORE_TABLES["figure"]
_STALE_S = 24 * 3600

Row = Mapping[str, Any]


class Store:
    """The store at a path, or at a URL that fsspec knows (s3://bucket/prefix)."""

    def __init__(self, where: str | Path) -> None:
        self.where = str(where)
        self._remote: Any = None
        self._root = self.where
        if "://" in self.where:
            self._remote, self._root = _remote(self.where)

    def add(self, rows: Sequence[Row]) -> tuple[str, bool]:
        """Adds the rows of one run, all of one suite; the shard's name, and False when it was there already."""
        suites = {str(row["suite"]) for row in rows}
        if len(suites) != 1:
            raise ValueError("rows of one suite expected")
        columns = _columns(rows)
        name = f"suite={quote(suites.pop(), safe='')}/{_digest(rows)}.parquet"
        if self._remote is not None:
            target = f"{self._root}/{name}"
            if self._remote.exists(target):
                return name, False
            self._remote.pipe_file(target, _parquet(columns))
            return name, True
        target_path = Path(self._root) / name
        if target_path.exists():
            return name, False
        _place(target_path, _parquet(columns))
        return name, True

    def shards(self) -> list[str]:
        """Names of all files, in order."""
        if self._remote is None:
            root = Path(self._root)
            if not root.is_dir():
                raise UsageError(f"{self.where}: no store there (rewake store add makes one)")
            return sorted(f"{p.parent.name}/{p.name}" for p in root.glob("suite=*/[!.]*.parquet"))
        found = self._remote.glob(f"{self._root}/suite=*/*.parquet")
        return sorted("/".join(str(p).split("/")[-2:]) for p in found)

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A new connection with the view `figure`, the declared columns and `shard`; absent columns are NULL."""
        import duckdb

        shards = self.shards()
        if not shards:
            raise UsageError(f"{self.where}: the store is empty (rewake store add RUN)")
        con = connect()
        prefix = self._root
        if self._remote is not None:
            protocol = self._remote.protocol if isinstance(self._remote.protocol, str) else self._remote.protocol[0]
            if protocol not in con.list_filesystems():
                con.register_filesystem(self._remote)
            prefix = f"{protocol}://{self._root}"
        files = ", ".join(literal(f"{prefix}/{name}") for name in shards)
        declared = ", ".join(f"NULL::{c.type} AS {c.name}" for c in _FIGURE.columns)
        names = ", ".join(_FIGURE.names)
        try:
            con.execute(
                f"CREATE OR REPLACE TEMP TABLE figure AS SELECT {names}, regexp_extract(file, '[^/]+/[^/]+$') AS shard"
                f" FROM (SELECT * RENAME (filename AS file) FROM read_parquet([{files}], union_by_name=true,"
                f" filename=true, hive_partitioning=false) UNION ALL BY NAME SELECT {declared} WHERE false)"
            )
        except duckdb.Error as error:
            con.close()
            raise TraceError(
                f"{self.where}: {first_line(error)}: the file is damaged; move it away, or fetch it again"
            ) from error
        return con


def _remote(where: str) -> tuple[Any, str]:
    try:
        core = importlib.import_module("fsspec.core")
    except ModuleNotFoundError:
        raise RewakeError(f"{where} needs fsspec: install the extra, pip install 'rewake[fleet]'") from None
    try:
        filesystem, path = core.url_to_fs(where)
    except (ImportError, ValueError) as error:
        raise UsageError(f"{where}: {first_line(error)}") from error
    return filesystem, str(path).rstrip("/")


def _columns(rows: Sequence[Row]) -> Columns:
    columns: Columns = {}
    for column in _FIGURE.columns:
        values = [row.get(column.name) for row in rows]
        null = np.array([v is None for v in values], np.bool_)
        dtype = dtype_of(column)
        filled = values if dtype.kind == "O" else [0 if v is None else v for v in values]
        array = np.array(filled, dtype)
        columns[column.name] = (array, null) if column.nullable else array
    return columns


def _digest(rows: Sequence[Row]) -> str:
    """Of what the rows say, not of how they are stored: the same run has one name under any version of the writer."""
    plain = [{name: row[name] for name in _FIGURE.names if row.get(name) is not None} for row in rows]
    text = json.dumps(plain, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _parquet(columns: Columns) -> bytes:
    with tempfile.TemporaryDirectory(prefix="rewake-store-") as folder:
        file = Path(folder) / "figure.parquet"
        con = connect()
        try:
            copy_out(con, _FIGURE, columns, file)
        finally:
            con.close()
        return file.read_bytes()


def _place(target: Path, data: bytes) -> None:
    """Writes a file whole: aside, synced, renamed; no reader looks at a name that begins with a dot."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target.parent)
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
    """Removes what killed writers left long ago."""
    for part in folder.glob(".*.part"):
        try:
            if part.stat().st_mtime < time.time() - _STALE_S:
                part.unlink()
        except OSError:  # another writer was faster
            continue
