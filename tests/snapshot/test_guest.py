# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest and stolen time: the same from a directory and from an archive, with and without a directory around it."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from rewake.collectors.snapshot import load
from rewake.collectors.snapshot.archive import hwloc_reads

DEMO = Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench" / "topology.tar.gz"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The demo machine, its guest flag and times replaced by known ones: 25 of 250 ticks stolen."""
    root = tmp_path / "around" / "machine"
    with tarfile.open(DEMO) as tar:
        tar.extractall(root)
    (root / "proc/cpuinfo").write_text("processor : 0\nflags\t\t: fpu hypervisor sse\n\n")
    (root / "before/proc/stat").write_text("cpu  10 0 10 100 0 0 0 5 0 0\n")
    (root / "after/proc/stat").write_text("cpu  60 0 35 250 0 0 0 30 0 0\n")
    return root


def test_guest_and_stolen_time(machine: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "flat.tar.gz", "w:gz") as tar:
        tar.add(machine, ".")
    with tarfile.open(tmp_path / "around.tar.gz", "w:gz") as tar:
        tar.add(machine, "machine")
    for path in (machine, machine.parent, tmp_path / "flat.tar.gz", tmp_path / "around.tar.gz"):
        found = load(path)
        assert (found.guest, found.steal_pct) == (True, 10.0)
        assert found.threads
        assert found.sysctl


def test_unknown_where_the_snapshot_does_not_say(machine: Path) -> None:
    (machine / "proc/cpuinfo").write_text("processor : 0\n")
    (machine / "after/proc/stat").unlink()
    found = load(machine)
    assert (found.guest, found.steal_pct) == (None, None)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("sys/devices/system/cpu/cpu0/topology/core_cpus", True), ("m/sys/devices/system/node/node0/cpumap", True),
        ("proc/cpuinfo", True), ("m/proc/meminfo", True), ("sys/kernel/debug/sched/domains/cpu0/domain0/name", False),
        ("sys/fs/cgroup/a/cpu.max", False), ("proc/sys/kernel/x", False), ("before/proc/stat", False),
        ("threads", False), ("m/threads", False),
    ],
)  # fmt: skip
def test_what_is_unpacked_for_hwloc(name: str, read: bool) -> None:
    assert hwloc_reads(name.split("/")) is read
