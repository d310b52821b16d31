# SPDX-License-Identifier: GPL-2.0-or-later
"""The tar of the script: raw pages become a trace.dat with the same rows; hostile archives are refused or ignored."""

from __future__ import annotations

import io
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest
import tracedat

from rewake.collectors._decode import TraceDat
from rewake.collectors.capture import bundle, container
from rewake.errors import TraceError
from rewake.identify import identify
from rewake.importing import import_trace

DEMO = Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench" / "topology.tar.gz"
ROWS: list[tracedat.Row] = [
    (100, 0, "sched_waking", {"comm": b"a", "pid": 7, "prio": 120, "target_cpu": 1, "common_pid": 3}),
    (150, 1, "sched_wakeup", {"comm": b"a", "pid": 7, "prio": 120, "target_cpu": 1}),
    (300, 2, "sched_switch", {"prev_comm": b"x", "prev_pid": 9, "prev_prio": 120, "prev_state": 1,
                              "next_comm": b"y", "next_pid": 8, "next_prio": 100}),
]  # fmt: skip


def machine(endian: str = "<", long_size: int = 8) -> tracedat.Machine:
    return tracedat.Machine(3, endian=endian, long_size=long_size, clock="mono")


def pages_of(trace: Path, end: str) -> dict[int, bytes]:
    """Per CPU, from a file of version 6: the table after the last flyrecord."""
    data = trace.read_bytes()
    at = data.rindex(b"flyrecord\0") + 10
    table = struct.unpack_from(end + "6Q", data, at)
    return {cpu: data[table[2 * cpu] : table[2 * cpu] + table[2 * cpu + 1]] for cpu in range(3)}


def members(trace: Path, m: tracedat.Machine) -> dict[str, bytes]:
    """What the script would have packed of this trace."""
    found = {"capture": b"tool=raw\nmode=raw\nbyte_order=" + (b"big" if m.endian == ">" else b"little") + b"\n"}
    found |= {"formats/header_page": m.header_page(), "formats/header_event": b"", "trace_clock": b"[mono]\n"}
    found |= {f"formats/{f.system}/{f.name}/format": f.text(m.long_size).encode() for f in tracedat.FORMATS}
    found |= {f"raw/cpu{cpu}": data for cpu, data in pages_of(trace, m.endian).items()}
    found["uname"] = b"Linux box 6.1.0-test #1 SMP x86_64\n"
    return found


def pack(path: Path, content: dict[str, bytes], *more: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for info in more:
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    return path


def rows(path: Path) -> tuple[list[object], dict[str, object]]:
    reader = TraceDat(str(path))
    found: list[object] = []
    while batch := reader.next_batch():
        for table, columns in sorted(batch.items()):
            plain = {k: (v[0] if isinstance(v, tuple) else v).tolist() for k, v in columns.items()}
            found.append((table, plain))
    end = reader.finish()
    assert end["problems"] == []
    return found, reader.header


@pytest.mark.parametrize(("endian", "long_size"), [("<", 8), ("<", 4), (">", 8)])
def test_pages_and_formats_are_a_trace(tmp_path: Path, endian: str, long_size: int) -> None:
    m = machine(endian, long_size)
    original = tmp_path / "original.dat"
    tracedat.write(original, ROWS, machine=m)
    tar = pack(tmp_path / "o.tar", members(original, m))
    assert identify(tar).name == "capture"
    with bundle.trace_of(tar) as trace:
        got, header = rows(trace)
        shown = subprocess.run(["trace-cmd", "report", "-i", trace], capture_output=True, text=True, check=False)
    want, _ = rows(original)
    assert got == want and len(got) == 3
    assert (header["clock"], header["kernel"], header["cpus"]) == ("mono", "6.1.0-test", 3)
    assert shown.stdout.count("sched_") == 3, "trace-cmd reads it too"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.tar", "original.dat"]


def test_a_trace_in_the_tar_is_taken_as_it_is(tmp_path: Path) -> None:
    original = tmp_path / "original.dat"
    tracedat.write(original, ROWS, machine=machine())
    tar = pack(tmp_path / "o.tar", {"capture": b"tool=trace-cmd\n", "trace.dat": original.read_bytes()})
    with bundle.trace_of(tar) as trace:
        assert trace.read_bytes() == original.read_bytes()


def test_it_imports(tmp_path: Path) -> None:
    original = tmp_path / "original.dat"
    tracedat.write(original, ROWS, machine=machine())
    content = members(original, machine())
    with tarfile.open(DEMO) as snapshot:
        for member in snapshot:
            if member.isreg() and (file := snapshot.extractfile(member)) is not None:
                content.setdefault(member.name.removeprefix("./"), file.read())
    tar = pack(tmp_path / "o.tar", content)
    manifest = import_trace(tar, out=tmp_path / "a.rewake").manifest
    assert manifest["source"]["name"] == "o.tar" and manifest["source"]["format"] == "capture"
    assert manifest["capture"] == {"tool": "raw", "mode": "raw", "observers": 0}
    assert manifest["events_total"] == 3 and manifest["clock"] == "mono"
    assert manifest["machine"]["llcs"] == 2, "the machine of the snapshot in the tar"


def test_hostile_members_are_ignored_or_refused(tmp_path: Path) -> None:
    original = tmp_path / "original.dat"
    tracedat.write(original, ROWS, machine=machine())
    good = members(original, machine())

    def refused(content: dict[str, bytes], said: str, *more: tarfile.TarInfo) -> None:
        with pytest.raises(TraceError, match=said), bundle.trace_of(pack(tmp_path / "bad.tar", content, *more)):
            pass

    refused({k: v for k, v in good.items() if not k.startswith("raw/")}, "no pages of any CPU")
    refused({k: v for k, v in good.items() if k != "formats/header_page"}, "neither trace.dat nor raw pages")
    refused(good | {"formats/header_page": b"rubbish"}, "does not describe a ring-buffer page")
    refused(good | {"formats/header_page": m_size(3)}, "does not describe a ring-buffer page")
    refused(good, "twice", tarfile.TarInfo("raw/cpu0"))
    big = tarfile.TarInfo("formats/header_event")
    big.size = 2 << 20
    refused({k: v for k, v in good.items() if k != "formats/header_event"}, "refusing it", big)
    link = tarfile.TarInfo("trace.dat")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    leaving = tarfile.TarInfo("../../trace.dat")
    with bundle.trace_of(pack(tmp_path / "o.tar", good, link, leaving)) as trace:
        assert rows(trace) == rows(original) or len(rows(trace)[0]) == 3
    whole = pack(tmp_path / "o.tar", good).read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: len(whole) // 3])
    with pytest.raises(TraceError), bundle.trace_of(tmp_path / "cut.tar"):
        pass


def test_an_archive_that_ends_early_or_is_damaged_between_its_members_is_refused(tmp_path: Path) -> None:
    """Where the module for tar archives sees their end: the CPUs behind it would silently be missing."""
    original = tmp_path / "original.dat"
    tracedat.write(original, ROWS, machine=machine())
    tar = pack(tmp_path / "o.tar", members(original, machine()))
    whole = tar.read_bytes()
    with tarfile.open(tar) as found:
        at = found.getmember("raw/cpu2").offset
    for bad, said in ((whole[:at], "ends before its end"), (whole[:at] + b"?" + whole[at + 1 :], f"at byte {at}")):
        tar.write_bytes(bad)
        with pytest.raises(TraceError, match=said), bundle.trace_of(tar):
            pass


def m_size(n: int) -> bytes:
    return f"\tfield: local_t commit;\toffset:8;\tsize:8;\n\tfield: char data;\toffset:16;\tsize:{n};\n".encode()


def test_a_last_page_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    original = tmp_path / "original.dat"
    tracedat.write(original, ROWS, machine=machine())
    found = pages_of(original, "<")
    files = {}
    for cpu, data in found.items():
        files[cpu] = tmp_path / f"cpu{cpu}"
        files[cpu].write_bytes(data + (data[:100] if cpu == 1 else b""))
    formats = container.Formats(
        machine().header_page(), b"", [(f.system, f.text(8).encode()) for f in tracedat.FORMATS]
    )
    container.write(tmp_path / "t.dat", formats, files, clock="mono", uname="Linux a b c")
    assert rows(tmp_path / "t.dat")[0] == rows(original)[0]
