# SPDX-License-Identifier: GPL-2.0-or-later
"""From what was named (traces, patterns, directories, lists) to tasks."""

from __future__ import annotations

import glob
import hashlib
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rewake import runs
from rewake.errors import RewakeError, TraceError, UsageError
from rewake.fleet import remote
from rewake.fleet.tasks import Study, Task

SUFFIXES = (".dat", ".data", ".pftrace", ".perfetto-trace", ".perfetto", ".schedviz")
"""Files of a directory that are taken for traces by their name alone: a damaged one is to be told, not passed over."""
LISTS = (".txt", ".list")
LABELS = ("workload", "machine", "time")
_MAGIC = ("*", "?", "[")
MOST_TASKS = 1_000_000
"""Of one run: they are all held at once, at some 2 kB each."""
_READERS = 4
"""Files hashed at the same time."""


@dataclass(frozen=True)
class Source:
    """A trace or recording as it was named, and what was said of it."""

    uri: str
    where: str
    from_ns: int | None = None
    until_ns: int | None = None
    labels: dict[str, str] = field(default_factory=dict)


@dataclass
class Found:
    """What the names stand for, and how many files of directories are no traces."""

    sources: list[Source] = field(default_factory=list)
    passed_over: int = 0


def find(named: Sequence[str]) -> Found:
    """The traces that PATTERN, DIR, LIST or plain names stand for, each once, in order. UsageError for none at all."""
    found = Found()
    for name in named:
        for source in _expand(name, Path(), found):
            found.sources.append(source)
    found.sources = list({(s.where, s.from_ns, s.until_ns): s for s in found.sources}.values())
    if not found.sources:
        raise UsageError(f"{', '.join(named)}: no traces there")
    return found


def _expand(name: str, base: Path, found: Found, lists: tuple[str, ...] = ()) -> Iterator[Source]:
    """`lists`: the lists that this name was read from, from the outermost on."""
    plain, window = _windowed(name, base)
    if remote.is_url(plain):
        for uri in remote.expand(plain, SUFFIXES):
            yield Source(uri, uri, *window)
        return
    path = base / plain
    if any(c in plain for c in _MAGIC) and not path.exists():
        matches = sorted(glob.glob(str(path), recursive=True))
        if not matches:
            raise UsageError(f"{plain}: nothing matches")
        for match in matches:
            yield from _local(Path(match), window, found)
    elif path.suffix in LISTS and path.is_file() and not _is_trace(path):
        if window != (None, None):
            raise UsageError(f"{name}: a list has no window: give each line its own")
        if os.path.realpath(path) in lists:
            raise UsageError(f"{path}: a list that names itself, or one that names it")
        yield from _listed(path, found, (*lists, os.path.realpath(path)))
    else:
        yield from _local(path, window, found)


def _local(path: Path, window: tuple[int | None, int | None], found: Found) -> Iterator[Source]:
    if path.is_dir() and not os.path.isfile(path / "manifest.json"):
        yield from (Source(runs.legible(str(p)), os.path.abspath(p), *window) for p in _walk(path, found))
    else:
        yield Source(runs.legible(str(path)), os.path.abspath(path), *window)


def _walk(folder: Path, found: Found, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """Recordings and traces below a directory, in order of their names; one that cannot be looked into is a source that
    fails. `above`: the directories that it is in, from the outermost on; a link to one of them has nothing new."""
    above = (*above, os.path.realpath(folder))
    try:
        inside = sorted(folder.iterdir())
    except OSError:
        yield folder
        return
    for path in inside:
        if path.name.startswith(".") or path.suffix in (".part", ".run"):
            continue
        if path.is_dir():
            if os.path.isfile(path / "manifest.json"):  # no error where nothing may be looked at
                yield path
            elif path.name != "topology" and os.path.realpath(path) not in above:  # a snapshot beside a trace
                yield from _walk(path, found, above)
        elif path.suffix in SUFFIXES or _is_trace(path):
            yield path
        else:
            found.passed_over += 1


def _is_trace(path: Path) -> bool:
    from rewake.identify import identify

    try:
        identify(path)
    except TraceError:
        return False
    return True


def _listed(path: Path, found: Found, lists: tuple[str, ...]) -> Iterator[Source]:
    """A line per trace: its name, relative to the list, then labels such as workload=web."""
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: {error}") from None
        if not words:
            continue
        labels = {}
        for word in words[1:]:
            key, equals, value = word.partition("=")
            if not equals or key not in LABELS or not value:
                raise UsageError(f"{path}:{number}: {word}: {', '.join(f'{k}=...' for k in LABELS)} expected")
            labels[key] = _moment(value, f"{path}:{number}: time") if key == "time" else value
        for source in _expand(words[0], path.parent, found, lists):
            yield replace(source, labels={**source.labels, **labels})


def _moment(text: str, name: str) -> str:
    from rewake.analysis.store import moment

    return moment(text, name)


def _windowed(name: str, base: Path) -> tuple[str, tuple[int | None, int | None]]:
    """`REC@2s..5s`, relative to `base`: the name and the window in ns."""
    from rewake.window import parse

    plain, at, window = name.rpartition("@")
    if not at or ".." not in window or "/" in window or os.path.exists(base / name):
        return name, (None, None)
    return plain, tuple(parse(window))  # type: ignore[return-value]


def tasks(
    sources: Sequence[Source], study: Study, *, topology: str | None = None, cut_ns: int | None = None,
    seeds: Sequence[int] = (0,), progress: Callable[[int, int], None] | None = None,
) -> list[Task]:  # fmt: skip
    """A task per source, window and seed, in that order. What cannot be read becomes a task as well: it will fail, and
    say why. UsageError for more than MOST_TASKS."""
    require_few(len(sources) * len(seeds))
    with ThreadPoolExecutor(_READERS) as pool:
        contents = []
        places = dict.fromkeys(s.where for s in sources)
        for i, content in enumerate(pool.map(lambda where: _content(where, topology), places), 1):
            contents.append(content)
            if progress is not None:
                progress(i, len(places))
    of = dict(zip(places, contents, strict=True))
    given = None if topology is None else topology if not os.path.exists(topology) else os.path.abspath(topology)
    parts = []
    n = 0
    for source in sources:
        parts.append(_cut(source, cut_ns, topology))
        require_few(n := n + len(parts[-1]) * len(seeds))
    out = []
    for source, windows in zip(sources, parts, strict=True):
        labels = {"made" if k == "time" else k: v for k, v in source.labels.items()}
        for from_ns, until_ns in windows:
            for seed in seeds:
                out.append(
                    Task(study, source.uri, source.where, of[source.where], from_ns, until_ns, seed, given, labels)
                )
    return list({t.key: t for t in out}.values())


def require_few(n: int) -> None:
    if n > MOST_TASKS:
        raise UsageError(
            f"{n:,} tasks are more than the {MOST_TASKS:,} of one run: fewer seeds (--seed), longer windows (--cut), or"
            " several runs into one store"
        )


def _content(where: str, topology: str | None) -> str:
    """What the bytes say: of a recording its manifest, of a trace what its recording would be called."""
    from rewake.importing import identity

    if remote.is_url(where):
        return remote.content(where)
    try:
        if (manifest := Path(where) / "manifest.json").is_file():
            return hashlib.sha256(manifest.read_bytes()).hexdigest()
        return identity(where, topology)
    except (RewakeError, OSError):
        return _unreadable(Path(where))


def _unreadable(path: Path) -> str:
    """Of a file that is no trace: its bytes, so that a mended one is another; of none, that there is none."""
    if path.exists() and not path.is_file():
        return "unreadable-special"  # to open a FIFO is to wait
    try:
        with path.open("rb") as file:
            return "unreadable-" + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"unreadable-{error.errno}"


def _cut(source: Source, cut_ns: int | None, topology: str | None) -> list[tuple[int | None, int | None]]:
    """The windows of a source; whole where it is not to be cut, or cannot be opened."""
    whole = [(source.from_ns, source.until_ns)]
    if cut_ns is None or source.from_ns is not None or source.until_ns is not None:
        return whole
    if remote.is_url(source.where):
        raise UsageError(f"{source.uri}: --cut needs to look into the trace first: give its windows in a list")
    try:
        span = int(_manifest(Path(source.where), topology).get("span_ns") or 0)
    except RewakeError:
        return whole
    # What is left over at the end, below half a window, goes to the last one.
    n = max(1, (span + cut_ns // 2) // cut_ns)
    require_few(n)
    return [(k * cut_ns, (k + 1) * cut_ns if k + 1 < n else None) for k in range(n)]


def _manifest(path: Path, topology: str | None) -> dict[str, Any]:
    from rewake.forms import Recording
    from rewake.importing import import_trace

    recording = Recording(path) if (path / "manifest.json").is_file() else import_trace(path, topology)
    return recording.manifest
