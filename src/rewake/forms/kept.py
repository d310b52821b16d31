# SPDX-License-Identifier: GPL-2.0-or-later
"""Columns kept in memory within a fixed budget, so that what was just written need not be read back from disk."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rewake.forms.parquet import Array, Columns, checked, copy_out, dtype_of, exact, join_files, select
from rewake.forms.tables import Table

if TYPE_CHECKING:
    import duckdb

RECENT_BYTES = 128 << 20
LEDGER_BYTES = 256 << 20
LONG_BYTES = 8 << 20


class RecentParts:
    """The parts of a recording while all of them fit; from the first on that does not, none.

    A recording is read from its first part on: of one that does not fit, the parts written last would take memory and
    be gone before their turn. Columns are kept as they were given, not copied: nobody may change them afterwards.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: dict[tuple[str, int], tuple[Columns, int]] = {}
        self._bytes = 0

    def put(self, table: Table, index: int, columns: Columns) -> None:
        """Keeps a part, in place of an earlier one of its number."""
        self._drop((table.name, index))
        if self._limit == 0:
            return
        arrays, _, rows = checked(table, columns)
        part: Columns = {}
        size = 0
        for column in table.columns:
            values = arrays.get(column.name)
            if values is None:
                part[column.name] = (np.zeros(rows, dtype_of(column)), np.ones(rows, np.bool_))
            elif isinstance(values, np.ma.MaskedArray):
                part[column.name] = (values.data, np.ma.getmaskarray(values))
            else:
                part[column.name] = values
            size += rows * (dtype_of(column).itemsize + column.nullable)
        self._parts[table.name, index] = part, size
        self._bytes += size
        if self._bytes > self._limit:
            self._parts.clear()
            self._limit = self._bytes = 0

    def get(self, table: Table, index: int, names: Sequence[str] | None) -> Columns | None:
        """The part, or None where it is no longer here."""
        found = self._parts.get((table.name, index))
        return None if found is None else {c.name: found[0][c.name] for c in select(table, names)}

    def _drop(self, key: tuple[str, int]) -> None:
        _, size = self._parts.pop(key, ({}, 0))
        self._bytes -= size


class GrowingColumns:
    """Columns of one table that arrive in pieces, one set per key: in memory up to a budget, then as raw files.

    Pieces are copied: the caller may re-use its arrays.
    """

    def __init__(self, table: Table, folder: Path, limit: int = LEDGER_BYTES) -> None:
        self._table = table
        self._folder = folder
        self._limit = limit
        self._bytes = 0
        self._pieces: dict[int, list[dict[str, Array]]] = {}
        self._spilled: set[int] = set()

    def append(self, key: int, columns: Columns) -> int:
        """Adds rows to the columns of `key`; returns how many."""
        _, _, rows = checked(self._table, columns)
        if rows == 0:
            return 0
        piece: dict[str, Array] = {}
        copies: dict[int, Array] = {}
        for column in self._table.columns:
            given = columns.get(column.name)
            values, null = given if isinstance(given, tuple) else (given, None)
            if values is None:
                piece[column.name] = np.zeros(rows, dtype_of(column))
                piece[f"{column.name}.null"] = np.ones(rows, np.bool_)
                continue
            piece[column.name] = np.array(exact(self._table, column, values, null))
            if null is None:
                piece[f"{column.name}.null"] = np.zeros(rows, np.bool_)
            else:
                if id(null) not in copies:  # columns that are NULL together share their mask
                    copies[id(null)] = np.array(null, np.bool_)
                piece[f"{column.name}.null"] = copies[id(null)]
        self._pieces.setdefault(key, []).append(piece)
        self._bytes += _size(piece)
        if self._bytes > self._limit:
            for each in list(self._pieces):
                self._spill(each)
        return rows

    def in_memory(self, key: int) -> bool:
        """Whether all columns of `key` are."""
        return key not in self._spilled

    def take(self, key: int) -> Columns:
        """All columns of `key`; forgets them, but for files that the arrays still map."""
        if key in self._spilled:
            self._spill(key)
            return {
                c.name: (
                    self._mapped(key, c.name, dtype_of(c)),
                    self._mapped(key, f"{c.name}.null", np.dtype(np.bool_)),
                )
                for c in self._table.columns
            }
        pieces = self._pop(key)
        joined: dict[tuple[int, ...], Array] = {}

        def join(name: str) -> Array:
            arrays = [p.pop(name) for p in pieces]  # gone when they are joined: never all of them twice
            same = tuple(map(id, arrays))
            if same not in joined:
                joined[same] = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
            return joined[same]

        return {c.name: (join(c.name), join(f"{c.name}.null")) for c in self._table.columns}

    def _spill(self, key: int) -> None:
        folder = self._folder / str(key)
        folder.mkdir(parents=True, exist_ok=True)
        for piece in self._pop(key):
            for name, array in piece.items():
                with open(folder / name, "ab") as file:
                    file.write(array.data)
        self._spilled.add(key)

    def _pop(self, key: int) -> list[dict[str, Array]]:
        pieces = self._pieces.pop(key, [])
        self._bytes -= sum(map(_size, pieces))
        return pieces

    def _mapped(self, key: int, name: str, dtype: np.dtype[np.generic]) -> Array:
        return np.asarray(np.memmap(self._folder / str(key) / name, dtype, "r"))


class LongTable:
    """A table of one file that arrives in pieces and is too long for the memory: beyond a budget what there is goes to
    a file of its own, and in the end these are made one."""

    def __init__(self, con: duckdb.DuckDBPyConnection, table: Table, folder: Path, limit: int = LONG_BYTES) -> None:
        self._con, self._table, self._folder, self._limit = con, table, folder, limit
        self._pieces = GrowingColumns(table, folder, sys.maxsize)
        self._bytes = self._rows = 0
        self._files: list[Path] = []

    def append(self, columns: Columns) -> None:
        """Adds rows; no text columns."""
        rows = self._pieces.append(0, columns)
        self._rows += rows
        self._bytes += rows * sum(dtype_of(column).itemsize + 1 for column in self._table.columns)
        if self._bytes > self._limit:
            self._files.append(self._folder / f"{len(self._files):06}.parquet")
            self._write(self._files[-1])

    def _write(self, file: Path) -> None:
        copy_out(self._con, self._table, self._pieces.take(0), file)
        self._bytes = 0

    def write(self, file: Path) -> int:
        """All rows as that file, none if there are none; returns how many."""
        if not self._files:
            if self._rows:
                self._write(file)
            return self._rows
        if self._bytes:
            self._files.append(self._folder / f"{len(self._files):06}.parquet")
            self._write(self._files[-1])
        join_files(self._con, self._table, self._files, file)
        shutil.rmtree(self._folder)
        return self._rows


def _size(piece: dict[str, Array]) -> int:
    """Bytes of the arrays, each counted once."""
    return sum(a.nbytes for a in {id(a): a for a in piece.values()}.values())
