# SPDX-License-Identifier: GPL-2.0-or-later
"""Which task group tasks are in by their session (collectors/snapshot/sessions.py)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from rewake.collectors.snapshot import load

DEMO = Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench" / "topology.tar.gz"
THREAD = "Name={0} Tgid={1} Pid={1} PPid=1 Cpus_allowed=1 Cpus_allowed_list=0 flags=0 prio=20 nice=0 cpu=0 policy=0{2}"
UNTOLD = "groups of sessions (sched_autogroup_enabled) are not"


def machine(root: Path, sessions: dict[str, str], on: str = "1", cgroups: dict[str, str] | None = None) -> Path:
    """The demo's snapshot with a thread for each of `sessions` (name: what its line says), from 11 on, and cgroups with
    text for their cpu.weight, which hold the threads of their names."""
    with tarfile.open(DEMO) as tar:
        tar.extractall(root)
    files = {
        "before/threads": "", "after/threads": "",
        "proc/sys/kernel/sched_autogroup_enabled": f"{on}\n",
        "threads": "".join(THREAD.format(n, 11 + i, said) + "\n" for i, (n, said) in enumerate(sessions.items())),
    }  # fmt: skip
    pids = {name: 11 + i for i, name in enumerate(sessions)}
    for path, weight in (cgroups or {}).items():
        at = f"sys/fs/cgroup{path.rstrip('/')}"
        name = path.rpartition("/")[2]
        files[f"{at}/cgroup.procs"] = f"{pids[name]}\n" if name in pids else ""
        if weight:
            files[f"{at}/cpu.weight"] = f"{weight}\n"
    for file, text in files.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return root


def test_threads_of_the_root_group_are_in_that_of_their_session(tmp_path: Path) -> None:
    said = {"a": " autogroup=7:0", "b": " autogroup=9:-4", "c": " autogroup=7:0", "d": "", "e": " autogroup=0:0"}
    found = load(machine(tmp_path, said))
    assert [t.cgroup for t in found.threads] == ["/autogroup-7", "/autogroup-9", "/autogroup-7", None, None]
    assert found.cgroup["path"].tolist() == ["/", "/autogroup-7", "/autogroup-9"]  # type: ignore[union-attr]
    weight, unknown = found.cgroup["weight"]
    assert weight[~unknown].tolist() == [100, 244]
    parent, root = found.cgroup["parent"]
    assert (parent[~root].tolist(), root.tolist()) == ([0, 0], [True, False, False])
    assert not any(note.startswith(UNTOLD) for note in found.notes)


def test_a_cgroup_with_a_weight_takes_a_thread_out_of_its_sessions_group(tmp_path: Path) -> None:
    said = dict.fromkeys("abc", " autogroup=7:0")
    found = load(machine(tmp_path, said, cgroups={"/": "", "/x": "200", "/x/a": "", "/y": "", "/y/b": ""}))
    assert [t.cgroup for t in found.threads] == ["/x/a", "/y/b/autogroup-7", "/y/b/autogroup-7"]


@pytest.mark.parametrize("on", ["0", "1"])
def test_a_snapshot_that_does_not_say_is_noted(tmp_path: Path, on: str) -> None:
    found = load(
        machine(
            tmp_path,
            {
                "a": "",
                "b": " autogroup=x",
            },
            on,
        )
    )
    assert [t.cgroup for t in found.threads] == [None, None]
    assert any(note.startswith(UNTOLD) for note in found.notes) == (on == "1")


def test_the_kernel_makes_none_where_it_is_switched_off(tmp_path: Path) -> None:
    found = load(machine(tmp_path, {"a": " autogroup=7:0"}, "0"))
    assert [t.cgroup for t in found.threads] == [None]
    assert found.cgroup["path"].tolist() == []  # type: ignore[union-attr]
