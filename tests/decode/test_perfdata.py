# SPDX-License-Identifier: GPL-2.0-or-later
"""perf.data: written files come back as the trace.dat of the same events does; damage, losses, other records."""

from __future__ import annotations

import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import perfdata
import pytest
import tracedat
from decode.mutating import of_all_kinds, survive
from decode.reading import Decoded, decode
from decode.test_golden import ROWS, S
from perfdata import Layout
from toysched import schedule

from rewake.collectors._decode import PerfData
from rewake.collectors.snapshot import of_trace
from rewake.errors import TraceError
from rewake.importing import import_trace

LAYOUTS = {
    "file": Layout(), "pipe": Layout(pipe=True), "zstd": Layout(compression="zstd"),
    "zstd pipe": Layout(compression="zstd", pipe=True), "zstd2": Layout(compression="zstd2"),
    "call chains": Layout(sample_type=perfdata.PERF_SCHED | perfdata.CALLCHAIN),
    "id among the fields": Layout(sample_type=(perfdata.PERF_SCHED & ~perfdata.IDENTIFIER) | perfdata.ID),
    "one round": Layout(rounds=1), "many rounds": Layout(rounds=200),
    "out of order": Layout(disorder=500), "out of order, piped, zstd": Layout(True, "zstd2", disorder=500),
    "no features": Layout(features=False),
}  # fmt: skip


def same(got: Decoded, want: Decoded) -> None:
    assert got.resolved() == want.resolved()
    assert got.names() == want.names()
    for key in ("event_counts", "skipped", "lost", "first_ns", "last_ns", "wakeup_failed", "problems", "steps_back"):
        assert got.end[key] == want.end[key], key


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("endian", ["<", ">"])
def test_a_perf_data_is_decoded_like_the_trace_dat_of_the_same_events(tmp_path: Path, layout: str, endian: str) -> None:
    if endian == ">" and LAYOUTS[layout].rounds != 4:
        pytest.skip("rounds know no byte order")
    events, machine = schedule(6000, 3), tracedat.Machine(3, endian=endian)
    tracedat.write(tmp_path / "a.dat", events, machine=machine)
    perfdata.write(tmp_path / "b.data", events, machine=machine, layout=LAYOUTS[layout])
    got = decode(tmp_path / "b.data", 500)
    same(got, decode(tmp_path / "a.dat"))
    assert got.end["missing"] == []
    assert got.header["kernel"] == ("6.1.0-test" if LAYOUTS[layout].features else None)
    assert got.header["compression"] == ("zstd" if LAYOUTS[layout].compression != "none" else "none")


def test_every_event_and_its_losses(tmp_path: Path) -> None:
    rows = [r for r in ROWS if not (r[2] == "loss" and r[3]["lost"] is None)]  # perf always counts
    tracedat.write(tmp_path / "a.dat", rows)
    perfdata.write(tmp_path / "b.data", rows, layout=Layout(rounds=1))
    same(decode(tmp_path / "b.data"), decode(tmp_path / "a.dat"))


def test_losses_that_only_the_end_tells(tmp_path: Path) -> None:
    """LOST_SAMPLES counts what LOST records tell, and what was lost after the last of them."""
    path = tmp_path / "perf.data"
    rows: list[tracedat.Row] = [
        (S, 0, "cpu_idle", {"cpu_id": 0}), (S + 5, 1, "cpu_idle", {"cpu_id": 1}),
        (S + 9, 1, "loss", {"lost": 7}), (S + 9, 1, "cpu_idle", {"cpu_id": 1}),
    ]  # fmt: skip
    perfdata.write(path, rows, layout=Layout(lost_samples={0: 3, 1: 9}))
    got = decode(path, 2)
    assert [(r["ts_ns"] - S, r["cpu"], r["lost"]) for r in got.table("loss")] == [(9, 1, 7), (9, 0, 3), (9, 1, 2)]
    assert [(c["lost"], c["gaps"]) for c in got.end["lost"]] == [(3, 1), (9, 2)]


def test_names_forks_and_exits_of_perfs_own_records(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    pack = struct.pack
    switch = {"prev_comm": "swapper/0", "prev_prio": 120, "next_comm": "sh", "next_pid": 40, "next_prio": 120}
    side = [
        (S + 1, 0, perfdata.COMM, pack("<II", 40, 40) + b"make\0\0\0\0"),
        (S + 2, 0, perfdata.FORK, pack("<IIIIQ", 41, 40, 41, 40, S + 2)),
        (S + 3, 0, perfdata.COMM, pack("<II", 77, 77) + b"unseen\0\0"),
        (S + 4, 0, perfdata.EXIT, pack("<IIIIQ", 41, 40, 41, 40, S + 4)),
    ]
    rows: list[tracedat.Row] = [(S, 0, "sched_switch", switch), (S + 9, 0, "sched_switch", switch)]
    perfdata.write(path, rows, layout=Layout(side=side, rounds=1, events=["sched_switch"]))
    got = decode(path)
    assert got.names() == [
        ((0, 0), S, "swapper/0"),
        ((40, 0), S, "sh"),
        ((40, 0), S + 1, "make"),
        ((40, 0), S + 9, "sh"),
    ]
    assert [(r["ts_ns"] - S, r["task"], r["child"]) for r in got.resolved() if r["table"] == "fork"] == [
        (2, (40, 0), (41, 0))
    ]
    assert got.end["tasks"]["exit_ns"][0].tolist()[-1] == S + 4
    assert got.end["missing"] == ["no sched_process_fork: forks are perf's own FORK records"]
    perfdata.write(
        path, rows, layout=Layout(side=side, rounds=1)
    )  # where the tracepoint was asked for, it counts alone
    assert not decode(path).table("fork")


def test_the_machine_comes_from_the_header(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    topology = perfdata.Topology(
        packages=["0-3", "4-7"], threads=["0,4", "1,5", "2,6", "3,7"], ids=[(c % 4, c // 4) for c in range(8)],
        nodes=[(0, "0-3"), (1, "4-7")],
        caches=[(1, "Data", "0,4"), (2, "Unified", "0,4"), (3, "Unified", "0-1,4-5"), (3, "Unified", "2-3,6-7")],
    )  # fmt: skip
    perfdata.write(path, schedule(500, 8), machine=tracedat.Machine(8), layout=Layout(topology=topology))
    machine = of_trace(PerfData(str(path)).header)
    assert machine.cpu["core"][0].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert machine.cpu["llc"][0].tolist() == [0, 0, 2, 2, 0, 0, 2, 2]
    assert machine.cpu["node"][0].tolist() == [0] * 4 + [1] * 4
    assert machine.cpu["package"][0].tolist() == [0] * 4 + [1] * 4
    assert any("trace's own header" in note for note in machine.notes)
    bad = replace(topology, threads=["0-99999999999", "1,5"], caches=[(3, "Unified", "x")])
    perfdata.write(path, schedule(500, 8), machine=tracedat.Machine(8), layout=Layout(topology=bad))
    machine = of_trace(PerfData(str(path)).header)
    assert sum("which cannot be" in note for note in machine.notes) == 2
    perfdata.write(path, schedule(500, 8), machine=tracedat.Machine(8))
    assert len(of_trace(PerfData(str(path)).header).cpu["cpu"]) == 0


def test_the_cpus_that_perf_was_confined_to(tmp_path: Path) -> None:
    """perf record -C: the others passed for idle, and no decision that looks at them was left out."""
    path = tmp_path / "perf.data"
    events = schedule(500, 2)
    topology = perfdata.Topology(packages=["0-3"], threads=["0", "1", "2", "3"])
    for cpus, asked, kept in ((4, None, None), (5, (0, 1, 2, 3), None), (4, (0, 1), [0, 1])):  # CPU 4 is offline
        layout = Layout(topology=topology, asked_cpus=asked)
        perfdata.write(path, events, machine=tracedat.Machine(cpus), layout=layout)
        assert PerfData(str(path)).header["recorded_cpus"] == list(asked or range(cpus))
        assert import_trace(path, None, tmp_path / "a.rewake").manifest["recorded_cpus"] == kept


def refused(path: Path) -> str:
    with pytest.raises(TraceError) as error:
        decode(path)
    message = str(error.value)
    assert "\n" not in message and message.startswith(str(path))
    return message


def test_what_cannot_be_imported_says_why(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    events, machine = schedule(500, 2), tracedat.Machine(2)

    def written(**layout: object) -> bytes:
        perfdata.write(path, events, machine=machine, layout=replace(Layout(), **layout))  # type: ignore[arg-type]
        return path.read_bytes()

    whole = written()
    path.write_bytes(whole[:48] + bytes(8) + whole[56:])
    assert "recording was not finished" in refused(path)
    path.write_bytes(whole[: len(whole) // 2])
    assert "ends inside its records" in refused(path)
    table = sum(struct.unpack("<QQ", whole[40:56]))  # where the features are: those of TRACING_DATA come first
    formats, size = struct.unpack("<QQ", whole[table : table + 16])
    for end in (formats - 1, formats + size - 1):
        path.write_bytes(whole[:end])
        assert "ends before its event formats" in refused(path)
    path.write_bytes(whole[:60])
    assert "truncated" in refused(path)
    path.write_bytes(whole[:8] + struct.pack("<Q", 112) + whole[16:])
    assert "header of 112 bytes" in refused(path)
    attrs_at = struct.unpack("<Q", whole[24:32])[0]
    backward = bytearray(whole)
    backward[attrs_at + 43] |= 1 << 3  # bit 27 of the flags
    path.write_bytes(backward)
    assert "recorded with --overwrite" in refused(path)
    for bit, what in ((perfdata.TIME, "timestamps"), (perfdata.CPU, "their CPU"), (perfdata.RAW, "raw data")):
        written(sample_type=perfdata.PERF_SCHED & ~bit | perfdata.RAW)
        data = path.read_bytes()
        if bit == perfdata.RAW:
            data = data.replace(struct.pack("<Q", perfdata.PERF_SCHED), struct.pack("<Q", perfdata.PERF_SCHED & ~bit))
            path.write_bytes(data)
        assert what in refused(path)
    written(events=["timer_init"])
    assert "holds no tracepoints of the scheduler" in refused(path)
    written(pipe=True)
    piped = path.read_bytes()
    path.write_bytes(piped[: piped.index(b"name: sched_switch")])
    assert "ends inside the formats" in refused(path)
    path.write_bytes(b"PERFFILE" + bytes(100))
    assert "version 1" in refused(path)


def test_a_cut_pipe_keeps_what_came(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    perfdata.write(path, schedule(2000, 2), machine=tracedat.Machine(2), layout=Layout(pipe=True))
    whole = path.read_bytes()
    all_rows = decode(path).rows
    path.write_bytes(whole[: len(whole) * 3 // 4 + 5])
    got = decode(path)
    assert any("truncated" in p for p in got.end["problems"]) and len(got.table("loss")) == 1
    assert 0.4 < len(got.rows) / len(all_rows) < 0.9


def test_a_zeroed_page_is_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    perfdata.write(path, schedule(2000, 2), machine=tracedat.Machine(2), layout=Layout(rounds=1))
    whole, before = path.read_bytes(), decode(path)
    middle = len(whole) // 3
    path.write_bytes(whole[:middle] + bytes(4096) + whole[middle + 4096 :])
    got = decode(path)
    assert [r["lost"] for r in got.table("loss")] == [None]
    assert any("damaged records, skipped" in p for p in got.end["problems"])
    lost = len(before.rows) - len(got.rows) + 1
    assert 4096 // 130 <= lost <= 4096 // 80 + 2, "only what lay in the page"


@pytest.mark.parametrize("layout", ["file", "pipe", "zstd pipe", "zstd2"])
def test_damaged_copies_of_written_files(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "perf.data"
    perfdata.write(path, schedule(1500, 3), machine=tracedat.Machine(3), layout=LAYOUTS[layout])
    tally = survive(path, of_all_kinds(path.stat().st_size, 200, 7), "PerfData")
    assert tally["refused"] > 20 and tally["degraded"] > 20


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Whatever the rounds: only the places of runs are kept."""
    peak = {}
    code = (
        "import sys\nfrom rewake.collectors._decode import PerfData\nt = PerfData(sys.argv[1], 20000)\n"
        "while t.next_batch() is not None: pass\n"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    for events in (30_000, 300_000):
        path = tmp_path / f"{events}.data"
        perfdata.write(path, schedule(events, 4), machine=tracedat.Machine(4), layout=Layout(rounds=1))
        peak[events] = int(subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True,
                                          check=True).stdout)  # fmt: skip
    assert peak[300_000] - peak[30_000] < 8_000, peak  # KiB; the file is 28 MB larger


def test_compressed_records_that_unpack_to_much(tmp_path: Path) -> None:
    """Nothing of it is a record, so nothing went to the disk: a file of a megabyte took minutes."""
    path = tmp_path / "perf.data"
    perfdata.write(path, ROWS, layout=LAYOUTS["zstd pipe"])
    packed = tracedat._Zstd().pack(bytes(128 << 20))
    packed += b"\x50\x2a\x4d\x18" + struct.pack("<I", -len(packed) % 8) + bytes(-len(packed) % 8)  # a skippable frame
    data = path.read_bytes()  # a header of 16 bytes, then records: the packed stream is one that has not begun yet
    path.write_bytes(data[:16] + struct.pack("<IHH", 81, 0, 8 + len(packed)) + packed + data[16:])
    with pytest.raises(TraceError, match="unpacks to more than 64 MiB; refusing it"):
        decode(path)
