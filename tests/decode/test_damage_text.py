# SPDX-License-Identifier: GPL-2.0-or-later
"""200 mutated copies of real text and Perfetto traces: no crash, no hang, bounded memory, nothing dropped silently."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from decode import perfetto_writer, printing
from decode.mutating import of_all_kinds, survive
from decode.reading import SHARED, decode
from decode.test_golden import ROWS
from decode.test_text import records

from rewake.collectors._decode import Pftrace, Text


@pytest.fixture(params=["text", "html", "full", "compact", "recorded"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A file to mutate, and its reader."""
    path = tmp_path / "trace"
    some = records([(ts + 10**10 * k, cpu, event, fields) for k in range(120) for ts, cpu, event, fields in ROWS])
    if request.param in ("text", "html"):
        path.write_bytes((printing.tracefs if request.param == "text" else printing.legacy_html)(some, digits=6))
        return path, "Text"
    if request.param == "recorded":
        if not (traced := SHARED / "traces" / "local-pftrace" / "compact.pftrace").exists():
            pytest.skip("no shared recordings")
        path.write_bytes(traced.read_bytes())
        return path, "Pftrace"
    pytest.importorskip("perfetto")
    perfetto_writer.write(path, some, compact=request.param == "compact", bundle=100)
    return path, "Pftrace"


def test_mutated_copies(file: tuple[Path, str]) -> None:
    path, reader = file
    tally = survive(path, of_all_kinds(path.stat().st_size, 200, 6), reader)
    assert tally["degraded"] > 20


def test_every_line_is_an_event_or_counted(tmp_path: Path) -> None:
    """Whatever a line becomes, it is a row, an event without one, a comment or a problem."""
    rng = random.Random(3)
    text = bytearray(printing.tracefs([r for r in records(ROWS) * 3 if r.lost is None]))
    for _ in range(60):
        text[rng.randrange(200, len(text))] = rng.choice(b" []:=-0x\xff")
    (tmp_path / "trace").write_bytes(text)
    got = decode(tmp_path / "trace", reader=Text)
    lines = [line for line in bytes(text).split(b"\n") if line and not line.startswith(b"#")]
    problems = sum(_times(p) for p in got.end["problems"] if "skipped" in p and "record" not in p)
    unread = sum(_times(p) for p in got.end["problems"] if "cannot be read" in p)
    assert got.end["events"] + problems - unread == len(lines)


def _times(problem: str) -> int:
    before = problem.rpartition(" times, first at ")[0]
    return int(before.rpartition(": ")[2]) if before else 1


def test_bundles_and_batches_do_not_matter(tmp_path: Path) -> None:
    pytest.importorskip("perfetto")
    path = tmp_path / "trace"
    some = records([(ts + 10**10 * k, cpu, e, f) for k in range(50) for ts, cpu, e, f in ROWS])
    perfetto_writer.write(path, some, bundle=7)
    whole, parts = decode(path, reader=Pftrace), decode(path, 100, reader=Pftrace)
    assert parts.batches > 5 and parts.rows == whole.rows
    perfetto_writer.write(path, some, bundle=1000)
    assert decode(path, reader=Pftrace).rows == whole.rows
