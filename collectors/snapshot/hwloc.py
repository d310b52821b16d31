# SPDX-License-Identifier: GPL-2.0-or-later
"""hwloc at arm's length: foreign input is parsed in a child process with limits, a crash there is an error here."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from rewake.collectors.snapshot.cpulist import MAX_CPUS
from rewake.errors import RewakeError, TraceError

WALL_SECONDS = 60
_MESSAGE_CHARS = 300
_LEVEL = re.compile(r"([A-Za-z]\w*)(?::(\d+))?(?:\(([^)]*)\))?")
"""Of a synthetic topology: name, number, notes."""
_NUMBERED = ("pu", "numa", "node", "pack", "socket")
"""What levels begin with that go by their numbers."""


@dataclass(frozen=True)
class Pu:
    """One CPU as hwloc sees it: core and caches by their lowest CPU, package and node by number; None: unknown."""

    cpu: int
    core: int | None
    l3: int | None
    l2: int | None
    package: int | None
    node: int | None


@dataclass(frozen=True)
class Hardware:
    """Online CPUs, NUMA distances (`distance[a][b]` between node numbers, 10 = local) and hwloc's XML of all this."""

    pus: dict[int, Pu] = field(default_factory=dict)
    distance: dict[int, dict[int, int]] = field(default_factory=dict)
    xml: bytes | None = None


def read_fsroot(root: Path, name: str) -> Hardware:
    """A directory that holds copies of files of /sys and /proc; `name` is what errors call it."""
    return _run("fsroot", name, None, {"HWLOC_FSROOT": str(root), "HWLOC_COMPONENTS": "linux,stop"})


def read_xml(path: Path) -> Hardware:
    """A file written by `lstopo --of xml`."""
    return _run("xml", str(path), path, {})


def read_synthetic(text: str) -> Hardware:
    """hwloc's synthetic syntax, e.g. `pack:2 l3:8 core:8 pu:2`."""
    # Each number is per parent; hwloc would count to any product. Notes in brackets are no levels.
    levels = re.findall(r":(\d+)", re.sub(r"\([^)]*\)|\[[^\]]*\]", "", text))
    if math.prod(max(float(n), 1.0) for n in levels) > MAX_CPUS:
        raise TraceError(f"topology {text[:_MESSAGE_CHARS]!r}: more than {MAX_CPUS} CPUs")
    # Where a list of numbers is too short hwloc takes its own; of what has the same number it makes one.
    count = 1
    for name, n, notes in _LEVEL.findall(text):
        count *= int(n or 1)
        if name.lower().startswith(_NUMBERED) and (told := re.search(r"\bindexes=([\d,]++)(?![:*\w])", notes)):
            numbers = [int(number) for number in told[1].split(",") if number]
            if not len(numbers) == len(set(numbers)) == count:
                raise TraceError(
                    f"topology {text[:_MESSAGE_CHARS]!r}: {told[0][:60]}: has to give {count} different numbers"
                )
    with tempfile.NamedTemporaryFile("w", prefix="rewake-", suffix=".synthetic") as f:
        f.write(text)
        f.flush()
        try:
            return _run("synthetic", repr(text), Path(f.name), {})
        except TraceError as error:
            raise TraceError(f"{error}; the levels go from the outside in and end with pu") from None


def _run(kind: str, name: str, file: Path | None, extra: dict[str, str]) -> Hardware:
    spec = importlib.util.find_spec("rewake.collectors._hwloc")
    if spec is None or spec.origin is None:
        raise RewakeError(
            "the extension module rewake.collectors._hwloc is not built: run ./dev demo, or pip install ."
        )
    env = {k: v for k, v in os.environ.items() if not k.startswith("HWLOC_")}
    env |= {"HWLOC_THISSYSTEM": "0", "HWLOC_HIDE_ERRORS": "2", "LC_ALL": "C.UTF-8"} | extra
    child = str(Path(__file__).with_name("child.py"))
    command = [sys.executable, "-I", "-S", "-B", child, spec.origin, kind, *([str(file)] if file else [])]
    # Files, not pipes: the child's limit on file size then bounds what it can hand back.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            rc = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
                                timeout=WALL_SECONDS, check=False).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TraceError(f"topology {name}: hwloc did not finish within {WALL_SECONDS} s") from None
        out.seek(0)
        err.seek(0)
        if rc != 0:
            lines = err.read(1 << 16).decode("utf-8", "replace").strip().splitlines()
            why = lines[-1][:_MESSAGE_CHARS] if lines and rc > 0 else f"the parser stopped with {_status(rc)}"
            raise TraceError(f"topology {name}: {why}")
        try:
            return _hardware(json.load(out))
        except (ValueError, TypeError, KeyError) as e:
            raise TraceError(f"topology {name}: unusable answer from hwloc ({e})") from None


def _status(rc: int) -> str:
    return f"signal {-rc}" if rc < 0 else f"status {rc}"


def _hardware(answer: dict[str, object]) -> Hardware:
    rows = answer["pus"]
    nodes, matrix = answer.get("nodes", []), answer.get("distances", [])
    assert isinstance(rows, list) and isinstance(nodes, list) and isinstance(matrix, list)
    distance = {a: dict(zip(nodes, row, strict=True)) for a, row in zip(nodes, matrix, strict=True)}
    return Hardware({r[0]: Pu(*r) for r in rows}, distance, str(answer["xml"]).encode())
