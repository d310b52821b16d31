# SPDX-License-Identifier: GPL-2.0-or-later
"""What batch() makes of the recorded tables (replay/recorded.py)."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tracedat import Machine, schedule, write
from world import World

from rewake.analysis.quality import decisions_by_class
from rewake.cli import main
from rewake.errors import TraceError
from rewake.forms import ENUMS, Recording
from rewake.importing import import_trace
from rewake.replay import _engine
from rewake.replay.recorded import batch, recorded_machine

DEMO = Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench"
IRQ = {
    "id": [0, 1, 2, 3, 4], "ts_ns": [10, 11, 12, 13, 14], "cpu": [0, 0, 1, 1, 0], "curr_task": [0, 0, 7, 1, 0],
    "kind": ["local_timer", "local_timer", "local_timer", "call_function_single", "reschedule"],
    "entry": [True, False, True, True, True],
}  # fmt: skip
SOFTIRQ = {
    "id": [5, 6, 7], "ts_ns": [15, 16, 17], "cpu": [0, 0, 1], "vec": [7, 7, 1], "phase": ["raise", "entry", "entry"],
}  # fmt: skip


class Parts:
    n_parts = 1

    def read_part(self, name: str, index: int, columns: tuple[str, ...] | None = None) -> Mapping[str, Any]:
        table: dict[str, list[Any]] = {"irq": IRQ, "softirq": SOFTIRQ}.get(name, {})  # type: ignore[assignment]
        codes = {"kind": ENUMS["irq_kind"], "phase": ENUMS["softirq_phase"]}
        return {
            column: np.array([codes[column].index(v) if column in codes else v for v in values])
            for column, values in table.items()
            if columns is None or column in columns
        }


@pytest.mark.parametrize("more", [None, {"irq": ("id", "cpu", "kind")}, {"irq": None}])
def test_ticks_are_local_timers_of_idle_cpus(more: Mapping[str, tuple[str, ...] | None] | None) -> None:
    found = cast(dict[str, dict[str, Any]], batch(cast(Recording, Parts()), 0, more=more))
    assert {name: values.tolist() for name, values in found["tick"].items()} == {"id": [0], "ts_ns": [10], "cpu": [0]}
    assert found["balance"]["id"].tolist() == [6]
    assert ("irq" in found) == (more is not None)
    assert "softirq" not in found


def test_allowed_cpus_that_the_machine_does_not_have(tmp_path: Path) -> None:
    """A kernel for 4096 CPUs that does not allocate its masks by need prints all of them for a task that may run
    anywhere; the import ended there."""
    plain = import_trace(DEMO / "trace.dat", DEMO / "topology.tar.gz", tmp_path / "a.rewake")
    with tarfile.open(DEMO / "topology.tar.gz") as tar:
        tar.extractall(tmp_path / "topology")
    everywhere = f"Cpus_allowed_list=0-{len(plain.read('cpu')['cpu']) - 1} "
    for file in (tmp_path / "topology").rglob("threads"):
        assert everywhere in file.read_text()
        file.write_text(file.read_text().replace(everywhere, "Cpus_allowed_list=0-4095 "))
    widened = import_trace(DEMO / "trace.dat", tmp_path / "topology", tmp_path / "b.rewake")
    assert decisions_by_class(widened) == decisions_by_class(plain)


def test_more_cpus_than_the_engine_takes(tmp_path: Path) -> None:
    """No other topology would help, and the recording does not contradict itself."""
    write(tmp_path / "trace.dat", schedule(2000, 1030), machine=Machine(1030))
    with pytest.raises(TraceError, match=r"^a machine of 1030 CPUs: at most 1024 are supported$"):
        import_trace(tmp_path / "trace.dat", None)


def test_a_kernel_or_hz_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both came to the engine, which has no such numbers, and looked like a bug."""
    trace, recording = tmp_path / "trace.dat", tmp_path / "a.rewake"
    write(trace, schedule(1000, 2), machine=Machine(2, uname="Linux box 99999999999.1.0 x86_64"))
    import_trace(trace, None, recording)
    assert main(["replay", str(recording), "--force", "-o", str(tmp_path / "a.run")]) == 0
    manifest = json.loads((recording / "manifest.json").read_bytes())
    (recording / "manifest.json").write_text(json.dumps(manifest | {"hz": -5}))
    assert main(["replay", str(recording), "--force", "-o", str(tmp_path / "b.run")]) == 1
    assert capsys.readouterr().err.endswith("manifest.json: damaged (hz: -5): import the trace again\n")


# Of 5.15 stable took over SIS_UTIL and the wake lists of 6.0 together.
@pytest.mark.parametrize(
    ("release", "features", "lists", "decay", "follow"),
    [
        ("5.4.0", {}, 1, False, False),
        ("5.10.0", {}, 1, False, True),
        ("5.15.0", {"SIS_PROP": True}, 1, False, True),
        ("5.15.0", {"SIS_PROP": False, "SIS_UTIL": True}, 2, False, True),
        ("5.19.0", {"SIS_UTIL": True}, 1, False, False),
        ("6.0.0", {}, 2, True, False),
        ("6.12.0", {"TTWU_QUEUE": False}, 0, True, False),
        ("", {}, 2, True, False),
    ],
)
def test_what_kernels_do_otherwise(
    release: str, features: dict[str, bool], lists: int, decay: bool, follow: bool, tmp_path: Path
) -> None:
    write(tmp_path / "trace.dat", schedule(1000, 2), machine=Machine(2, uname=f"Linux box {release or 'x'} x86_64"))
    recording = import_trace(tmp_path / "trace.dat", None, tmp_path / "a.rewake")
    recording.manifest["features"] = features
    machine = recorded_machine(recording)[0]
    assert (machine.wake_lists, machine.leavers_decay, machine.sums_follow) == (lists, decay, follow)


def grouped(tmp_path: Path) -> tuple[Path, str]:
    """The demo's snapshot with an empty cgroup /a: its directory, and all tids, a line each."""
    with tarfile.open(DEMO / "topology.tar.gz") as tar:
        tar.extractall(tmp_path / "topology")
    group = tmp_path / "topology/sys/fs/cgroup/a"
    group.mkdir(parents=True)
    return group, "\n".join(re.findall(r" Pid=(\d+) ", (tmp_path / "topology/threads").read_text()))


@pytest.mark.parametrize("shares", [2, 15, 1024, 262_144])
def test_shares_of_version_1_are_exact(shares: int, tmp_path: Path) -> None:
    """In units of cpu.weight 2, a pod without requests, was 10, and no more than 102,400 were possible."""
    group, tids = grouped(tmp_path)
    (group.parent / "cpu.shares").write_text("1024\n")
    (group / "cpu.shares").write_text(f"{shares}\n")
    (group / "tasks").write_text(tids)
    recording = import_trace(DEMO / "trace.dat", tmp_path / "topology", tmp_path / "a.rewake")
    machine, _ = recorded_machine(recording)
    assert machine.shares == [1024, shares]


@pytest.mark.parametrize("files", [
    {"cpu.weight": "1", "cpu.idle": "1", "cgroup.threads": ""},  # 6.12 and later
    {"cpu.weight": "0", "cgroup.threads": ""},  # until 6.11, of a rewake that did not keep cpu.idle
    {"cpu.shares": "3", "cpu.idle": "1", "tasks": ""},
])  # fmt: skip
def test_a_group_of_idle_policy_weighs_3(files: dict[str, str], tmp_path: Path) -> None:
    group, tids = grouped(tmp_path)
    (group.parent / "cgroup.controllers").write_text("cpu\n")
    for name, text in files.items():
        (group / name).write_text(f"{text or tids}\n")
    recording = import_trace(DEMO / "trace.dat", tmp_path / "topology", tmp_path / "a.rewake")
    assert recorded_machine(recording)[0].shares == [1024, 3]


@pytest.mark.parametrize(("weight", "shares"), [(0, 3), (1, 10), (3, 31), (79, 809), (100, 1024), (10_000, 102_400)])
def test_shares_of_a_weight(weight: int, shares: int) -> None:
    """As sched_weight_from_cgroup() rounds: 30.72, 808.96."""
    w = World(1, 1)
    w.tasks["group"] = np.zeros(1, np.uint16)
    groups = [(0, 100, 0, 0), (0, weight, 0, 0)]
    assert _engine.Recorded(w.cpus, w.domains, w.tasks, w.masks, groups).shares == [1024, shares]


@pytest.mark.parametrize(
    ("name", "listed", "observers"),
    [
        ("perf", None, 2), ("perf_6.1", None, 2), ("traced_probes", None, 2), ("perform", None, 0),
        ("perf", "observers=9", 0), ("worker", "observers=8", 2),
        ("perf-exec hackbench", None, 0), ("perf sched-pipe", None, 0), ("trace-cmd hackbench", "observers=8", 2),
        ("sh perf", None, 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("redacted", [False, True])
def test_who_is_the_collector(name: str, listed: str | None, observers: int, redacted: bool, tmp_path: Path) -> None:
    """What the capture lists, and last names only where it lists nobody: `perf bench` was its own collector, and so was
    every command that perf or trace-cmd ran."""
    idle = ("swapper/0", 0)
    lines = []
    for at, own in ((100, (name.split()[0], 8)), (101, (name.split()[-1], 8))):
        for event in ("sched_waking", "sched_wakeup"):
            lines.append(f"<idle>-0 [000] d.h1. {at}.000000: {event}: comm={own[0]} pid=8 prio=120 target_cpu=000")
        for prev, next_ in ((idle, own), (own, idle)):
            lines.append(
                f"{prev[0]}-{prev[1]} [000] d..2. {at}.000005: sched_switch: prev_comm={prev[0]} prev_pid={prev[1]} "
                f"prev_prio=120 prev_state=S ==> next_comm={next_[0]} next_pid={next_[1]} next_prio=120"
            )
    trace, machine = tmp_path / "trace.txt", tmp_path / "topology"
    trace.write_text("# tracer: nop\n" + "\n".join(lines) + "\n")
    if listed is not None:
        with tarfile.open(DEMO / "topology.tar.gz") as tar:
            tar.extractall(machine)
        (machine / "capture").write_text(f"tool=trace-cmd\n{listed}\n")
    key = tmp_path / "key" if redacted else None
    (tmp_path / "key").write_bytes(bytes(range(32)))
    recording = import_trace(trace, machine if listed is not None else None, tmp_path / "a.rewake", redact=key)
    assert decisions_by_class(recording)["observer"] == observers
