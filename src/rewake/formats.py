# SPDX-License-Identifier: GPL-2.0-or-later
"""The trace formats that can be imported: how each is told by its first bytes, and what reads it.

A new format is one line in FORMATS; nothing else of the import knows formats by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rewake import sniff
from rewake.forms import BATCH_EVENTS, Columns

HEAD_BYTES = 4096
"""How much of a file `Format.sniff` sees; the whole file where that is shorter."""


class Reader(Protocol):
    """An open trace, decoded by batches in order of time.

    `header`: `cpus` (above every CPU number of the trace) and, where the format carries them, `kernel`, `uname`,
    `clock`, `version`, `compression`, `is_guest`, and `machine`, what the file itself says of the recorded hardware
    (collectors.snapshot.embedded). `finish`, once `next_batch` gave None: what rewake.collectors._decode's readers
    give, and `missing`, what the format cannot carry, in words.
    """

    @property
    def header(self) -> dict[str, Any]: ...
    def next_batch(self) -> dict[str, Columns] | None: ...
    def finish(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Format:
    """`sniff` judges the first HEAD_BYTES bytes. `holds_snapshot`: the file is a snapshot of the machine as well."""

    name: str
    sniff: Callable[[bytes], bool]
    open: Callable[[Path], AbstractContextManager[Reader]]
    holds_snapshot: bool = False


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

    with unpack.atrace(path) as text, _text(text) as reader:
        yield reader


@contextmanager
def _pftrace(path: Path) -> Iterator[Reader]:
    from rewake.collectors import unpack
    from rewake.collectors._decode import Pftrace

    packed = Pftrace.compressed(str(path))
    with unpack.pftrace(path) if packed else nullcontext(path) as plain:
        yield Pftrace(str(plain), BATCH_EVENTS)


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
