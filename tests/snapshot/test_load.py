# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots of the bundled recordings against values read off their files by hand, and every other kind of input."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewake.collectors.snapshot import Snapshot, beside, load
from rewake.collectors.snapshot import snapshot as module
from rewake.errors import TraceError
from rewake.forms import TABLES, Columns, values_of

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
DEMO = FIXTURES / "demo-split-llc-schbench" / "topology.tar.gz"


def values(columns: Columns, name: str) -> list[Any]:
    return values_of(columns[name])


def stack(snapshot: Snapshot, cpu: int) -> list[tuple[str, str, int | None]]:
    table = snapshot.domain
    rows = zip(*(values(table, n) for n in ("cpu", "level", "name", "span", "imbalance_pct")), strict=True)
    found = [(level, name, span, pct) for c, level, name, span, pct in rows if c == cpu]
    assert [f[0] for f in found] == list(range(len(found)))
    return [f[1:] for f in found]


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    """The demo's snapshot as a directory that a test may change."""
    with tarfile.open(DEMO) as tar:
        tar.extractall(tmp_path / "snapshot")
    return tmp_path / "snapshot"


def test_split_llc_6_1() -> None:
    s = load(DEMO)
    assert values(s.cpu, "cpu") == list(range(16))
    assert values(s.cpu, "core") == [c & ~1 for c in range(16)]
    assert values(s.cpu, "llc") == [0] * 8 + [8] * 8
    assert values(s.cpu, "node") == values(s.cpu, "package") == [0] * 16
    assert values(s.cpu, "cluster") == [None] * 16
    assert values(s.cpu, "capacity") == [1024] * 16
    assert stack(s, 9) == [("SMT", "8-9", 110), ("MC", "8-15", 117), ("DIE", "0-15", 117)]
    assert values(s.domain, "flags")[2].split() == [
        "SD_BALANCE_NEWIDLE", "SD_BALANCE_EXEC", "SD_BALANCE_FORK", "SD_WAKE_AFFINE", "SD_PREFER_SIBLING",
    ]  # fmt: skip
    assert values(s.cpu_state, "online") == [True] * 16
    assert values(s.cpu_state, "isolated") == [False] * 16
    assert values(s.cpu_state, "root_domain") == [0] * 16
    assert s.kernel == "6.1.0-56-cloud-amd64"
    assert (s.trace_clock, s.hz, s.notes) == ("local", 250, [])
    assert s.features["SIS_UTIL"] and not s.features["SIS_PROP"]
    assert s.sysctl["debug.sched.migration_cost_ns"] == "500000"
    assert s.topology_xml is not None and b"<topology" in s.topology_xml
    assert [x["name"] for x in s.sources] == ["topology.tar.gz"]


def test_threads() -> None:
    threads = {(t.tid, t.when): t for t in load(DEMO).threads}
    init, worker = threads[1, "main"], threads[7, "main"]
    assert (init.comm, init.allowed, init.policy, init.nice, init.kthread) == ("init", "0-15", 0, 0, False)
    # /proc says kworker/0:0-rcu_gp; the events say kworker/0:0.
    assert (worker.comm, worker.allowed, worker.kthread, worker.ppid) == ("kworker/0:0", "0", True, 2)
    assert {t.when for t in threads.values()} == {"before", "main", "after"}
    assert max(len(t.comm) for t in threads.values()) <= 15


def test_numa_levels_and_wide_masks() -> None:
    s = load(FIXTURES / "64cpu-8llc-hackbench" / "topology.tar.gz")
    assert values(s.cpu, "llc") == [c & ~7 for c in range(64)]
    assert values(s.cpu, "node") == [c // 32 for c in range(64)]
    assert stack(s, 63) == [("SMT", "62-63", 110), ("MC", "56-63", 117), ("DIE", "32-63", 117), ("NUMA", "0-63", 117)]


def test_cgroups() -> None:
    s = load(FIXTURES / "cgroup-throttle-split-llc" / "topology.tar.gz")
    assert values(s.cgroup, "path") == ["/", "/batch", "/service", "/service/cache", "/service/web"]
    assert values(s.cgroup, "parent") == [None, 0, 0, 2, 2]
    assert values(s.cgroup, "weight") == [None, 50, 300, 100, 400]
    assert values(s.cgroup, "quota_ns") == [None, 200_000_000, None, 150_000_000, 600_000_000]
    assert values(s.cgroup, "period_ns") == [None] + [100_000_000] * 4
    assert {t.cgroup for t in s.threads} >= {"/", "/service/web", "/service/cache", "/batch"}


def test_columns_are_those_of_the_forms() -> None:
    s = load(DEMO)
    for name in ("cpu", "cpu_state", "domain", "cgroup"):
        assert tuple(getattr(s, name)) == TABLES[name].names
        for column, made in zip(TABLES[name].columns, getattr(s, name).values(), strict=True):
            assert isinstance(made, np.ndarray) or column.nullable, column.name


def test_directory_reads_as_its_archive(unpacked: Path) -> None:
    a, b = load(DEMO), load(unpacked)
    for name in ("cpu", "cpu_state", "domain"):
        for column in TABLES[name].names:
            assert values(getattr(a, name), column) == values(getattr(b, name), column)
    assert (a.threads, a.features, a.sysctl, a.hz, a.notes) == (b.threads, b.features, b.sysctl, b.hz, b.notes)


def test_one_directory_around_everything(unpacked: Path, tmp_path: Path) -> None:
    packed = tmp_path / "wrapped.tar.xz"
    with tarfile.open(packed, "w:xz") as tar:
        tar.add(unpacked, "some-host")
    assert values(load(packed).cpu, "llc") == [0] * 8 + [8] * 8


def test_offline_and_isolated(unpacked: Path) -> None:
    cpu = unpacked / "sys/devices/system/cpu"
    (cpu / "online").write_text("0-12,14-15\n")
    (cpu / "cpu13/online").write_text("0\n")
    shutil.rmtree(cpu / "cpu13/topology")
    (cpu / "isolated").write_text("3\n")
    s = load(unpacked)
    assert values(s.cpu_state, "online") == [c != 13 for c in range(16)]
    assert values(s.cpu_state, "isolated") == [c == 3 for c in range(16)]
    assert values(s.cpu_state, "root_domain")[3] is None
    assert values(s.cpu, "llc")[3] == 3
    assert values(s.cpu, "core")[13] is None and values(s.cpu, "capacity")[13] is None


def test_how_far_the_scheduler_s_clock_is_ahead(unpacked: Path) -> None:
    path = unpacked / "sys/kernel/debug/sched/debug"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "Sched Debug Version: v0.11\nktime   : 2478.224587\nsched_clk  : 2287.636385\ncpu_clk : 2466.690444\n"
    )
    ahead = {"local": 179_054_059, "global": 0, "perf": 0, "mono": -11_534_143}
    assert load(unpacked).clock_offset == ahead
    path.write_text("cpu_clk : 1.5\n")
    assert load(unpacked).clock_offset == {"global": 0, "perf": 0}


def test_scheduler_and_hardware_disagree(unpacked: Path) -> None:
    schedstat = unpacked / "proc/schedstat"
    schedstat.write_text(schedstat.read_text().replace("domain1 00ff ", "domain1 000f ", 1))
    s = load(unpacked)
    assert values(s.cpu, "llc")[:2] == [0, 0]
    assert s.notes == []
    schedstat.write_text(schedstat.read_text().replace("domain1 ff00 ", "domain1 f000 ").replace("\0", ""))
    s = load(unpacked)
    assert values(s.cpu, "llc")[8] == 12
    assert s.notes == ["the scheduler's LLC differs from the hardware's on CPUs 8-15: the scheduler's is used"]


def test_names_missing(unpacked: Path) -> None:
    expected = [d[:2] for d in stack(load(unpacked), 5)]
    shutil.rmtree(unpacked / "sys/kernel/debug")
    s = load(unpacked)
    assert [d[:2] for d in stack(s, 5)] == expected
    assert values(s.cpu, "llc") == [0] * 8 + [8] * 8
    assert "names or flags of scheduler domains are missing: completed from the default stack" in s.notes
    assert "no sched_features in the snapshot" in s.notes


def test_names_where_kernels_before_5_13_have_them(unpacked: Path) -> None:
    """Before 5.10 flags are a number there."""
    expected = stack(load(unpacked), 5)
    domains = unpacked / "proc/sys/kernel/sched_domain"
    shutil.copytree(unpacked / "sys/kernel/debug/sched/domains", domains)
    shutil.rmtree(unpacked / "sys/kernel/debug")
    (domains / "cpu5/domain1/imbalance_pct").write_text("125\n")
    s = load(unpacked)
    assert stack(s, 5) == [d if i != 1 else (*d[:2], 125) for i, d in enumerate(expected)]
    assert not any("scheduler domains" in note for note in s.notes)
    flags = s.domain["flags"]
    for file in domains.rglob("flags"):
        file.write_text("4143\n")
    s = load(unpacked)
    assert stack(s, 5)[1][2] == 125 and list(s.domain["flags"]) == list(flags)
    assert "names or flags of scheduler domains are missing: completed from the default stack" in s.notes


def test_xml(tmp_path: Path) -> None:
    xml = load(DEMO).topology_xml
    assert xml is not None
    (tmp_path / "topology.xml").write_bytes(xml)
    s = load(tmp_path / "topology.xml")
    assert values(s.cpu, "llc") == [0] * 8 + [8] * 8
    assert stack(s, 9)[:2] == [("SMT", "8-9", 110), ("MC", "8-15", 117)]
    assert values(s.cpu, "capacity") == [None] * 16
    assert s.notes == ["no scheduler domains in the snapshot: default stack of the hardware assumed"]


@pytest.mark.parametrize("kind", ["PU", "NUMANode"])
def test_a_number_that_no_cpu_has_is_told_before_hwloc_is_asked(tmp_path: Path, kind: str) -> None:
    """hwloc made sets of four thousand million numbers until its limit of CPU time ended it."""
    xml = load("pack:1 core:2 pu:1").topology_xml
    assert xml is not None
    file = tmp_path / "t.xml"
    damaged = re.sub(rf'(type="{kind}" os_index=)"0"'.encode(), rb'\1"4294967295"', xml)
    assert damaged != xml
    file.write_bytes(damaged)
    with pytest.raises(TraceError, match=r"t\.xml: a CPU or NUMA node with the number 4294967295: the file is damaged"):
        load(file)


def test_synthetic() -> None:
    s = load("pack:2 l3:8 core:8 pu:2")
    assert len(values(s.cpu, "cpu")) == 256
    assert sorted(set(values(s.cpu, "llc"))) == list(range(0, 256, 16))
    assert stack(s, 255) == [("SMT", "254-255", 110), ("MC", "240-255", 117), ("PKG", "0-255", 117)]
    assert stack(load("numa:2 l3:1 core:2 pu:1"), 3) == [("MC", "2-3", 117)]
    # Without a cache level the package, here the machine, is the last that can share one.
    assert stack(load("pack:1 core:4 pu:1"), 0) == [("MC", "0-3", 117)]


def test_nothing() -> None:
    s = load(None)
    assert all(len(values(s.cpu, c)) == 0 for c in TABLES["cpu"].names)
    assert s.notes == ["no topology snapshot: LLCs, nodes and domains are unknown"]


def test_beside(tmp_path: Path) -> None:
    assert beside(tmp_path / "trace.dat") is None
    assert beside(DEMO.with_name("trace.dat")) == DEMO


@pytest.mark.parametrize("bad", ["pack:2 nonsense:3", "no/such/file", "core:0"])
def test_neither_file_nor_synthetic(bad: str) -> None:
    with pytest.raises(TraceError, match="topology"):
        load(bad)


@pytest.mark.parametrize(
    "many", ["pack:99999999 core:99999 pu:9999", "core:0 pu:" + "9" * 200, "pack:4(indexes=1:2) core:2049 pu:1"]
)
def test_a_synthetic_machine_of_too_many_cpus(monkeypatch: pytest.MonkeyPatch, many: str) -> None:
    """hwloc counts to any number, for a minute: it is not asked."""
    monkeypatch.setattr(module.hwloc.subprocess, "run", None)
    with pytest.raises(TraceError, match="more than 8192 CPUs"):
        load(many)


@pytest.mark.parametrize(
    ("odd", "count"),
    [
        ("pu:4(indexes=0,0,0,0)", 4), ("numa:2(indexes=1,1) pu:2", 2), ("pack:2 [numa(indexes=5,05)] pu:2", 2),
        ("pack:2 pu:2(indexes=3,2)", 4), ("pu:2(indexes=3,2,1,0)", 2), ("pack:2 [numa(indexes=5)] pu:1", 2),
    ],
)  # fmt: skip
def test_a_synthetic_machine_with_too_few_numbers(odd: str, count: int) -> None:
    """hwloc makes one of those of the same number, of four CPUs one; it passes over a list that is too short."""
    with pytest.raises(TraceError, match=rf"indexes=[\d,]+: has to give {count} different numbers"):
        load(odd)


def test_a_synthetic_machine_with_numbers_of_its_own() -> None:
    s = load("numa:2 core:2(indexes=0,0,1,1) pu:1(indexes=3,2,1,0)")  # cores are numbered anew in each package
    assert values(s.cpu, "node") == [1, 1, 0, 0]
    assert values(load("pack:2 pu:2(indexes=2*2:1*2)").cpu, "package") == [0, 1, 0, 1]


def test_notes_of_levels_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.hwloc, "_run", lambda *_: module.hwloc.Hardware())
    load("pack:4(indexes=9:9) [numa(indexes=9:9)] core:2048 pu:1")


def test_crash_of_the_parser_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    killer = tmp_path / "child.py"
    killer.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(module.hwloc, "__file__", str(tmp_path / "hwloc.py"))
    with pytest.raises(TraceError, match="stopped with signal 11"):
        load("pack:1 core:2 pu:1")


def test_cgroups_of_version_1(unpacked: Path) -> None:
    """cpu.shares of 1024 are as much as cpu.weight of 100; every cgroup is a task group, whatever its shares."""
    top = unpacked / "sys/fs/cgroup"
    files = {
        "cpu.shares": "1024", "tasks": "1", "a/cpu.shares": "2048", "a/cpu.cfs_quota_us": "-1",
        "a/cpu.cfs_period_us": "100000", "a/tasks": "2\n3", "a/cgroup.procs": "2", "a/b/cpu.shares": "2",
        "a/b/cpu.cfs_quota_us": "250000", "a/b/cpu.cfs_period_us": "50000",
    }  # fmt: skip
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(f"{text}\n")
    s = load(unpacked)
    assert values(s.cgroup, "path") == ["/", "/a", "/a/b"]
    assert values(s.cgroup, "weight") == [None, 200, 1]
    assert values(s.cgroup, "shares") == [None, 2048, 2]
    assert values(s.cgroup, "quota_ns") == [None, None, 250_000_000]
    assert values(s.cgroup, "period_ns") == [None, 100_000_000, 50_000_000]
    assert {t.tid: t.cgroup for t in s.threads if t.tid < 5} == {1: "/", 2: "/a", 3: "/a", 4: None}
