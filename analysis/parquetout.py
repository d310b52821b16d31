# SPDX-License-Identifier: GPL-2.0-or-later
"""An answer as one Parquet file: the columns with their types, names as they are (Parquet runs nothing)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import duckdb

from rewake.analysis.sql import Rows
from rewake.errors import RewakeError
from rewake.forms import connect


def rows(answer: Rows) -> bytes:
    """The whole file; columns of one name are numbered. RewakeError for a type that Parquet does not have."""
    columns = ", ".join(f"unnest(?::{kind}[]) AS {_quoted(name)}" for name, kind in _typed(answer))
    values = [list(column) for column in zip(*answer.rows, strict=True)] or [[] for _ in answer.columns]
    con = connect()
    with tempfile.TemporaryDirectory(prefix="rewake-") as folder:
        file = os.path.join(folder, "answer.parquet")
        try:
            con.execute(f"CREATE TEMP TABLE answer AS SELECT {columns}", values)
            con.execute(f"COPY answer TO '{file}' (FORMAT parquet, COMPRESSION zstd)").fetchall()
        except duckdb.Error as error:
            raise RewakeError(f"no Parquet of this answer: {str(error).splitlines()[0]}") from None
        finally:
            con.close()
        return Path(file).read_bytes()


def _typed(answer: Rows) -> list[tuple[str, str]]:
    types = answer.types or ("VARCHAR",) * len(answer.columns)
    return list(zip(answer.columns, types, strict=True))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
