# SPDX-License-Identifier: GPL-2.0-or-later
"""Damaged files: a one-line TraceError or counted degradation; never a crash, a hang or a huge allocation."""

from __future__ import annotations

import random
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tracedat
from decode.mutating import survive
from decode.reading import count, decode

from rewake.collectors._decode import TraceDat
from rewake.errors import TraceError

KINDS: dict[str, dict[str, Any]] = {
    "v6": {"version": 6}, "v7": {"version": 7}, "zstd": {"version": 7, "compression": "zstd"},
    "32-bit big-endian": {"version": 6, "machine": tracedat.Machine(3, 4, ">")},
}  # fmt: skip


def small_file(path: Path, kind: str) -> bytes:
    tracedat.write(path, tracedat.schedule(600, 3, block=300), **{"machine": tracedat.Machine(3), **KINDS[kind]})
    return path.read_bytes()


def refused(path: Path) -> str:
    with pytest.raises(TraceError) as error:
        decode(path)
    message = str(error.value)
    assert "\n" not in message and message.startswith(str(path))
    return message


@pytest.mark.parametrize("kind", KINDS)
def test_truncated_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "trace.dat"
    size = len(small_file(path, kind))
    keeps = [*range(0, 2000, 37), *range(2000, size, 501), size - 1]
    tally = survive(path, [([], keep) for keep in keeps])
    if kind.startswith(("v7", "zstd")):  # the options, where all else is found, come last
        assert tally["clean"] == 0
    assert tally["refused"] > 20


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bits(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "trace.dat"
    data = small_file(path, kind)
    rng = random.Random(kind)
    mutations = []
    for k in range(400):
        most = len(data) if k % 2 else 1500
        places = [rng.randrange(most) for _ in range(rng.randrange(1, 5))]
        values = [rng.choice([data[at] ^ 1 << rng.randrange(8), 0, 0xFF]) for at in places]
        mutations.append((list(zip(places, values, strict=True)), len(data)))
    tally = survive(path, mutations)
    assert tally["refused"] > 0 and tally["degraded"] > 0


def test_flipped_bits_in_format_texts(tmp_path: Path) -> None:
    """libtraceevent must not see them: its parser crashes on some."""
    path = tmp_path / "trace.dat"
    data = small_file(path, "v6")
    first, last = data.index(b"name: sched_switch"), data.index(b"flyrecord")
    rng = random.Random(1)
    survive(
        path, [([(rng.randrange(first, last), rng.randrange(256)) for _ in range(3)], len(data)) for _ in range(400)]
    )


def test_not_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "a file"
    for content, why in (
        (b"", "offset 0: the file is empty"),
        (b"\n".join([b"# tracer: nop"] * 9), "not a trace.dat file"),
        (b"PERFILE3" + bytes(100), "not a trace.dat file"),
        (b"\x17\x08\x44tracing5\0" + bytes(100), "version 5 is not known"),
        (b"\x17\x08\x44tracing6\0", "truncated"),
        (b"\x17\x08\x44tracing6\0\0\x07" + bytes(100), "size of long 7"),
    ):
        path.write_bytes(content)
        assert why in refused(path)
    assert "not a regular file" in refused(tmp_path)
    assert "cannot open" in refused(tmp_path / "absent")


def test_latency_tracer_text(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    data = small_file(path, "v6")
    path.write_bytes(data.replace(b"flyrecord\0", b"latency  \0"))
    assert "text of a latency tracer" in refused(path)


def test_cpu_data_cut_off(tmp_path: Path) -> None:
    """Version 6 keeps the data last: what is there is decoded, the rest is counted."""
    path = tmp_path / "trace.dat"
    tracedat.write(path, tracedat.schedule(5000, 2), machine=tracedat.Machine(2))
    whole = decode(path)
    size = path.stat().st_size
    for lost in (100, 5000, 30_000):
        path.write_bytes(path.read_bytes()[: size - lost])
        part = decode(path)
        assert any("truncated" in p for p in part.end["problems"])
        assert [r for r in part.resolved() if r["cpu"] == 0] == [r for r in whole.resolved() if r["cpu"] == 0]
        mine = [r for r in part.resolved() if r["cpu"] == 1]
        assert mine[:-1] == [r for r in whole.resolved() if r["cpu"] == 1][: len(mine) - 1] and len(mine) > 100


def test_bad_page_is_a_gap(tmp_path: Path) -> None:
    """A record that runs over its page: the rest of the page is lost, and said to be lost."""
    path = tmp_path / "trace.dat"
    rows: list[tracedat.Row] = [(10 * i, 0, "cpu_idle", {"state": 1, "cpu_id": 0}) for i in range(1, 601)]
    tracedat.write(path, rows)
    data = bytearray(path.read_bytes())
    page = len(data) - 2 * 4096  # the second of three
    struct.pack_into("<I", data, page + 16 + 20 * 5, 10 << 5 | 28)  # its 6th record claims 112 bytes ...
    struct.pack_into("<Q", data, page + 8, 20 * 5 + 16)  # ... of which the page has 12
    path.write_bytes(data)
    got = decode(path)
    assert any("record runs over the end of its page" in p for p in got.end["problems"])
    assert got.end["lost"][0]["gaps"] == 1 and len(got.table("loss")) == 1
    assert got.table("loss")[0]["lost"] is None and got.end["lost"][0]["blind_ns"] > 0


def test_zeroed_page_is_a_gap(tmp_path: Path) -> None:
    """What a file system leaves of blocks that it did not get to write: not a page without records."""
    path = tmp_path / "trace.dat"
    tracedat.write(path, [(10 * i, 0, "cpu_idle", {"state": 1, "cpu_id": 0}) for i in range(1, 601)])
    data = bytearray(path.read_bytes())
    data[-8192:-4096] = bytes(4096)  # the second of three
    path.write_bytes(data)
    got = decode(path)
    assert got.end["problems"][0].startswith("page of zeros where records were: CPU 0, offset ")
    assert [r["lost"] for r in got.table("loss")] == [None] and got.end["lost"][0]["gaps"] == 1


def test_bad_chunk_is_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    tracedat.write(path, tracedat.schedule(20_000, 1), version=7, compression="zstd", machine=tracedat.Machine(1))
    whole = count(path)
    data = bytearray(path.read_bytes())
    at = [m.start() for m in re.finditer(re.escape(b"\x28\xb5\x2f\xfd"), data)]
    data[at[-3] + 40 : at[-3] + 60] = bytes(20)
    path.write_bytes(data)
    part = count(path)
    assert part["problems"] and "compressed chunk cannot be unpacked" in part["problems"][0]
    assert part["lost"][0]["gaps"] == 1 and 0 < part["events"] < whole["events"]


def test_chunks_beyond_their_number_are_a_gap(tmp_path: Path) -> None:
    """The number of chunks is damaged and smaller than it was: what is left of the CPU's data is not just left out."""
    path = tmp_path / "trace.dat"
    tracedat.write(path, tracedat.schedule(20_000, 1), version=7, compression="zstd", machine=tracedat.Machine(1))
    whole = count(path)
    data = bytearray(path.read_bytes())
    number = data.index(b"\x28\xb5\x2f\xfd", data.index(struct.pack("<HH", 3, 1) + bytes(4))) - 12
    chunks = struct.unpack_from("<I", data, number)[0]
    assert chunks > 2
    struct.pack_into("<I", data, number, chunks - 1)
    path.write_bytes(data)
    part = count(path)
    assert len(part["problems"]) == 1 and "behind as many chunks as they claim" in part["problems"][0]
    assert part["lost"][0]["gaps"] == 1 and 0 < part["events"] < whole["events"]


def test_impossible_values_are_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    wake = {"comm": "a", "pid": 5, "prio": 120, "target_cpu": 0}
    bad = [{"pid": -1}, {"pid": 1 << 30}, {"prio": 1 << 20}, {"target_cpu": 2}, {"target_cpu": -1}, {"common_pid": -7}]
    rows: list[tracedat.Row] = [(i + 1, 0, "sched_waking", {**wake, **b}) for i, b in enumerate(bad)]
    rows += [(100, 1, "sched_waking", wake), (101, 1, "cpu_idle", {"state": 1, "cpu_id": 70000})]
    tracedat.write(path, rows)
    got = decode(path)
    assert len(got.rows) == 1 and got.end["events"] == len(rows)
    (problem,) = got.end["problems"]
    assert problem.startswith(
        "record with an impossible tid, CPU or priority, skipped: 7 times, first at CPU 0, offset "
    )


def test_event_without_a_needed_field(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    fmts = tuple(
        f
        if f.name != "sched_waking"
        else tracedat.Format("sched", "sched_waking", 317, ("pid_t pid", "int prio"), "pid=%d")
        for f in tracedat.FORMATS
    )
    rows: list[tracedat.Row] = [(1, 0, "sched_waking", {"pid": 4}), (2, 0, "cpu_idle", {"state": 1})]
    tracedat.write(path, rows, fmts=fmts)
    got = decode(path)
    assert got.end["skipped"] == {"sched_waking": 1} and len(got.rows) == 1
    assert "event without field comm, its events skipped" in got.end["problems"][0]


def test_declaration_that_libtraceevent_leaks_on(tmp_path: Path) -> None:
    """`int[] name`: brackets before the name belong to `__data_loc char[] name` only. Found by fuzzing."""
    path = tmp_path / "trace.dat"
    tracedat.write(path, [(1, 0, "irq_handler_entry", {"irq": 9, "name": "acpi"}), (2, 0, "cpu_idle", {"state": 1})])
    data = path.read_bytes()
    whole, bad = b"field:__data_loc char[] name;", b"field:__data_loccchar[] name;"
    assert data.count(whole) == 1
    path.write_bytes(data.replace(whole, bad))
    got = decode(path)
    assert got.end["skipped"] == {"irq_handler_entry": 1} and len(got.rows) == 1
    assert "event format that cannot be read, its events skipped" in got.end["problems"][0]


def test_lost_counts_that_do_not_fit_are_cut(tmp_path: Path) -> None:
    """Two stored counts near the largest number, and a gap as long as time itself. Found by fuzzing."""
    path = tmp_path / "trace.dat"
    most = (1 << 63) - 1
    rows: list[tracedat.Row] = [(1, 0, "cpu_idle", {"state": 1})]
    for ns in (1 << 62, most - 2):
        rows += [(ns, 0, "loss", {"lost": most - 1}), (ns, 0, "cpu_idle", {"state": 1})]
    tracedat.write(path, rows)
    end = decode(path).end
    assert end["lost"] == [{"cpu": 0, "lost": most, "gaps": 2, "blind_ns": most - 3}]


def test_time_that_steps_back_is_counted(tmp_path: Path) -> None:
    """Pages swapped: the stream is followed as it is."""
    path = tmp_path / "trace.dat"
    tracedat.write(path, [(10 * i, 0, "cpu_idle", {"state": 1}) for i in range(1, 301)])
    data = path.read_bytes()
    head, a, b = data[:-8192], data[-8192:-4096], data[-4096:]
    path.write_bytes(head + b + a)
    got = decode(path)
    assert len(got.rows) == 300 and got.end["steps_back"] == 1
    assert (got.end["first_ns"], got.end["last_ns"]) == (10, 3000), "the earliest and the latest, wherever they stand"


def test_memory_is_bounded_by_the_batch(tmp_path: Path) -> None:
    """Ten times the trace, the same peak: batches are let go as they are read."""
    path = tmp_path / "trace.dat"
    code = (
        "import sys\nfrom rewake.collectors._decode import TraceDat\nt = TraceDat(sys.argv[1], 20000)\n"
        "while t.next_batch() is not None: pass\nprint(open('/proc/self/status').read())"
    )
    peaks = []
    for events in (100_000, 1_000_000):
        tracedat.write(path, tracedat.schedule(events, 4), machine=tracedat.Machine(4))
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
        peak = re.search(r"VmHWM:\s+(\d+) kB", done.stdout)
        assert peak is not None
        peaks.append(int(peak[1]))
    assert peaks[1] < peaks[0] * 1.1 + 4096


def test_open_file_is_kept_when_it_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    tracedat.write(path, tracedat.schedule(60_000, 1), machine=tracedat.Machine(1))
    trace = TraceDat(str(path), 1000)
    with path.open("r+b") as f:
        f.truncate(path.stat().st_size // 2)
    while trace.next_batch() is not None:
        pass
    assert any("became shorter" in p for p in trace.finish()["problems"])
