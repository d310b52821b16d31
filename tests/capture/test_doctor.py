# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake doctor` here and on made-up machines; probes as far as they can be known without a kernel that has them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from command import told
from tracing import TRACING, Machine

from rewake.collectors.capture import doctor, probes, process
from rewake.collectors.capture.doctor import Finding
from rewake.collectors.capture.tracefs import Instance, Tracefs, put
from rewake.collectors.snapshot import load
from rewake.errors import RewakeError
from rewake.forms import Recording


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


def test_debugfs_that_is_closed_to_others_than_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its directory has mode 0700 on every distribution: whoever is not root cannot even ask what is in it."""
    (tmp_path / "sys/kernel/debug").mkdir(parents=True)
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: path != tmp_path / "sys/kernel/debug")
    found = {f.name: f for f in doctor.examine(tmp_path)}["debugfs"]
    assert (found.status, found.remedy) == ("limited", "run as root")


def test_tools_that_do_not_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A program of another machine, one that hangs, one with a name that is not UTF-8, a distribution's wrapper that
    has no perf for this kernel."""
    monkeypatch.setattr(doctor.Tracefs, "find", _not_mounted)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "perf").write_text("#!/bin/sh\necho WARNING: perf not found for kernel 6.9 >&2\nexit 2\n")
    for script, said in (
        (b"\x7fELF", "trace-cmd does not run: Exec format error"),
        (b"#!/bin/sh\nexec /bin/sleep 60\n", "trace-cmd --version does not end"),
        (b"#!/bin/sh\necho '\xff trace-cmd version 2.9'\n", "2.9"),
    ):
        (tmp_path / "trace-cmd").write_bytes(script)
        for tool in ("perf", "trace-cmd"):
            (tmp_path / tool).chmod(0o755)
        monkeypatch.setattr(process.ask, "__defaults__", (1.0,))
        found = {f.name: f for f in doctor.examine(tmp_path)}
        assert found["trace-cmd"].found == said
        assert (found["trace-cmd"].status == "missing") == (said != "2.9")
        assert found["perf"].status == "limited" and "perf not found for kernel 6.9" in found["perf"].found


def test_proc_that_hides_the_processes_of_others(tmp_path: Path) -> None:
    """hidepid=2 shows none of them, hidepid=1 no file of theirs."""
    (tmp_path / "proc").mkdir()
    for _ in range(2):
        found = {f.name: f for f in doctor.examine(tmp_path)}["pid namespace"]
        assert found.status == "limited" and found.found.startswith("not known")
        (tmp_path / "proc/2/comm").mkdir(parents=True, exist_ok=True)  # cannot be read, whoever tries
    (tmp_path / "proc/1").mkdir()
    (tmp_path / "proc/1/comm").write_text("init\n")
    assert "not the machine's own" in {f.name: f for f in doctor.examine(tmp_path)}["pid namespace"].found


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


def test_a_signal_while_an_instance_is_made_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "instances").mkdir()

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(Instance, "write", interrupted)
    with pytest.raises(KeyboardInterrupt), Instance(Tracefs(tmp_path)):
        pass
    assert not list((tmp_path / "instances").iterdir())


README = (
    "\t  Format: f[:[<group>/][<event>]] <func-name>[%return]\n\t fetcharg: <argname>[->field[->field|.field...]],\n"
)


def fake(root: Path, readme: str = README, present: str = "") -> Tracefs:
    (root / "README").write_text(readme)
    (root / "dynamic_events").write_text(present)
    return Tracefs(root)


def test_probe_definitions() -> None:
    plain, back = probes.definitions(0)
    assert plain == (
        "f:rewake/select_in select_task_rq_fair pid=p->pid prev=prev_cpu flags=wake_flags recent=p->recent_used_cpu"
        " flips=p->wakee_flips util=p->se.avg.util_avg load=p->se.avg.load_avg nallowed=p->nr_cpus_allowed"
        " nis=p->se.cfs_rq->rq->sd->shared->nr_idle_scan hic=p->se.cfs_rq->rq->sd->shared->has_idle_cores"
        " qload=p->se.cfs_rq->avg.load_avg qnr=p->se.cfs_rq->rq->nr_running"
    )
    assert back == "f:rewake/select_out select_task_rq_fair%return cpu=$retval"
    assert "nis=p->se.cfs_rq->rq->sd->parent->parent->shared->nr_idle_scan" in probes.definitions(2)[0]
    assert "nis=" not in probes.definitions(None)[0] and "qnr=" in probes.definitions(None)[0]


def test_the_llc_is_found_by_the_domains_flags() -> None:
    """An SMT machine, one with an odd CPU, one without domains."""
    demo = load(Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench" / "topology.tar.gz").domain
    assert probes.llc_level(demo) == 1
    odd = {k: np.concatenate([v, v[:1]]) for k, v in demo.items() if k in ("cpu", "level", "flags")}
    odd["cpu"][-1] = 99
    odd["level"][-1] = 0
    assert probes.llc_level(odd) is None
    none = np.array([], np.int64)
    assert probes.llc_level({"cpu": none, "level": none, "flags": none}) is None


def test_kernels_that_cannot_probe_say_why(tmp_path: Path) -> None:
    btf = tmp_path / "btf"
    assert probes.examine(Tracefs(tmp_path), 0, btf).reason == "the kernel has no dynamic events"
    assert "no function probes" in str(probes.examine(fake(tmp_path, "p[:GRP/]"), 0, btf).reason)
    assert "no BTF types" in str(probes.examine(fake(tmp_path), 0, btf).reason)
    btf.touch()
    assert probes.examine(fake(tmp_path), 1, btf).definitions == probes.definitions(1)
    nothing = probes.Plan((), "why", "this")
    with pytest.raises(RewakeError, match="--probes: why: it needs this"), probes.installed(fake(tmp_path), nothing):
        pass


@pytest.mark.parametrize("more", [["--dry-run"], ["--duration", "1s"]])
def test_record_is_refused_where_it_could_not_probe(
    more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is looked at or recorded, and also where nothing would be."""
    monkeypatch.setattr(Tracefs, "find", lambda: Tracefs(tmp_path))
    assert "--probes: the kernel has no dynamic events" in told(capsys, "record", "--probes", *more, code=1)


def test_probes_come_and_go(tmp_path: Path) -> None:
    tracefs = fake(tmp_path)
    with probes.installed(tracefs, probes.Plan(probes.definitions(0))) as names:
        assert list(names) == ["rewake:select_in", "rewake:select_out"]
        assert (tmp_path / "dynamic_events").read_text() == "\n".join(probes.definitions(0)) + "\n"
    # The file of a kernel would be empty now; this one keeps what was appended.
    removed = (tmp_path / "dynamic_events").read_text().splitlines()[2:]
    assert removed == ["-:rewake/select_in", "-:rewake/select_out"]


def test_probes_in_use_stay(tmp_path: Path) -> None:
    """This file, unlike a kernel's, keeps the probe although its removal was written: as if it were in use."""
    tracefs = fake(tmp_path, present="f:rewake/select_in select_task_rq_fair pid=p->pid\np:other/x y\n")
    plan = probes.Plan(probes.definitions(0))
    with pytest.raises(RewakeError, match="another recording uses rewake/select_in"), probes.installed(tracefs, plan):
        pass
    assert (tmp_path / "dynamic_events").read_text().splitlines()[2:] == ["-:rewake/select_in"]


def test_probes_of_a_recording_that_begins_stay(tmp_path: Path) -> None:
    """Its instance is there and not on yet: the kernel does not know yet that somebody uses them. This file, unlike a
    kernel's, keeps the attempt to remove them."""
    present = "f:rewake/select_in select_task_rq_fair pid=p->pid\n"
    tracefs = fake(tmp_path, present=present)
    own, other = (tmp_path / "instances" / f"rewake-{pid}" for pid in (os.getpid(), os.getppid()))
    for instance in (own, other):
        instance.mkdir(parents=True)
        (instance / "tracing_on").write_text("0\n")
    assert probes.tidy(tracefs) == ["rewake/select_in"]
    plan = probes.Plan(probes.definitions(0))
    with pytest.raises(RewakeError, match="another recording uses rewake/select_in"), probes.installed(tracefs, plan):
        pass
    assert (tmp_path / "dynamic_events").read_text() == present
    for begun in ("1\n", None):  # it records: the kernel keeps what it uses; it has ended
        if begun is None:
            (other / "tracing_on").unlink()
            other.rmdir()
        else:
            (other / "tracing_on").write_text(begun)
        fake(tmp_path, present=present)
        probes.tidy(tracefs)
        assert (tmp_path / "dynamic_events").read_text() == present + "-:rewake/select_in\n"


@pytest.mark.parametrize("script", [False, True])
def test_another_recording_leaves_the_probes_of_one_that_begins(tracing: Machine, work: Path, script: bool) -> None:
    """A probe on a program stands for one on the kernel, which not every kernel has."""
    if tracing.prefix:
        pytest.skip("in a mount namespace the recorder is not our child")
    events, instance = TRACING / "dynamic_events", TRACING / "instances" / f"rewake-{os.getpid()}"
    if not (TRACING / "uprobe_events").exists() or probes.own(events):
        pytest.skip("no probes on programs in this kernel, or one of rewake's is there")
    put(events, f"p:rewake/select_in {shutil.which('true')}:0\n", os.O_APPEND)
    instance.mkdir()
    try:
        put(instance / "tracing_on", "0")
        if script:
            (work / "record.sh").write_text(tracing.rewake("record", "--emit-script", "--duration", "1s").stdout)
            command: list[str | Path] = ["sh", work / "record.sh", "--no-trace-cmd", work / "o.tar"]
            subprocess.run(command, check=True, capture_output=True)
        else:
            tracing.rewake("record", "--flight-recorder", "--duration", "1s", "-o", work / "a.rewake")
        assert probes.own(events) == ["rewake/select_in"]
    finally:
        instance.rmdir()
        probes.remove(Tracefs(TRACING))


def test_probes_here(tracing: Machine, work: Path) -> None:
    """Recorded where this kernel can, refused with the reason where not; gone afterwards either way."""
    told = json.loads(tracing.rewake("doctor", "--format", "json", ok=False).stdout)
    able = next(f for f in told["findings"] if f["name"] == "probes")
    before = tracing.settings()
    done = tracing.rewake(
        "record", "--probes", "--flight-recorder", "-o", work / "a.rewake", "--", "sh", "-c", "sleep 0.1; true",
        ok=False,
    )  # fmt: skip
    assert tracing.settings() == before
    if able["status"] == "ok":
        assert done.returncode == 0 and Recording(work / "a.rewake").manifest["events"]["select_in"] > 0
    else:
        reason = able["found"].removeprefix("--probes is refused: ")
        assert done.returncode == 1 and f"--probes: {reason}: it needs" in done.stderr
