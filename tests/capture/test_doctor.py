# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake doctor` here and on made-up machines; probes as far as they can be known without a kernel that has them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tracing import Machine

from rewake.collectors.capture import doctor, probes
from rewake.collectors.capture.doctor import Finding
from rewake.collectors.capture.tracefs import Tracefs
from rewake.errors import RewakeError


def test_it_agrees_with_what_record_needs(tracing: Machine, work: Path) -> None:
    done = tracing.rewake("doctor", "--format", "json", ok=False)
    told = json.loads(done.stdout)
    by_name = {f["name"]: f for f in told["findings"]}
    assert by_name["tracefs"]["status"] == by_name["events"]["status"] == by_name["instance"]["status"] == "ok"
    assert told["can_record"] == (by_name["trace-cmd"]["status"] == "ok") == (done.returncode == 0)
    assert by_name["kernel"]["found"].startswith(os.uname().release)
    table = tracing.rewake("doctor", ok=False)
    assert table.returncode == done.returncode
    assert table.stdout.endswith("rewake record works here\n" if told["can_record"] else "cannot record here\n")


def test_without_tracefs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.Tracefs, "find", _not_mounted)
    found = doctor.examine(tmp_path)
    assert not doctor.can_record(found)
    assert found[1] == Finding(
        "tracefs", "missing", "tracefs is not mounted", "mount -t tracefs nodev /sys/kernel/tracing"
    )
    status = {f.name: f.status for f in found}
    assert {status[n] for n in ("debugfs", "schedstat", "pid namespace", "cgroups")} == {"limited"}


def _not_mounted() -> Tracefs:
    raise RewakeError("tracefs is not mounted: as root, mount -t tracefs nodev /sys/kernel/tracing")


def test_an_instance_of_a_dead_process_is_a_left_over(tmp_path: Path) -> None:
    for name in (f"rewake-{os.getpid()}", "rewake-999999999", "mine", "rewake-x"):
        (tmp_path / "instances" / name).mkdir(parents=True)
    assert Tracefs(tmp_path).stale() == ["rewake-999999999"]
    assert Tracefs(tmp_path).clean() == []
    assert sorted(p.name for p in (tmp_path / "instances").iterdir()) == sorted(
        [f"rewake-{os.getpid()}", "mine", "rewake-x"]
    )


README = (
    "\t  Format: f[:[<group>/][<event>]] <func-name>[%return]\n\t fetcharg: <argname>[->field[->field|.field...]],\n"
)


def fake(root: Path, readme: str = README, present: str = "") -> Tracefs:
    (root / "README").write_text(readme)
    (root / "dynamic_events").write_text(present)
    return Tracefs(root)


def test_probe_definitions() -> None:
    plain, back = probes.definitions(smt=False)
    assert plain == (
        "f:rewake/select_in select_task_rq_fair pid=p->pid prev=prev_cpu flags=wake_flags recent=p->recent_used_cpu"
        " flips=p->wakee_flips util=p->se.avg.util_avg load=p->se.avg.load_avg nallowed=p->nr_cpus_allowed"
        " nis=p->se.cfs_rq->rq->sd->shared->nr_idle_scan hic=p->se.cfs_rq->rq->sd->shared->has_idle_cores"
        " qload=p->se.cfs_rq->avg.load_avg qnr=p->se.cfs_rq->rq->nr_running"
    )
    assert back == "f:rewake/select_out select_task_rq_fair%return cpu=$retval"
    assert "nis=p->se.cfs_rq->rq->sd->parent->shared->nr_idle_scan" in probes.definitions(smt=True)[0]


def test_kernels_that_cannot_probe_say_why(tmp_path: Path) -> None:
    btf = tmp_path / "btf"
    reason = probes.examine(Tracefs(tmp_path), btf).reason
    assert reason == "the kernel has no dynamic events"
    assert "no function probes" in str(probes.examine(fake(tmp_path, "p[:GRP/]"), btf).reason)
    assert "no BTF types" in str(probes.examine(fake(tmp_path), btf).reason)
    btf.touch()
    assert probes.examine(fake(tmp_path), btf).definitions == probes.definitions(probes.is_smt())
    with (
        pytest.raises(RewakeError, match="--probes: why: it needs this"),
        probes.installed(fake(tmp_path), probes.Plan((), "why", "this")),
    ):
        pass


def test_probes_come_and_go(tmp_path: Path) -> None:
    tracefs = fake(tmp_path)
    with probes.installed(tracefs, probes.Plan(probes.definitions(False))) as names:
        assert list(names) == ["rewake:select_in", "rewake:select_out"]
        assert (tmp_path / "dynamic_events").read_text() == "\n".join(probes.definitions(False)) + "\n"
    # The file of a kernel would be empty now; this one keeps what was appended.
    removed = (tmp_path / "dynamic_events").read_text().splitlines()[2:]
    assert removed == ["-:rewake/select_in", "-:rewake/select_out"]


def test_probes_of_another_recording_stay(tmp_path: Path) -> None:
    tracefs = fake(tmp_path, present="f:rewake/select_in select_task_rq_fair pid=p->pid\np:other/x y\n")
    with (
        pytest.raises(RewakeError, match="another recording's probes are there: rewake/select_in"),
        probes.installed(tracefs, probes.Plan(probes.definitions(False))),
    ):
        pass
    assert "-:" not in (tmp_path / "dynamic_events").read_text()
