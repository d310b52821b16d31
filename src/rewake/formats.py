# SPDX-License-Identifier: GPL-2.0-or-later
"""The trace formats that can be imported: how each is told by its first bytes, and what reads it.

A new format is one line in FORMATS; nothing else of the import knows formats by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from rewake import sniff
from rewake.forms import BATCH_EVENTS, Columns

HEAD_BYTES = 4096
"""How much of a file `Format.sniff` sees; the whole file where that is shorter."""


class Reader(Protocol):
    """An open trace, decoded by batches in order of time.

    `header`: `cpus` (above every CPU number of the trace; `all_cpus`: as many as the machine had) and, where the format
    carries them, `kernel`, `uname`, `clock`, `version`, `compression`, `is_guest`, `recorded_cpus`, the CPUs that were
    asked for (empty: the file does not say), and `machine`, what the file itself says of the recorded hardware
    (collectors.snapshot.embedded). `finish`, once `next_batch` gave None: what rewake.collectors._decode's readers
    give, and `missing`, what the format cannot carry, in words, and `contexts`, whether every record says if it comes
    from an interrupt.
    """

    @property
    def header(self) -> dict[str, Any]: ...
    def reserve_idle(self, n_cpus: int) -> None: ...
    def next_batch(self) -> dict[str, Columns] | None: ...
    def finish(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Format:
    """`sniff` judges the first HEAD_BYTES bytes. `holds_snapshot`: the file is a snapshot of the machine as well.
    `packed`: what the file is packed with as a whole, which `open` undoes."""

    name: str
    sniff: Callable[[bytes], bool]
    open: Callable[[Path], AbstractContextManager[Reader]]
    holds_snapshot: bool = False
    packed: str | None = None


def _trace_dat(path: Path) -> AbstractContextManager[Reader]:
    from rewake.collectors._decode import TraceDat

    return nullcontext(TraceDat(str(path), BATCH_EVENTS))


def _perf_data(path: Path) -> AbstractContextManager[Reader]:
    from rewake.collectors._decode import PerfData

    return nullcontext(PerfData(str(path), BATCH_EVENTS))


@contextmanager
def _capture(path: Path) -> Iterator[Reader]:
    from rewake.collectors._decode import TraceDat
    from rewake.collectors.capture import bundle

    with bundle.trace_of(path) as trace:
        yield TraceDat(str(trace), BATCH_EVENTS)


def _text(path: Path) -> AbstractContextManager[Reader]:
    from rewake.collectors._decode import Text

    return nullcontext(Text(str(path), BATCH_EVENTS))


@contextmanager
def _atrace(path: Path) -> Iterator[Reader]:
    from rewake.collectors import unpack

    with unpack.atrace(path) as found, _text(found.path) as reader:
        yield _Damaged(reader, found.damage)


@contextmanager
def _pftrace(path: Path) -> Iterator[Reader]:
    from rewake.collectors import unpack
    from rewake.collectors._decode import Pftrace

    if not Pftrace.compressed(str(path)):
        yield Pftrace(str(path), BATCH_EVENTS)
        return
    with unpack.pftrace(path) as found:
        yield _Damaged(Pftrace(str(found.path), BATCH_EVENTS), found.damage)


def in_gzip(inner: Format) -> Format:
    """The format of such a file packed with gzip."""

    @contextmanager
    def opened(path: Path) -> Iterator[Reader]:
        from rewake.collectors import unpack

        with unpack.gzip(path) as found, inner.open(found.path) as reader:
            yield _Damaged(reader, found.damage)

    # A capture is a tar: both its readers unpack it themselves.
    return replace(inner, packed="gzip", open=inner.open if inner.holds_snapshot else opened)


class _Damaged:
    """A Reader of what was unpacked, which tells what could not be."""

    def __init__(self, reader: Reader, damage: list[str]) -> None:
        self._reader, self._damage = reader, damage

    @property
    def header(self) -> dict[str, Any]:
        return self._reader.header

    def reserve_idle(self, n_cpus: int) -> None:
        self._reader.reserve_idle(n_cpus)

    def next_batch(self) -> dict[str, Columns] | None:
        return self._reader.next_batch()

    def finish(self) -> dict[str, Any]:
        end = self._reader.finish()
        return {**end, "problems": [*self._damage, *end["problems"]]}


FORMATS = (
    Format("trace.dat", lambda head: head.startswith(b"\x17\x08\x44tracing"), _trace_dat),
    Format("capture", lambda head: head.startswith(b"capture\0") and head[257:262] == b"ustar", _capture, True),
    Format("perf.data", lambda head: head.startswith((b"PERFILE2", b"2ELIFREP", b"PERFFILE")), _perf_data),
    Format("schedviz", sniff.is_schedviz, _capture),
    Format("pftrace", sniff.is_perfetto, _pftrace),
    Format("atrace -z", sniff.is_atrace, _atrace),
    Format("text", sniff.is_text, _text),
)
"""In the order in which they are asked."""
