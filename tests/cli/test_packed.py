# SPDX-License-Identifier: GPL-2.0-or-later
"""Traces packed with gzip: read as what is in them; what cannot be unpacked is told; hostile ones are refused."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import subprocess
import tarfile
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from capturing import capture
from command import told
from hypothesis import given, settings
from hypothesis import strategies as st

from rewake.collectors import unpack
from rewake.errors import TraceError

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "traces"
DAT = ROOT / "fixtures" / "12cpu-buddy-hackbench" / "trace.dat"


def recorded(capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(told(capsys, "import", path).strip()) / "manifest.json").read_text())
    return found


def packed(path: Path, folder: Path) -> Path:
    out = folder / f"{path.name}.gz"
    out.write_bytes(gzip.compress(path.read_bytes(), 1))
    return out


def a_text(folder: Path) -> Path:
    path = folder / "report.txt"
    with path.open("wb") as file:
        subprocess.run(["trace-cmd", "report", "-t", "-i", DAT], stdout=file, stderr=subprocess.DEVNULL, check=True)
    return path


@pytest.mark.parametrize("kind", ["trace.dat", "text", "perf.data", "pftrace", "deflate", "capture"])
def test_a_packed_trace_is_what_is_in_it(capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str) -> None:
    if kind == "capture":
        capture(tmp_path / "capture.tar")
    plain = {
        "trace.dat": DAT, "text": tmp_path / "report.txt", "capture": tmp_path / "capture.tar",
        "perf.data": SHARED / "local-perf" / "sched.perf.data",
        "pftrace": SHARED / "local-pftrace" / "full.pftrace",
        "deflate": SHARED / "local-pftrace" / "compact-deflate.pftrace",
    }[kind]  # fmt: skip
    if kind == "text":
        a_text(tmp_path)
    if not plain.exists():
        pytest.skip("no shared recordings")
    one, two = recorded(capsys, plain), recorded(capsys, packed(plain, tmp_path))
    source = two["source"]
    assert (source["packed"], source["format"]) == ("gzip", one["source"]["format"])
    assert (one["source"]["packed"], one["problems"]) == (None, two["problems"])
    own = ("id", "source", "digest", "sha256", "notes")  # trace.dat: its snapshot lies beside it, not beside the copy
    same = ("events", "first_ns", "last_ns", "loss", "missing", "skipped", "kernel", "clock")
    assert {k: one[k] for k in same} == {k: two[k] for k in same}, own
    assert f"{source['format']}" in (shown := told(capsys, "info", tmp_path / f"{plain.name}.gz"))
    assert ", in gzip\n" in shown


def test_damage_is_told_and_strict_refuses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = a_text(tmp_path).read_bytes()
    whole = gzip.compress(text[:30000]) + gzip.compress(text[30000:])  # two members
    path = tmp_path / "t.gz"
    path.write_bytes(whole + bytes(1000))  # a tape's padding
    events = recorded(capsys, path)
    assert events["problems"] == []

    path.write_bytes(whole[:-5000])
    found = recorded(capsys, path)
    assert found["problems"][0] == (
        f"gzip data, what is behind is lost: ends in the middle: offset {len(whole) - 5000}"
    )
    assert 0 < found["events_total"] < events["events_total"]
    assert "ends in the middle" in told(capsys, "import", path, "--strict", code=1)

    path.write_bytes(whole + b"more")
    assert recorded(capsys, path)["problems"] == [f"bytes behind the gzip data, skipped: offset {len(whole)}"]

    path.write_bytes(whole[:-8] + bytes(8))  # checksum and length
    (problem,) = recorded(capsys, path)["problems"]
    assert problem.startswith("gzip data, what is behind is lost: incorrect data check: offset ")

    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(DAT.read_bytes())[:600])
    line = told(capsys, "import", cut, code=1)
    assert f"{cut} (unpacked)" in line and "ends in the middle: offset 600" in line and "/proc" not in line


REFUSED = {
    "not gzip": (b"\x1f\x8b\x08" + bytes(90), "compressed with gzip; unpack it first: gzip -d"),
    "twice": (gzip.compress(gzip.compress(b"x")), "in it: compressed with gzip; unpack it first: gzip -d"),
    "no trace": (gzip.compress(b"hello\n"), "compressed with gzip, in it: a text file, no trace"),
    "nothing": (gzip.compress(b""), "compressed with gzip, in it: nothing"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(90), "compressed with zstd; unpack it first: zstd -d"),
    "xz": (lzma.compress(b"x"), "compressed with xz; unpack it first: xz -d"),
    "bzip2": (bz2.compress(b"x"), "compressed with bzip2; unpack it first: bzip2 -d"),
    "lz4": (b"\x04\x22\x4d\x18" + bytes(20), "compressed with lz4; unpack it first: lz4 -d"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    content, message = REFUSED[name]
    path = tmp_path / "x"
    path.write_bytes(content)
    line = told(capsys, "import", path, code=1)
    assert message in line and str(path) in line and line.count("\n") == 1


def test_an_archive_in_gzip_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as tar:
        tar.add(DAT, "trace.dat")
    assert "in it: an archive" in told(capsys, "import", tmp_path / "x.tar.gz", code=1)


# --- hostile ones


def test_a_bomb_is_refused_in_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "_FREE", 20 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(64 << 20), 9))
    tracemalloc.start()
    with pytest.raises(TraceError, match="unpacks to more than 20971520 bytes"), unpack.gzip(path):
        pass
    assert tracemalloc.get_traced_memory()[1] < 6 << 20
    tracemalloc.stop()
    assert list(tmp_path.iterdir()) == [path]


def test_many_empty_members_take_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "empty.gz"
    path.write_bytes(gzip.compress(b"x") + gzip.compress(b"") * 20_000)
    with unpack.gzip(path) as found:
        assert (found.path.read_bytes(), found.damage) == (b"x", [])


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(bytes(100)))
    full = Path("/dev/full").open("r+b", buffering=0)  # noqa: SIM115
    monkeypatch.setattr(unpack.tempfile, "TemporaryFile", lambda **_: full)
    said = "cannot unpack it: No space left on device; give room by TMPDIR"
    with pytest.raises(TraceError, match=said), unpack.gzip(path):
        pass


@settings(max_examples=150)
@given(data=st.data())
def test_all_that_lies_before_damage_is_kept(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """A cut: a prefix, and told. A flipped bit: told, or refused, or nothing but a header's field changed."""
    text = b"".join(b"line %d %d\n" % (i, i * i % 977) for i in range(3000))
    edges = sorted(data.draw(st.lists(st.integers(1, len(text) - 1), max_size=2, unique=True)))
    parts = [text[a:b] for a, b in zip([0, *edges], [*edges, len(text)], strict=True)]
    members = [gzip.compress(p, data.draw(st.integers(0, 9))) for p in parts]
    whole = b"".join(members)
    at = data.draw(st.integers(0, len(whole) - 1))
    path = tmp_path_factory.mktemp("gz") / "t.gz"

    path.write_bytes(whole[:at])
    ends = [sum(map(len, members[:k])) for k in range(len(members) + 1)]
    if at > 0:
        try:
            with unpack.gzip(path) as found:
                kept = found.path.read_bytes()
                assert text.startswith(kept) and bool(found.damage) == (at not in ends)
                # all that zlib can make of it, not less
                n = next(k for k in range(len(members)) if ends[k + 1] >= at)
                tail = zlib.decompressobj(31).decompress(members[n][: at - ends[n]])
                assert kept == b"".join(parts[:n]) + tail
        except TraceError as error:
            assert "ends in the middle" in str(error)

    flipped = bytearray(whole)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(flipped)
    try:
        with unpack.gzip(path) as found:
            kept = found.path.read_bytes()
            assert found.damage or kept == text
    except TraceError as error:
        assert str(path) in str(error)
