# SPDX-License-Identifier: GPL-2.0-or-later
"""Damaged copies of a file, decoded in a process of its own with an address space limit: a crash or a huge allocation
is a failure of that process."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

Edit = tuple[int, int] | tuple[int, int, int]
"""(offset, byte), or (offset, length, from where): a copy of another place of the file, zeros for -1."""
Mutation = tuple[Sequence[Edit], int]
"""Edits, and how many bytes of the file stay."""

PAGE = 4096
CHILD = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from pathlib import Path
import rewake.collectors._decode as readers
from rewake.errors import TraceError
path = Path(sys.argv[1])
reader = getattr(readers, sys.argv[2])
whole = path.read_bytes()
tally = {"refused": 0, "degraded": 0, "clean": 0}
slowest = 0.0
for edits, keep in json.load(sys.stdin):
    data = bytearray(whole)
    for at, value, *source in edits:
        if source:
            data[at : at + value] = whole[source[0] : source[0] + value] if source[0] >= 0 else bytes(value)
        else:
            data[at] = value
    path.write_bytes(data[:keep])
    start = time.monotonic()
    try:
        trace = reader(str(path), 1000)
        while trace.next_batch() is not None:
            pass
        end = trace.finish()
        degraded = end["problems"] or end["steps_back"] or any(l["gaps"] for l in end["lost"])
        tally["degraded" if degraded else "clean"] += 1
    except TraceError as error:
        assert "\\n" not in str(error)
        tally["refused"] += 1
    slowest = max(slowest, time.monotonic() - start)
assert slowest < 10, slowest
print(json.dumps(tally))
"""


def survive(path: Path, mutations: Sequence[Mutation], reader: str = "TraceDat") -> dict[str, int]:
    """How many were refused, read with something counted, read as if nothing were wrong."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD, path, reader], input=json.dumps(mutations), capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    tally: dict[str, int] = json.loads(child.stdout)
    assert sum(tally.values()) == len(mutations)
    return tally


def of_all_kinds(size: int, n: int, seed: int) -> list[Mutation]:
    """`n` mutations of a file of `size` bytes, in turn truncated, with flipped bits, zeroed pages, swapped pages."""
    rng = random.Random(seed)
    out: list[Mutation] = []
    for k in range(n):
        if k % 4 == 0:
            out.append(([], rng.randrange(size)))
        elif k % 4 == 1:
            out.append(([(rng.randrange(size), rng.randrange(256)) for _ in range(rng.randrange(1, 40))], size))
        else:
            pages = [rng.randrange(max(1, size // PAGE)) * PAGE for _ in range(2)]
            a, b = pages
            n_bytes = min(PAGE, size - max(pages))
            out.append(([(a, n_bytes, -1)] if k % 4 == 2 else [(a, n_bytes, b), (b, n_bytes, a)], size))
    return out
