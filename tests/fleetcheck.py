# SPDX-License-Identifier: GPL-2.0-or-later
"""A study for tests, what two fleet stores hold, compared byte by byte, and what happens to a fleet on the way."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rewake.fleet.drive import Summary
from rewake.fleet.tasks import OPEN, Study, tool


def study(*policies: str) -> Study:
    return Study(OPEN, policies or ("random-idle",), {"sync": "auto", "probes": True}, "", (), tool())


def names(store: Path) -> list[str]:
    """Of the shards, those of failures among them."""
    return [f"{p.parent.name}/{p.name}" for p in store.glob("*/*") if not p.name.startswith(".")]


def shards(store: Path) -> dict[str, bytes]:
    return {name: (store / name).read_bytes() for name in names(store)}


def left(store: Path) -> list[Path]:
    """What is no shard: at most the `.part` of a writer that was killed halfway, which goes after a day."""
    found = list(store.glob("*/.*"))
    assert {p.suffix for p in found} <= {".part"}
    return found


def check(found: Summary, store: Path, reference: Path) -> None:
    """Nothing lost, nothing else, byte by byte."""
    assert found.left == 0 and found.why is None
    assert shards(store) == shards(reference)


def _fields(stat: Path) -> list[str]:
    return stat.read_text().rpartition(")")[2].split()


def parent(pid: int) -> int:
    return int(_fields(Path(f"/proc/{pid}/stat"))[1])


def alive(pid: int) -> bool:
    try:
        return _fields(Path(f"/proc/{pid}/stat"))[0] not in "ZX"
    except OSError:
        return False


def _children(pid: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = _fields(path)
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(path.parent.name)
            yield child
            yield from _children(child)


def cells_of(pid: int) -> list[int]:
    """The cells below a process."""
    found = []
    for child in _children(pid):
        try:
            line = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"rewake.fleet.cell" in line:
            found.append(child)
    return found


class Killer(threading.Thread):
    """Kills what `pick` names of the cells below `driver`, each time that so many more shards are there."""

    def __init__(self, driver: int, store: Path, pick: Callable[[list[int]], int], every: int) -> None:
        super().__init__(daemon=True)
        self.driver, self.store, self.pick, self.every = driver, store, pick, every
        self.killed, self.done, self._from = 0, False, len(names(store))

    def run(self) -> None:
        while not self.done:
            time.sleep(0.02)
            due = self._from + (self.killed + 1) * self.every
            if len(names(self.store)) >= due and (cells := cells_of(self.driver)):
                try:
                    os.kill(self.pick(cells), signal.SIGKILL)
                except OSError:
                    continue
                self.killed += 1
