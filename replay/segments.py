# SPDX-License-Identifier: GPL-2.0-or-later
"""What is asked of a whole recording in memory that does not grow with it: columns on disk, samples that thin out."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator
from itertools import pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from rewake.errors import writing

if TYPE_CHECKING:
    import duckdb

Array = npt.NDArray[Any]

SEGMENT = 1 << 18
"""Of recordings with no more decisions than that everything stays in memory, and nothing is left out."""

CHUNK = 1 << 17
"""Rows that are looked at at a time."""


def pieces_of(con: duckdb.DuckDBPyConnection, table: str) -> Iterator[dict[str, Array]]:
    """All rows of a table of a database, in order, CHUNK at a time."""
    n = con.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]
    for first in range(0, n, CHUNK):
        asked = f"SELECT * FROM {table} WHERE rowid >= ? AND rowid < ?"
        found = con.execute(asked, [first, first + CHUNK]).fetchnumpy()
        yield {name: np.ma.getdata(values) for name, values in found.items()}


class Growing:
    """Columns of one length that arrive in pieces; of more than `held` rows (SEGMENT) they lie in files without a
    name, until the context ends or nobody has them any more."""

    def __init__(self, held: int | None = None) -> None:
        self._held = SEGMENT if held is None else held
        self._files: dict[str, tempfile.SpooledTemporaryFile[bytes]] = {}
        self._types: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._rows = 0
        self.close = weakref.finalize(self, _close, self._files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return self._rows

    def append(self, columns: dict[str, Array]) -> None:
        """A piece: the same columns each time; of several dimensions by rows of one shape."""
        for name, values in columns.items():
            if name not in self._files:
                self._types[name] = values.dtype, values.shape[1:]
                file = tempfile.SpooledTemporaryFile(max_size=max(1, self._held * self._width(name)))  # noqa: SIM115
                self._files[name] = file
            with writing(tempfile.gettempdir()):
                self._files[name].write(np.ascontiguousarray(values).data)
        self._rows += len(next(iter(columns.values())))

    def write(self, first: int, columns: dict[str, Array]) -> None:
        """In place of as many rows from that one on."""
        for name, values in columns.items():
            file = self._files[name]
            with writing(tempfile.gettempdir()):
                file.seek(first * self._width(name))
                file.write(np.ascontiguousarray(values).data)
                file.seek(0, 2)

    def _width(self, name: str) -> int:
        dtype, shape = self._types[name]
        return int(dtype.itemsize * np.prod(shape, dtype=int))

    def read(self, first: int, last: int, *names: str) -> dict[str, Array]:
        """Those rows of these columns, of all without a name."""
        found = {}
        for name in names or self._files:
            dtype, shape = self._types[name]
            file, width = self._files[name], self._width(name)
            with writing(tempfile.gettempdir()):  # what it still holds
                file.seek(first * width)
            found[name] = np.frombuffer(file.read((last - first) * width), dtype).reshape(-1, *shape)
            file.seek(0, 2)
        return found

    def chunks(self, *names: str) -> Iterator[dict[str, Array]]:
        for first in range(0, self._rows, CHUNK):
            yield self.read(first, min(first + CHUNK, self._rows), *names)


def _close(files: dict[str, tempfile.SpooledTemporaryFile[bytes]]) -> None:
    for file in files.values():
        file.close()


class Thinned:
    """Rows of numbers by class, `most` of them at most. Where there are more, the class with most rows loses every
    second one, again and again: of each class every k-th stays, from its first on, and of a rare one all."""

    def __init__(self, width: int, most: int = SEGMENT) -> None:
        self._width, self._most = width, most
        self._pieces: dict[int, list[Array]] = {}
        self._each: dict[int, int] = {}
        self._rows = 0
        self.seen: dict[int, int] = {}
        """By class: how many there were."""

    def add(self, of: Array, rows: Array) -> None:
        """`of`: the class of each row; `rows`: (n, width)."""
        order = np.argsort(of, kind="stable")
        starts = np.flatnonzero(np.diff(of[order], prepend=-1))
        for start, end in pairwise([*starts.tolist(), len(order)]):
            name = int(of[order[start]])
            each, seen = self._each.setdefault(name, 1), self.seen.get(name, 0)
            kept = order[start:end][-seen % each :: each]
            self._pieces.setdefault(name, []).append(rows[kept])
            self.seen[name] = seen + end - start
            self._rows += len(kept)
        while self._rows > self._most:
            self._thin()

    def _thin(self) -> None:
        sizes = {name: sum(map(len, pieces)) for name, pieces in self._pieces.items()}
        most = max(sizes, key=lambda name: (sizes[name], -name))
        self._pieces[most] = [np.concatenate(self._pieces[most])[::2].copy()]
        self._each[most] *= 2
        self._rows -= sizes[most] // 2

    def rows(self) -> tuple[Array, Array]:
        """Class of all that stayed, class by class, and their columns of numbers."""
        names = sorted(self._pieces)
        parts = [np.concatenate(self._pieces[name]) for name in names]
        of = np.repeat(np.array(names, np.int64), [len(part) for part in parts])
        return of, np.concatenate([np.empty((0, self._width), np.int64), *parts]).T
