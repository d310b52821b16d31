# SPDX-License-Identifier: GPL-2.0-or-later
"""Snapshots of a made-up machine, of this one, and what a capture says of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rewake.collectors.snapshot import load, take
from rewake.collectors.snapshot.captured import parse_stats, read
from rewake.collectors.snapshot.files import Files

STATUS = "Name:\tmy job\nUmask:\t0022\nTgid:\t{0}\nPid:\t{0}\nPPid:\t1\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"
# Fields 3 to 41 of stat: state, then the fields' own numbers, so that a wrong offset shows.
STAT = "{0} (my job) S " + " ".join(str(n) for n in range(4, 53))


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    put(root, "proc/7/autogroup", "/autogroup-12 nice -3\n")
    put(root, "proc/8/autogroup", "")
    for tid in (7, 8):
        put(root, f"proc/{tid}/task/{tid}/status", STATUS.format(tid))
        put(root, f"proc/{tid}/task/{tid}/stat", STAT.format(tid))
    put(root, "proc/stat", "cpu 1 2 3 4 5 6 7 8\n")
    put(root, "proc/irq/30/smp_affinity_list", "0-1\n")
    put(root, "proc/irq/30/spurious", "unread\n")
    put(root, "proc/sys/kernel/sched_child_runs_first", "0\n")
    put(root, "proc/sys/kernel/hostname", "secret\n")
    put(root, "sys/devices/system/cpu/online", "0-1\n")
    put(root, "sys/devices/system/cpu/cpu0/crash_notes", "unread\n")
    put(root, "sys/kernel/debug/sched/verbose", "N")
    put(root, "sys/kernel/debug/sched/domains/cpu0/domain0/name", "MC\n")
    put(root, "sys/kernel/sched_ext/state", "disabled\n")
    put(root, "proc/mounts", "none /cg\\040root cgroup2 rw 0 0\n")
    put(root, "cg root/cgroup.controllers", "cpuset cpu\n")
    put(root, "cg root/web/cpu.weight", "300\n")
    put(root, "cg root/web/memory.max", "unread\n")
    return root


def test_files_of_a_machine(machine: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    take.take(target, machine)
    found = sorted(str(f.relative_to(target)) for f in target.rglob("*") if f.is_file())
    assert found == [
        "proc/irq/30/smp_affinity_list", "proc/stat", "proc/sys/kernel/sched_child_runs_first",
        "sys/devices/system/cpu/online", "sys/fs/cgroup/cgroup.controllers", "sys/fs/cgroup/web/cpu.weight",
        "sys/kernel/debug/sched/domains/cpu0/domain0/name", "sys/kernel/debug/sched/verbose",
        "sys/kernel/sched_ext/state", "threads", "uname",
    ]  # fmt: skip
    assert (target / "threads").read_text() == "".join(
        f"Name=my job Tgid={tid} Pid={tid} PPid=1 Cpus_allowed=3 Cpus_allowed_list=0-1 flags=9 prio=18 nice=19 cpu=39"
        f" rtprio=40 policy=41 autogroup={session}\n"
        for tid, session in ((7, "12:-3"), (8, "0:0"))
    )
    # Domains are listed while they are read, and the switch is back where it was.
    assert (target / "sys/kernel/debug/sched/verbose").read_text() == "Y"
    assert (machine / "sys/kernel/debug/sched/verbose").read_text() == "N"


@pytest.mark.parametrize("found", ["N", "Y"])
def test_domains_that_another_recording_switches_off(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """It ends while we read: in the middle of our own time, or having switched them on before us."""
    switch = machine / "sys/kernel/debug/sched/verbose"
    switch.write_text(found)
    names = ["during", "after", "never"]
    copy = take._copy_tree

    def ends_meanwhile(root: Path, tree: str, target: Path) -> None:
        if tree == take.SCHED:
            name = names.pop(0)
            if name == "during":
                switch.write_text("N")
            else:
                put(machine, f"{take.SCHED}/domains/cpu0/domain0/flags", f"listed {switch.read_text()}")
        copy(root, tree, target)

    monkeypatch.setattr(take, "_copy_tree", ends_meanwhile)
    take.take(tmp_path / "out", machine)
    assert names == ["never"] and switch.read_text() == "N", "once more, and back where it was"
    assert (tmp_path / "out" / take.SCHED / "domains/cpu0/domain0/flags").read_text() == "listed Y"


def test_this_machine_reads_back(tmp_path: Path) -> None:
    take.take(tmp_path / "s")
    take.take_moving(tmp_path / "s" / "before")
    snapshot = load(tmp_path / "s")
    assert snapshot.kernel == os.uname().release
    online = snapshot.cpu_state["online"]
    assert int(sum(online)) == os.sysconf("SC_NPROCESSORS_ONLN")  # type: ignore[arg-type]
    me = [t for t in snapshot.threads if t.tid == os.getpid()]
    assert {t.when for t in me} == {"main", "before"}
    assert me[0].policy == os.sched_getscheduler(0) and me[0].nice == os.nice(0)
    assert snapshot.capture is None and snapshot.observers == frozenset()


def test_what_a_capture_says(tmp_path: Path) -> None:
    put(tmp_path, "capture", "tool=trace-cmd\nbuffer_kb=16\nobservers=12 13 x\nevil=1\noverhead_wall_pct=-0.5\n"
        "stopped_by=\x1b[2J\nbuffer_kb_wrong=3\npage_bytes=many\n")  # fmt: skip
    put(
        tmp_path, "stats/cpu1", "entries: 5\noverrun: 7\ncommit overrun: 1\nbytes: 40\nnow ts: 3.1\ndropped events: 2\n"
    )
    put(tmp_path, "stats/cpu0", "entries: 0\n")
    put(tmp_path, "stats/other", "entries: 0\n")
    said, observers = read(Files(tmp_path))
    assert observers == {12, 13}
    assert said == {
        "tool": "trace-cmd", "buffer_kb": 16, "overhead_wall_pct": -0.5, "stopped_by": r"\x1b[2J", "observers": 2,
        "kernel": [
            {"cpu": 0, "entries": 0},
            {"cpu": 1, "entries": 5, "overrun": 7, "commit_overrun": 1, "bytes": 40, "dropped": 2},
        ],
    }  # fmt: skip
    assert read(Files(tmp_path / "stats")) == (None, frozenset())


def test_stats_that_are_no_numbers() -> None:
    assert parse_stats("entries: -1\noverrun: 1e9\nread events: 4\n\nx") == {"read": 4}


def test_states(tmp_path: Path) -> None:
    from rewake.collectors.snapshot import captured

    files = Files(tmp_path)
    assert (captured.sched_ext(files), captured.core_scheduling(files), captured.preempt_rt(files)) == (
        None,
        None,
        None,
    )
    put(tmp_path, "capture", "tool=x\n")
    put(tmp_path, "before/core_cookies", "0\n")
    assert (captured.sched_ext(files), captured.core_scheduling(files)) == (False, False)
    put(tmp_path, "sys/kernel/sched_ext/state", "enabled\n")
    put(tmp_path, "after/core_cookies", "3\n")
    put(tmp_path, "sys/kernel/realtime", "1\n")
    assert (captured.sched_ext(files), captured.core_scheduling(files), captured.preempt_rt(files)) == (
        True,
        True,
        True,
    )
