# SPDX-License-Identifier: GPL-2.0-or-later
"""The tar that the script of --emit-script leaves: a snapshot with, beside it, trace.dat or raw pages and formats.

SchedViz's tars are read, too: raw pages in traces/cpuN instead of raw/cpuN, packed with gzip, and nothing that says the
clock or the kernel. Read as hostile: plain members with expected names only, none twice, into a private directory. The
snapshot in it is read by collectors.snapshot, straight from the archive.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rewake.collectors.capture import container
from rewake.collectors.snapshot.archive import require_end
from rewake.collectors.snapshot.cpulist import MAX_CPUS
from rewake.errors import TraceError

FIRST = b"capture\0"
"""The archive begins with the name of this member."""
_WANTED = re.compile(
    r"capture|uname|trace_clock|trace\.dat|raw/cpu\d{1,5}|formats/(header_page|header_event|\w{1,64}/\w{1,64}/format)"
)
_SMALL = 1 << 20
_BLOCK = 1 << 20
_MAX_MEMBERS = 400_000
_MOST_RATIO = 200  # ring-buffer pages pack to a tenth or so


@contextmanager
def trace_of(path: Path) -> Iterator[Path]:
    """The trace in the archive as a trace.dat, in a directory that goes away. Raises TraceError."""
    with tempfile.TemporaryDirectory(
        prefix="rewake-bundle-", dir=path.absolute().parent if _writable(path) else None
    ) as place:
        target = Path(place)
        try:
            with tarfile.open(path, "r:*") as tar:
                found = _unpack(tar, target, path)
        except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError) as error:
            raise TraceError(f"{path}: not a readable tar archive ({error}): copy it again") from None
        if "trace.dat" in found:
            yield target / "trace.dat"
            return
        yield _assembled(target, found, path)


def _writable(path: Path) -> bool:
    """Whether there is room to be expected beside the archive, rather than in a small /tmp."""
    try:
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            return True
    except OSError:
        return False


def _unpack(tar: tarfile.TarFile, target: Path, path: Path) -> set[str]:
    found: set[str] = set()
    left = path.stat().st_size * _MOST_RATIO + _SMALL
    for number, member in enumerate(tar):
        if number >= _MAX_MEMBERS:
            raise TraceError(f"{path}: more than {_MAX_MEMBERS} members; refusing it")
        name = member.name.removeprefix("./")
        if name.startswith("traces/cpu"):
            name = name.replace("traces", "raw", 1)
        if not _WANTED.fullmatch(name) or not member.isreg() or member.issparse():
            continue
        if name in found:
            raise TraceError(f"{path}: member {name!r} twice; refusing it")
        found.add(name)
        left -= member.size
        if left < 0:
            raise TraceError(f"{path}: unpacks to more than {_MOST_RATIO} times its size; refusing it")
        source = tar.extractfile(member)
        assert source is not None
        if not name.startswith(("raw/", "trace.dat")) and member.size > _SMALL:
            raise TraceError(f"{path}: member {name!r} has {member.size} bytes; refusing it")
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        with (target / name).open("xb") as out:
            while block := source.read(_BLOCK):
                out.write(block)
    require_end(tar)
    return found


def _assembled(target: Path, found: set[str], path: Path) -> Path:
    def read(name: str) -> bytes:
        return (target / name).read_bytes() if name in found else b""

    if "formats/header_page" not in found:
        raise TraceError(f"{path}: neither trace.dat nor raw pages with their formats in it: record again")
    pages = {int(n[7:]): target / n for n in found if n.startswith("raw/cpu") and int(n[7:]) < MAX_CPUS}
    if not pages:
        raise TraceError(f"{path}: no pages of any CPU in it: nothing was recorded")
    names = sorted(n for n in found if n.endswith("/format"))
    formats = container.Formats(
        read("formats/header_page"), read("formats/header_event"), [(n.split("/")[1], read(n)) for n in names]
    )
    said = dict(line.partition("=")[::2] for line in read("capture").decode("utf-8", "replace").splitlines())
    clock = re.search(r"\[([\w-]{1,32})\]", read("trace_clock").decode("utf-8", "replace"))
    words = read("uname").decode("utf-8", "surrogateescape").split()
    trace = target / "trace.dat"
    uname = " ".join([*words[:3], "unknown"]) if words else ""
    container.write(
        trace, formats, pages, clock=clock[1] if clock else "", uname=uname,
        order="big" if said.get("byte_order") == "big" else "little",
    )  # fmt: skip
    for file in pages.values():
        file.unlink()
    return trace
