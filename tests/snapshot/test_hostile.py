# SPDX-License-Identifier: GPL-2.0-or-later
"""Archives and files that mean harm, or are merely broken: one clear error, nothing outside the temporary directory."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from rewake.collectors.snapshot import archive, load, tasks
from rewake.collectors.snapshot.files import Files
from rewake.errors import TraceError

DEMO = Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench" / "topology.tar.gz"


def tar_of(path: Path, *members: tarfile.TarInfo, data: bytes = b"0\n") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            member.size = len(data) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


@pytest.mark.parametrize("name", ["../evil", "sys/../../evil", "/tmp/evil", "/".join(["a"] * 50)])
def test_path_escape(tmp_path: Path, name: str) -> None:
    with pytest.raises(TraceError, match="leads out of the archive"):
        load(tar_of(tmp_path / "t.tar.gz", entry(name)))
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_left_out(tmp_path: Path, kind: bytes) -> None:
    target = tmp_path / "out"
    target.mkdir()
    packed = tar_of(tmp_path / "t.tar.gz", entry("sys/x", kind, "/etc/passwd"), entry("sys/y"))
    with archive.opened(packed) as contents:
        contents.unpack(target, lambda _: True)
        assert contents.notes == ["1 members that are neither plain files nor directories were left out"]
        assert contents.children("sys", directories=False) == ["y"]
    assert os.listdir(target / "sys") == ["y"]


def test_file_through_a_link(tmp_path: Path) -> None:
    """The link is not made, so what follows lands in a plain directory of that name inside the target."""
    outside, target = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    target.mkdir()
    packed = tar_of(tmp_path / "t.tar.gz", entry("sys", tarfile.SYMTYPE, str(outside)), entry("sys/x"))
    with archive.opened(packed) as contents:
        contents.unpack(target, lambda _: True)
    assert not list(outside.iterdir())
    assert (target / "sys/x").is_file()


def test_second_member_of_a_name(tmp_path: Path) -> None:
    """With the same content it does no harm: /proc/device-tree lists some names twice."""
    with tarfile.open(tmp_path / "two.tar", "w") as tar:
        for content in (b"a", b"b"):
            member = entry("sys/x")
            member.size = 1
            tar.addfile(member, io.BytesIO(content))
    with pytest.raises(TraceError, match="not a readable tar archive"):
        load(tmp_path / "two.tar")
    with pytest.raises(TraceError, match="no sys/devices/system/cpu in it"):
        load(tar_of(tmp_path / "t.tar.gz", entry("sys/x"), entry("sys/x")))


@pytest.mark.parametrize("names", [("sys/x", "sys/x/y"), ("sys/x/y", "sys/x")])
def test_a_file_that_is_a_directory(tmp_path: Path, names: tuple[str, str]) -> None:
    with pytest.raises(TraceError, match="not a readable tar archive"):
        load(tar_of(tmp_path / "t.tar.gz", *map(entry, names)))


def test_the_same_from_disk_and_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = load(DEMO)
    monkeypatch.setattr(archive, "_MEMORY", "/nowhere")
    assert archive.scratch(1) is None
    on_disk = load(DEMO)
    assert on_disk.topology_xml == in_memory.topology_xml
    assert on_disk.notes == in_memory.notes


def test_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 4 << 20)
    with gzip.open(tmp_path / "t.tar.gz", "wb") as f:
        for _ in range(16):
            f.write(bytes(1 << 20))
    with pytest.raises(TraceError, match="more than 4 MiB when unpacked"):
        load(tmp_path / "t.tar.gz")


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 10)
    with pytest.raises(TraceError, match="more than 10 members"):
        load(tar_of(tmp_path / "t.tar.gz", *(entry(f"sys/{i}") for i in range(20))))


@pytest.mark.parametrize("cut", [0, 3, 100, 5_000, 40_000])
def test_truncated(tmp_path: Path, cut: int) -> None:
    (tmp_path / "t.tar.gz").write_bytes(DEMO.read_bytes()[:cut])
    with pytest.raises(TraceError, match=r"t\.tar\.gz"):
        load(tmp_path / "t.tar.gz")


def test_an_archive_that_ends_early_or_is_damaged_between_its_members(tmp_path: Path) -> None:
    """Threads, settings and the kernel's name that are behind it would silently be missing."""
    whole = gzip.decompress(DEMO.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        at = tar.getmembers()[-3].offset
    for bad, said in ((whole[:at], "ends before its end"), (whole[:at] + b"?" + whole[at + 1 :], f"at byte {at}")):
        (tmp_path / "t.tar").write_bytes(bad)
        with pytest.raises(TraceError, match=said):
            load(tmp_path / "t.tar")


@pytest.mark.parametrize(
    "content", [b"hello\n", bytes(1000), b"\x1f\x8b" + bytes(50), b"BZh9" + b"x" * 99, b"<html></html>"]
)
def test_not_a_snapshot(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(TraceError) as e:
        load(tmp_path / "x")
    assert "\n" not in str(e.value)


def test_archive_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no sys/devices/system/cpu"):
        load(tar_of(tmp_path / "t.tar.gz", entry("README"), entry("src/main.c")))


def test_absurd_cpu_numbers(tmp_path: Path) -> None:
    with tarfile.open(DEMO) as tar:
        tar.extractall(tmp_path / "s")
    (tmp_path / "s/sys/devices/system/cpu/possible").write_text("0-4294967295\n")
    with pytest.raises(TraceError, match="not a list of CPUs below 8192"):
        load(tmp_path / "s")
    packed = tar_of(tmp_path / "t.tar.gz", entry("sys/devices/system/cpu/cpu0/x"))
    with pytest.raises(TraceError, match=r"t\.tar\.gz: hwloc cannot load it"):
        load(packed)


def test_special_files_in_a_directory(tmp_path: Path) -> None:
    """A FIFO must not block the reader, a link must not lead it out of the snapshot."""
    with tarfile.open(DEMO) as tar:
        tar.extractall(tmp_path / "s")
    (tmp_path / "secret").write_text("Name=leak Tgid=99999 Pid=99999 PPid=1 flags=0\n")
    for name in ("threads", "before/threads"):
        (tmp_path / "s" / name).unlink()
    os.mkfifo(tmp_path / "s/threads")
    (tmp_path / "s/before/threads").symlink_to(tmp_path / "secret")
    s = load(tmp_path / "s")
    assert {t.when for t in s.threads} == {"after"}
    assert 99999 not in {t.tid for t in s.threads}


def test_hostile_task_names(tmp_path: Path) -> None:
    with tarfile.open(DEMO) as tar:
        tar.extractall(tmp_path / "s")
    rest = b"PPid=1 Cpus_allowed=1 Cpus_allowed_list=0 flags=0 nice=0 policy=0\n"
    (tmp_path / "s/threads").write_bytes(
        b"Name=a Tgid=7 b Tgid=500 Pid=500 " + rest + b"Name=\xff\xfe\x1b[2J Tgid=501 Pid=501 " + rest + b"garbage\n"
    )
    s = load(tmp_path / "s")
    names = {t.tid: t.comm for t in s.threads if t.when == "main"}
    assert names == {500: "a Tgid=7 b", 501: r"\xff\xfe\x1b[2J"}
    assert "1 lines of the thread lists could not be read" in s.notes


def test_sparse_members_are_left_out(tmp_path: Path) -> None:
    """A few bytes that claim to be an exabyte."""
    target = tmp_path / "out"
    target.mkdir()
    sparse = entry("sys/big", tarfile.GNUTYPE_SPARSE)
    buffer = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    buffer[386:410] = b"%011o\0%011o\0" % (0, 0)
    buffer[483:495] = b"%011o\0" % (1 << 32)
    buffer[148:156] = b"        "
    buffer[148:156] = b"%06o\0 " % sum(buffer[:512])
    (tmp_path / "t.tar").write_bytes(bytes(buffer) + tar_bytes(entry("sys/y")))
    with archive.opened(tmp_path / "t.tar") as contents:
        contents.unpack(target, lambda _: True)
        assert contents.children("sys", directories=False) == ["y"]
        assert contents.read("sys/y", 1) == b"0"
        assert contents.read("sys/big", 1) is None
    assert os.listdir(target / "sys") == ["y"]


def tar_bytes(member: tarfile.TarInfo, data: bytes = b"0\n") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("20000 100000", (20_000_000, 100_000_000)),
        ("max 100000", (None, 100_000_000)),
        ("1 1", (None, None)),  # a simulation would refill it a million times a second
        ("1 0", (None, None)),
        ("1000 1000001", (None, None)),
        ("-1 100000", (None, None)),
        (None, (None, None)),
    ],
)
def test_periods_that_no_kernel_has_are_no_limit(text: str | None, limit: tuple[int | None, int | None]) -> None:
    assert tasks._cpu_max(text) == limit


@pytest.mark.parametrize(
    "line",
    [
        "Tgid=4294967296 Pid=7 PPid=1 flags=0",
        f"Tgid=7 Pid={'9' * 5000} PPid=1 flags=0",
        "Tgid=7 Pid=7 PPid=1 flags=0 policy=-1",
        "Tgid=7 Pid=7 PPid=1 flags=0 nice=99999",
        "Tgid=7 Pid=7 PPid=1 flags=0 nice=-21",
        "Tgid=7 Pid=7 PPid=1 flags=0 Cpus_allowed_list=0-x",
        "Tgid=7 Pid=7 PPid=1 flags=0 Cpus_allowed_list=3-1",
        "Tgid=7 Pid=7 PPid=1 flags=0 Cpus_allowed_list=0-8192",
    ],
)
def test_threads_that_cannot_be_are_counted(tmp_path: Path, line: str) -> None:
    """They ended the import: values that no column of task or task_attr can hold, numbers that int() refuses."""
    (tmp_path / "threads").write_text(f"Name=a {line}\nName=b Tgid=8 Pid=8 PPid=1 flags=0 nice=19 policy=7\n")
    threads, bad = tasks.read_threads(Files(tmp_path), {})
    assert ([t.tid for t in threads], bad) == ([8], 1)


@pytest.mark.parametrize(
    ("told", "allowed"), [("0-4095", "0-4095"), ("0-7:1/2", "0,2,4,6"), ("0,1,2", "0-2"), (",", None)]
)
def test_allowed_cpus_are_as_a_kernel_prints_them(tmp_path: Path, told: str, allowed: str | None) -> None:
    (tmp_path / "threads").write_text(f"Name=a Tgid=7 Pid=7 PPid=1 flags=0 Cpus_allowed_list={told}\n")
    (thread,), _ = tasks.read_threads(Files(tmp_path), {})
    assert thread.allowed == allowed


def edited(to: Path, name: str, text: str) -> Path:
    """The demo's snapshot with another text in one file."""
    with tarfile.open(DEMO) as tar:
        tar.extractall(to)
    (to / name).parent.mkdir(parents=True, exist_ok=True)
    (to / name).write_text(text)
    return to


@pytest.mark.parametrize("weight", ["10001", "9" * 18, "9" * 5000])
def test_weights_that_no_cgroup_has_are_not_known(tmp_path: Path, weight: str) -> None:
    for name, text in (("cpu.max", "max 100000"), ("a/cpu.weight", weight), ("a/cgroup.threads", f"7 {'9' * 5000}")):
        file = tmp_path / tasks.CGROUP_ROOT / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    groups, member = tasks.read_cgroups(Files(tmp_path))
    assert [g.weight for g in groups] == [None, None]
    assert member == {7: "/a"}


@pytest.mark.parametrize("pct", ["65536", "9" * 18])
def test_an_imbalance_that_the_column_cannot_hold_is_not_known(tmp_path: Path, pct: str) -> None:
    s = load(edited(tmp_path, "sys/kernel/debug/sched/domains/cpu0/domain0/imbalance_pct", pct))
    _, null = s.domain["imbalance_pct"]
    assert null.tolist() == [True] + [False] * (len(null) - 1)


@pytest.mark.parametrize(
    "domains", ["domain0 0 1 2\n", "domain0 , 1 2\n", "".join(f"domain{i} 3 1 2\n" for i in range(300))]
)
def test_domains_that_no_kernel_has(tmp_path: Path, domains: str) -> None:
    snapshot = edited(tmp_path, "proc/schedstat", f"version 15\ntimestamp 1\ncpu0 0 0\n{domains}")
    with pytest.raises(TraceError, match=r"no kernel has 'domain|not a CPU mask"):
        load(snapshot)


@pytest.mark.parametrize("online", ["", "\n"])
def test_a_machine_without_a_cpu_online(tmp_path: Path, online: str) -> None:
    """hwloc makes one CPU of it: 15 of 16 were offline."""
    with pytest.raises(TraceError, match="online names no CPU"):
        load(edited(tmp_path, "sys/devices/system/cpu/online", online))


@pytest.mark.parametrize("number", ["9" * 13, "9" * 5000])
def test_clocks_and_times_beyond_any_machine_are_not_known(tmp_path: Path, number: str) -> None:
    where = edited(tmp_path, "sys/kernel/debug/sched/debug", f"cpu_clk : {number}.000000\nsched_clk : 1.000000\n")
    for when in ("before", "after"):
        (where / when / "proc").mkdir(parents=True, exist_ok=True)
        (where / when / "proc/stat").write_text(f"cpu {number * 3} 1 1 1 1 1 1 1\n")
    s = load(where)
    assert (s.clock_offset.get("local"), s.steal_pct) == (None, None)
