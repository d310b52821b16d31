# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake topology show`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from command import told

from rewake.analysis import topology
from rewake.importing import identity, import_trace

DEMO = Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench"
V1 = """<?xml version="1.0"?>
<!DOCTYPE topology SYSTEM "hwloc.dtd">
<topology>
<object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" online_cpuset="0x3" allowed_cpuset="0x3">
<object type="Socket" os_index="0" cpuset="0x3" complete_cpuset="0x3" online_cpuset="0x3" allowed_cpuset="0x3">
<object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" online_cpuset="0x1" allowed_cpuset="0x1">
<object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" online_cpuset="0x1" allowed_cpuset="0x1"/></object>
<object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" online_cpuset="0x2" allowed_cpuset="0x2">
<object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" online_cpuset="0x2" allowed_cpuset="0x2"/></object>
</object></object></topology>
"""


def machine(rows: list[tuple[int, int, int, int, int, int]], off: tuple[int, ...] = ()) -> list[topology.Cpu]:
    """From (cpu, core, llc, package, node, capacity)."""
    names = ("cpu", "core", "llc", "package", "node", "capacity")
    columns = {n: np.array(c, np.uint16) for n, c in zip(names, zip(*rows, strict=True), strict=True)}
    online = np.array([r[0] not in off for r in rows], np.bool_)
    return topology.cpus_of(columns, {"cpu": columns["cpu"], "online": online, "isolated": ~online})


def test_a_description_longer_than_a_name_may_be(capsys: pytest.CaptureFixture[str]) -> None:
    """The numbers of many CPUs, written out: "File name too long"."""
    indexes = ",".join(str(i // 2 + i % 2 * 64) for i in range(128))
    asked = f"pack:2 l3:4 core:8 pu:2(indexes={indexes})"
    assert "8 cores of 2 CPUs, CPUs 56-63,120-127" in told(capsys, "topology", "show", asked)
    trace = DEMO / "trace.dat"
    assert identity(trace, asked) not in (identity(trace), identity(trace, asked.replace("l3", "l2")))


def test_a_recording_a_snapshot_and_a_description(
    tmp_path: Path, own_cache: None, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = (
        "16 CPUs, 8 cores, 2 LLCs, 1 package, 1 node\n  node 0, package 0: CPUs 0-15\n"
        "    LLC 0: 4 cores of 2 CPUs, CPUs 0-7\n    LLC 8: 4 cores of 2 CPUs, CPUs 8-15\n"
    )
    assert told(capsys, "topology", "show", DEMO / "trace.dat") == expected
    assert told(capsys, "topology", "show", DEMO / "topology.tar.gz") == expected
    packed = tmp_path / "trace.dat.gz"
    packed.write_bytes(gzip.compress((DEMO / "trace.dat").read_bytes(), 1))
    (tmp_path / "topology.tar.gz").write_bytes((DEMO / "topology.tar.gz").read_bytes())
    assert told(capsys, "topology", "show", packed) == expected
    assert told(capsys, "topology", "show", "pack:1 l3:2 core:4 pu:2") == expected
    document = json.loads(told(capsys, "topology", "show", "pack:1 l3:2 core:4 pu:2", "--format", "json"))
    assert (document["cpus"], document["llcs"], document["offline"]) == (16, 2, [])
    llc = document["tree"][0]["packages"][0]["llcs"][1]
    assert llc["llc"] == 8 and llc["cores"][0] == {
        "core": 8,
        "cpus": [{"cpu": 8, "capacity": None}, {"cpu": 9, "capacity": None}],
    }
    assert "no such file" in told(capsys, "topology", "show", tmp_path / "absent", code=1)


def test_a_machine_with_more_cpus_than_the_trace(
    tmp_path: Path, own_cache: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trace.dat knows how many CPUs there were. Text knows those that it shows: the others are idle, not tasks."""
    wrong = told(capsys, "info", DEMO / "trace.dat", "--topology", "pack:3 l3:1 core:4 pu:2", code=1)
    assert "of a machine with 24 CPUs online, and the trace is of one with 16" in wrong
    line = "       task-{0}   [00{1}] d..2.  1.0000{2}: sched_switch: prev_comm=a prev_pid={0} prev_prio=120"
    line += " prev_state=S ==> next_comm=b next_pid={3} next_prio=120"
    text = tmp_path / "t.txt"
    text.write_text("\n".join(line.format(100 + n % 3, n % 2, 10 + n, 100 + (n + 1) % 3) for n in range(9)))
    recording = import_trace(text, "pack:2 l3:1 core:2 pu:2", tmp_path / "t.rewake")
    assert recording.manifest["machine"]["cpus"] == 8
    task = recording.read("task", ("task_id", "tid"))
    assert [int(t) for t in task["tid"]] == [0] * 8 + [100, 101, 102]


def test_a_machine_without_cpus_that_the_trace_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of those nobody knows the LLC, and nothing would count as leaving it."""
    told(capsys, "import", DEMO / "trace.dat", "--topology", "pack:1 l3:1 core:6 pu:2", "-o", tmp_path / "a.rewake")
    told(capsys, "replay", tmp_path / "a.rewake", "--policy", "prev", "-o", tmp_path / "a.run")
    for command in ("check", "report"):
        shown = " ".join(told(capsys, command, tmp_path / f"a.{'run' if command == 'report' else 'rewake'}").split())
        assert "CPU 12-15 ran tasks and are not in the topology: give the right one" in shown
    rows = json.loads(told(capsys, "query", tmp_path / "a.run", "moves/one_step", "--format", "json"))
    recorded = dict(zip(rows["columns"], next(r for r in rows["rows"] if r[0] == "recorded"), strict=True))
    assert recorded["cross_llc_prev"] == 0, "all CPUs that it knows are in one LLC"
    split = "SELECT count(*) FROM placed WHERE policy = 'recorded' AND cross_llc_waker IS NOT NULL"
    known = json.loads(told(capsys, "query", tmp_path / "a.run", split, "--format", "json"))["rows"][0][0]
    assert 0 < known < recorded["decisions"]


def test_hundreds_of_cpus_fit_on_a_screen(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("pack:2 l3:8 core:8 pu:2", "numa:8 pack:1 l3:8 core:8 pu:2", "numa:64 pack:1 core:4 pu:1"):
        shown = told(capsys, "topology", "show", text).splitlines()
        assert len(shown) <= 41 and max(map(len, shown)) <= 100, text
    assert shown[-1].endswith("nodes like it: CPUs 4-255"), shown


def test_versions_1_and_3_of_the_xml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "v1.xml").write_text(V1)
    assert told(capsys, "topology", "show", tmp_path / "v1.xml").startswith("2 CPUs, 2 cores, ")
    three = (
        V1.replace("<topology>", '<topology version="3.0">')
        .replace("Socket", "Package")
        .replace("hwloc.dtd", "hwloc2.dtd")
    )
    (tmp_path / "v4.xml").write_text(three.replace("3.0", "4.0"))
    assert "hwloc cannot load it" in told(capsys, "topology", "show", tmp_path / "v4.xml", code=1)


def test_offline_and_unlike_cores() -> None:
    rows = [(c, c // 2 * 2 if c < 4 else c, 0, 0, 0, 1024 if c < 4 else 512) for c in range(7)]
    assert topology.lines(machine([*rows, (7, 7, 7, 0, 0, 512)], off=(7,))) == [
        "7 CPUs, 5 cores, 1 LLC, 1 package, 1 node",
        "  node 0, package 0, LLC 0: 2 cores of 2 CPUs, CPUs 0-3",
        "  node 0, package 0, LLC 0: 3 cores, CPUs 4-6, capacity 512",
        "offline: CPU 7",
    ]


def test_siblings_alike_are_folded_and_others_are_not() -> None:
    rows = [(c, c, c // 2 * 2, c // 2, c // 4, 1024) for c in range(240)]
    shown = topology.lines(machine(rows[:-1]))
    assert shown[1:] == [
        "  node 0: CPUs 0-3",
        "    package 0, LLC 0: 2 cores, CPUs 0-1",
        "    package 1, LLC 2: 2 cores, CPUs 2-3",
        "  … and 58 nodes like it: CPUs 4-235",
        "  node 59: CPUs 236-238",
        "    package 118, LLC 236: 2 cores, CPUs 236-237",
        "    package 119, LLC 238: 1 core, CPU 238",
    ]
