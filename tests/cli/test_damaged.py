# SPDX-License-Identifier: GPL-2.0-or-later
"""Mutated copies of real files through `rewake import` and `check`: an answer or one line, in bounded time and memory.

Truncations, flipped bits, pages that are zeroed or change places. Each copy runs in a process of its own; what is lost,
unknown or out of order is counted in the manifest. 50 copies of each of four files run with --slow, a few
always.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from capturing import capture

from rewake.forms import EVENT_TABLES

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
SECONDS = 10
BYTES = 2 << 30
PAGE = 4096
COPIES = 50
DEMO = ROOT / "fixtures" / "demo-split-llc-schbench" / "trace.dat"


def real(kind: str, folder: Path) -> Path:
    """v7 with zstd as recorded; v6 and plain v7 as trace-cmd converts it; a capture's pages are generated."""
    path = folder / f"{kind}.dat"
    if kind == "zstd":
        return DEMO
    if kind == "capture":
        capture(path)
        return path
    published = {"v6": "lisa", "v7": "derived-v7"}[kind]
    found = sorted((SHARED / "public" / "traces" / published).rglob("*.dat"), key=lambda p: p.stat().st_size)
    if kind == "v7":
        found = [p for p in found if "zstd" not in p.name]
    if not found:
        pytest.skip("no published trace.dat here")
    return found[0]


def mutated(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    out = bytearray(data)
    kind = rng.choice(("truncated", "flipped", "flipped in the head", "zeroed page", "swapped pages"))
    pages = len(data) // PAGE
    if kind == "truncated":
        return kind, data[: rng.randrange(len(data))]
    if kind.startswith("flipped"):
        for _ in range(rng.randrange(1, 9)):
            at = rng.randrange(min(len(data), 16384) if "head" in kind else len(data))
            out[at] ^= 1 << rng.randrange(8)
    elif kind == "zeroed page":
        at = rng.randrange(pages) * PAGE
        out[at : at + PAGE] = bytes(len(out[at : at + PAGE]))
    else:
        a, b = (rng.randrange(pages) * PAGE for _ in range(2))
        out[a : a + PAGE], out[b : b + PAGE] = out[b : b + PAGE], out[a : a + PAGE]
    return kind, bytes(out)


# Forks a child with limits for each command line; of CPU time, for the machine may be busy. Imports are done once.
SERVER = """
import json, os, resource, sys
import duckdb, numpy
import rewake.analysis.quality, rewake.importing, rewake.replay.decisions
import rewake.collectors._decode, rewake.collectors.snapshot
from rewake.cli import main
seconds, size = int(sys.argv[1]), int(sys.argv[2])
for line in sys.stdin:
    arguments, out, err = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = main(arguments)
        sys.stdout.flush()
        os._exit(code)
    _, status, usage = os.wait4(pid, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss]), flush=True)
"""


class Server:
    def __init__(self, folder: Path) -> None:
        self.files = [str(folder / "out"), str(folder / "err")]
        self.most_kb = 0
        env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        self.process = subprocess.Popen([sys.executable, "-c", SERVER, str(SECONDS), str(BYTES)], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """(exit code, below 0 for a signal; standard output; standard error)"""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([arguments, *self.files]) + "\n")
        self.process.stdin.flush()
        code, kb = json.loads(self.process.stdout.readline())
        self.most_kb = max(self.most_kb, kb)
        out, err = (Path(f).read_text() for f in self.files)
        return code, out, err

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(SECONDS)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("part", ["few", pytest.param("all", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["v6", "v7", "zstd", "capture"])
def test_mutated_copies(tmp_path: Path, server: Server, kind: str, part: str) -> None:
    data = real(kind, tmp_path).read_bytes()
    rng = random.Random(f"{kind} {part}")
    seen: Counter[str] = Counter()
    copy, recording = tmp_path / "copy.dat", tmp_path / "copy.rewake"
    copies = COPIES if part == "all" else 2
    original = tmp_path / "original.dat"
    original.write_bytes(data)
    assert server.run("import", str(original), "-o", str(recording))[0] == 0
    for k in range(copies):
        how, content = mutated(data, rng)
        copy.write_bytes(content)
        shutil.rmtree(recording, ignore_errors=True)
        code, _, err = server.run("import", str(copy), "-o", str(recording))
        where = f"copy {k} ({how}): exit {code}: {err[-2000:]}"
        assert code in (0, 1), where
        assert "Traceback" not in err and "a bug in rewake" not in err, where
        if code == 1:
            assert re.fullmatch(r"rewake: error: [^\n]+\n", err), where
            assert not recording.exists()
            seen["refused"] += 1
            continue
        code, out, err = server.run("check", str(recording), "--format", "json")
        assert code in (0, 4), f"copy {k} ({how}): exit {code}: {err[-2000:]}"
        json.loads(out)
        said = json.loads((recording / "manifest.json").read_bytes())
        rows = {t: sum(n) if isinstance(n, list) else n for t, n in said["rows"].items()}
        damage = said["problems"] or said["lost"] or said["steps_back"] or any(c["gaps"] for c in said["loss"])
        seen["degraded" if damage else "whole"] += 1
        # Nothing goes silently: every record is in a table, of an event without one, a failed wakeup, or a problem.
        left = said["events_total"] - sum(said["skipped"].values()) - said["wakeup_failed"]
        assert sum(rows[t] for t in EVENT_TABLES if t != "loss") == left or said["problems"], f"copy {k} ({how})"
    assert sum(seen.values()) == copies
    assert server.most_kb << 10 < BYTES
    if part == "all":
        print(f"{kind}: {dict(seen)}, at most {server.most_kb >> 10} MiB")
        assert seen["refused"] and seen["degraded"], seen
