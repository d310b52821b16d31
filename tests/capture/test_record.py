# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake record` on this machine, where it can be traced, and everything that goes wrong."""

from __future__ import annotations

import glob
import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from tracing import PING_PONG, Machine

from rewake.analysis.quality import decisions_by_class
from rewake.cli import record
from rewake.collectors._decode import TraceDat
from rewake.collectors.capture import session, tracefs
from rewake.errors import RewakeError, TraceError
from rewake.forms import Recording, RecordingWriter

LOAD = (sys.executable, "-c", PING_PONG, "0.6")


def wait_for(condition: object, seconds: float = 120.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def test_a_load_is_recorded_imported_checked_and_replayed(trace_cmd: Machine, work: Path) -> None:
    before = trace_cmd.settings()
    raw = work / "raw"
    done = trace_cmd.rewake("record", "-o", work / "a.rewake", "--keep-raw", raw, "--", *LOAD)
    assert done.stdout == f"{work}/a.rewake\n"
    assert trace_cmd.settings() == before
    assert {p.name for p in work.iterdir()} == {"a.rewake", "raw"}  # nothing of the work directory is left
    recording = Recording(work / "a.rewake")
    manifest = recording.manifest
    assert manifest["events"]["sched_waking"] > 2000 and manifest["clock"] == "mono"
    assert manifest["kernel"] == os.uname().release and manifest["topology"] == "snapshot"
    capture = manifest["capture"]
    assert capture["stopped_by"] == "command" and capture["command_status"] == 0 and capture["observers"] >= 3
    read = sum(c["read"] for c in capture["kernel"])
    assert read == manifest["events_total"], "every event that the kernel handed out is in the recording"
    # Python, trace-cmd and its recorders are the collector; the load is not, although we started it.
    con = recording.connect(("task", "task_attr", "comm"))
    names = con.execute(
        "SELECT DISTINCT name FROM task JOIN task_attr USING (task_id) JOIN comm ON comm = comm.id WHERE observer"
    ).fetchall()
    assert ("trace-cmd",) in names
    classes = decisions_by_class(recording)
    assert classes["moved"] + classes["stayed"] + classes["maybe_delayed"] + classes["maybe_on_cpu"] > 1000
    assert "time stolen" in trace_cmd.rewake("check", "--force", work / "a.rewake").stdout
    again = trace_cmd.rewake("import", raw / "trace.dat", "-o", work / "b.rewake").stdout.strip()
    assert Recording(Path(again)).manifest["events"] == manifest["events"]
    replayed = trace_cmd.rewake(
        "replay", work / "a.rewake", "--force", "--policy", "linux-6.12", "-o", work / "a.run", "--format", "json"
    )
    assert "linux-6.12" in replayed.stdout


def test_losses_equal_the_kernels_own_counters(trace_cmd: Machine, work: Path) -> None:
    # More busy processes than CPUs keep the readers waiting.
    crowd = 'for i in $(seq $(($(nproc) * 3))); do "$@" & done; wait'
    done = trace_cmd.rewake("record", "--buffer", "8K", "--format", "json", "-o", work / "a.rewake", "--",
                            "sh", "-c", crowd, "sh", *LOAD)  # fmt: skip
    told = json.loads(done.stdout)
    counted = {c["cpu"]: c["overrun"] + c["dropped"] + c["commit_overrun"] for c in told["capture"]["kernel"]}
    assert {c["cpu"]: c["lost"] for c in told["loss"]} == counted
    if not sum(counted.values()):
        pytest.skip("this machine is too fast: 8 KiB per CPU lost nothing")
    advice = {a["cpu"]: a for a in told["advice"]}
    assert set(advice) == {cpu for cpu, n in counted.items() if n}
    for cpu, a in advice.items():
        assert f"CPU {cpu} lost {counted[cpu]:,} events (buffer 8 KiB); --buffer {a['enough_kb']}K would" in done.stderr
        assert a["enough_kb"] > 8


@pytest.mark.parametrize("version", ["6", "7"])
def test_a_file_of_an_instance_is_decoded(trace_cmd: Machine, work: Path, version: str) -> None:
    """As older versions of trace-cmd write it; the clock is the instance's, not the main buffer's."""
    script = (
        'i=/sys/kernel/tracing/instances/$2; trap "rmdir $i" EXIT; trace-cmd record -o "$1" -B "$2" -d -k --no-filter'
        f" -C mono -e sched:sched_switch --file-version {version} sleep 0.3 >&2; cat $i/per_cpu/cpu*/stats"
    )
    stats = trace_cmd.sh(script, work / "t.dat", f"rewake-{os.getpid()}")
    read = sum(int(line.partition(": ")[2]) for line in stats.splitlines() if line.startswith("read events"))
    reader = TraceDat(str(work / "t.dat"))
    while reader.next_batch():
        pass
    end = reader.finish()
    assert end["event_counts"] == {"sched_switch": read} and read > 0 and end["problems"] == []
    assert (reader.header["version"], reader.header["clock"]) == (int(version), "mono")


def test_duration_cpus_and_dry_run(trace_cmd: Machine, work: Path) -> None:
    done = trace_cmd.rewake(
        "record", "--duration", "300ms", "--cpus", "0", "--events", "sched", "--format", "json", "-o", work / "a.rewake"
    )
    told = json.loads(done.stdout)
    assert told["stopped_by"] == "duration" and 0.3 <= told["seconds"] < 3
    assert told["capture"]["cpus"] == "0"
    if (os.cpu_count() or 1) > 1:
        checked = trace_cmd.rewake("check", work / "a.rewake", ok=False)
        assert "CPUs were recorded (--cpus, perf -C)" in checked.stdout + checked.stderr
    assert {c["cpu"] for c in told["capture"]["kernel"] if c["read"]} == {0}
    assert set(Recording(work / "a.rewake").manifest["events"]) <= {
        "sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task", "sched_process_fork",
        "sched_process_exec", "sched_process_exit",
    }  # fmt: skip
    dry = json.loads(trace_cmd.rewake("record", "--dry-run", "--duration", "1h", "--format", "json").stdout)
    assert dry["events_per_s"] > 0 and dry["disk_bytes"] == pytest.approx(dry["bytes_per_s"] * 3600, rel=1e-2, abs=3600)
    assert dry["buffer_kb_per_cpu"] >= 64
    for end in ((), ("--duration", "9999h")):
        shown = trace_cmd.rewake("record", "--dry-run", "--max-size", "64K", *end, "--format", "json").stdout
        assert json.loads(shown)["disk_bytes"] == 64 << 10, "it stops there"
    assert trace_cmd.rewake("record", "--dry-run", "--max-size", "much", ok=False).returncode == 2
    dry = json.loads(
        trace_cmd.rewake("record", "--dry-run", "--cpus", "0", "--buffer", "96K", "--format", "json").stdout
    )
    assert (dry["cpus"], dry["buffer_kb_per_cpu"], dry["memory_short"]) == (1, 96, False)
    assert dry["wanted_kb_per_cpu"] >= 4096, "what is short is --buffer"
    assert dry["buffer_bytes"] == 96 * 1024 * len(told["capture"]["kernel"]), "the others have theirs too"
    shown = trace_cmd.rewake("record", "--dry-run", "--buffer", "96K").stdout
    assert "buffer    96.0 KiB on each of" in shown and "--buffer  4.0 MiB per CPU would be right" in shown


def test_overhead_runs_the_command_four_times(trace_cmd: Machine, work: Path) -> None:
    count = work / "count"
    script = f'echo x >>{count}; exec "$@"'
    done = trace_cmd.rewake("record", "--measure-overhead", "-o", work / "a.rewake", "--", "sh", "-c", script, "sh",
                            sys.executable, "-c", PING_PONG, "0.2")  # fmt: skip
    assert count.read_text() == "x\n" * 4
    capture = Recording(work / "a.rewake").manifest["capture"]
    assert capture["overhead_pairs"] == 2 and -100 < capture["overhead_wall_pct"] < 1000
    assert "overhead of recording on the command: wall " in done.stderr


def test_a_terminal_sees_progress_and_ctrl_c_ends_the_recording(trace_cmd: Machine, work: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        argv = trace_cmd.argv("record", "-o", work / "a.rewake")
        os.execvp(argv[0], argv)
    seen = b""
    sent = False
    while True:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, seen
        try:
            data = os.read(terminal, 4096)
        except OSError:  # Linux says EIO when the other side is gone
            break
        if not data:
            break
        seen += data
        if b"recording 1 s" in seen and not sent:
            os.write(terminal, b"\x03")
            sent = True
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, seen
    assert sent and b"lost 0" in seen and f"{work}/a.rewake".encode() in seen
    assert b"rate now: " in seen, "without an end, the size is told before"
    assert Recording(work / "a.rewake").manifest["capture"]["stopped_by"] == "signal"


@pytest.mark.usefixtures("hangups_end")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_and_after_the_recording_leaves_nothing_behind(
    trace_cmd: Machine, work: Path, number: signal.Signals
) -> None:
    """While it looks at the rates, while it takes the snapshot."""
    if trace_cmd.prefix:
        pytest.skip("in a mount namespace the recorder is not our child")
    for begun in ("/sys/kernel/tracing/instances/rewake-{}", f"{work}/record-{{}}-*.part"):
        with subprocess.Popen(trace_cmd.argv("record", "--duration", "1h", "-o", work / "a.rewake"),
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:  # fmt: skip
            try:
                wait_for(lambda: glob.glob(begun.format(child.pid)))  # noqa: B023
                child.send_signal(number)
                _, said = child.communicate(timeout=60)
            finally:
                child.kill()
        assert not glob.glob(f"/sys/kernel/tracing/instances/rewake-{child.pid}*"), said
        assert not list(work.glob("record-*")) and said, "either interrupted, or a recording of no time"
        shutil.rmtree(work / "a.rewake", ignore_errors=True)


def test_a_signal_while_an_instance_is_removed_does_not_leave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = tracefs.Instance(tracefs.Tracefs(tmp_path), "rewake-1")
    instance.root.mkdir(parents=True)
    monkeypatch.setattr(instance, "write", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        instance.remove()
    assert not instance.root.exists()


def test_nohup_is_heard(trace_cmd: Machine, work: Path) -> None:
    if trace_cmd.prefix:
        pytest.skip("in a mount namespace the recorder is not our child")
    command = ["nohup", *trace_cmd.argv("record", "--duration", "2s", "-o", work / "a.rewake")]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as c:
        wait_for(lambda: glob.glob(f"{work}/record-{c.pid}-*/trace.dat*"))
        c.send_signal(signal.SIGHUP)
        assert c.wait(timeout=60) == 0
    assert Recording(work / "a.rewake").manifest["capture"]["stopped_by"] == "duration"


def test_a_killed_recorder_leaves_tracing_off_and_the_next_one_cleans_up(trace_cmd: Machine, work: Path) -> None:
    if trace_cmd.prefix:
        pytest.skip("in a mount namespace the recorder is not our child")
    child = subprocess.Popen(trace_cmd.argv("record", "--duration", "1h", "-o", work / "a.rewake"),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    name = f"rewake-{child.pid}"
    root = tracefs.PLACES[0] / "instances" / name
    wait_for(lambda: (root / "tracing_on").exists() and (root / "tracing_on").read_text() == "1\n")
    wait_for(lambda: list(work.glob("record-*/trace.dat*")))
    time.sleep(0.3)
    child.send_signal(signal.SIGKILL)
    child.wait()
    wait_for(lambda: not root.exists() or (root / "tracing_on").read_text() == "0\n")
    found = tracefs.Tracefs.find()
    assert name in found.stale() or not root.exists()  # another test's recorder may have been faster
    wait_for(lambda: name not in found.clean())
    assert not root.exists()


def test_a_full_disk_ends_the_recording(trace_cmd: Machine, work: Path) -> None:
    disk = work / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=66m", "tmpfs", disk], check=False).returncode != 0:
        pytest.skip("cannot mount a small tmpfs")
    try:
        done = trace_cmd.rewake("record", "-o", disk / "a.rewake", "--", sys.executable, "-c", PING_PONG, "1")
        assert Recording(disk / "a.rewake").manifest["capture"]["stopped_by"] in ("command", "disk")
        filler = disk / "filler"
        filler.write_bytes(bytes(8 << 20))
        done = trace_cmd.rewake("record", "-o", disk / "b.rewake", "--duration", "5s", ok=False)
        assert done.returncode == 1 and "MiB are needed to begin with" in done.stderr
        assert sorted(p.name for p in disk.iterdir()) == ["a.rewake", "filler"]
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_where_the_raw_trace_cannot_be_kept(trace_cmd: Machine, work: Path) -> None:
    """Known before the recording where it can be, and not lost where it cannot."""
    (work / "file").touch()
    done = trace_cmd.rewake("record", "--keep-raw", work / "file/raw", "-o", work / "a.rewake", "--", *LOAD, ok=False)
    assert done.returncode == 1 and done.stderr == f"rewake: error: {work}/file/raw: Not a directory\n"
    assert [p.name for p in work.iterdir()] == ["file"]
    disk = work / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False).returncode != 0:
        pytest.skip("cannot mount a small tmpfs")
    try:
        done = trace_cmd.rewake("record", "--keep-raw", disk / "raw", "-o", work / "a.rewake", "--", *LOAD)
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    (raw,) = work.glob("record-*.raw")
    assert f"{disk}/raw: No space left on device: see {raw}" in done.stderr
    assert {p.name for p in raw.iterdir()} == {"trace.dat", "topology"}
    trace_cmd.rewake("import", raw / "trace.dat", "-o", work / "b.rewake")


def test_max_size_ends_the_recording(trace_cmd: Machine, work: Path) -> None:
    done = trace_cmd.rewake(
        "record", "--max-size", "64K", "--format", "json", "-o", work / "a.rewake", "--",
        sys.executable, "-c", PING_PONG, "3",
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["stopped_by"] == "size" and told["seconds"] < 3
    assert "reached --max-size" in done.stderr


def test_max_size_knows_what_is_still_in_the_buffers(trace_cmd: Machine, work: Path) -> None:
    """trace-cmd reads a buffer when it is half full: of 64 MiB never, here."""
    done = trace_cmd.rewake(
        "record", "--buffer", "64M", "--max-size", "256K", "--format", "json", "-o", work / "a.rewake", "--",
        sys.executable, "-c", PING_PONG, "8",
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["stopped_by"] == "size" and told["seconds"] < 8


def test_a_command_that_outlives_the_recording_is_told_to_end_and_then_left(trace_cmd: Machine, work: Path) -> None:
    """After --duration a signal goes to the command; one that ignores it is waited for until the next."""
    for script, signals in (("sleep 60", 1), ("trap '' TERM; sleep 60", 2)):
        out, begun = work / f"{signals}.rewake", work / f"{signals}.begun"
        script = f"exec 2>&-; {script.replace('sleep', f'echo >{begun}; exec sleep')}"
        command = trace_cmd.argv("record", "--duration", "1s", "-o", out, "--", "sh", "-c", script)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            wait_for(begun.exists)
            time.sleep(3)
            for _ in range(signals):
                assert child.poll() is None
                child.terminate()
                time.sleep(0.5)
            assert child.wait(timeout=50) == 0
        capture = Recording(out).manifest["capture"]
        assert capture["stopped_by"] == "duration" and ("command_status" in capture) == (signals == 1)


def test_the_commands_status_and_output(trace_cmd: Machine, work: Path) -> None:
    done = trace_cmd.rewake("record", "-o", work / "a.rewake", "--", "sh", "-c", "echo out; exit 3")
    assert done.stdout == f"{work}/a.rewake\n" and "out\n" in done.stderr
    assert "the command ended with status 3" in done.stderr
    missing = trace_cmd.rewake("record", "--", "no-such-command-here", ok=False)
    assert missing.returncode == 2 and "no-such-command-here: no such command" in missing.stderr


def test_without_trace_cmd_it_says_how_to_get_it(tracing: Machine, work: Path) -> None:
    empty = work / "empty"
    empty.mkdir()
    done = subprocess.run(
        [*tracing.prefix, "env", f"PATH={empty}", *Machine([]).argv("record", "--duration", "1s", "-o", work / "a")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "trace-cmd is not installed: install trace-cmd" in done.stderr


def test_perf_records_imports_checks_and_replays_a_load(tracing: Machine, work: Path) -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    raw = work / "raw"
    done = tracing.rewake("record", "--tool", "perf", "-o", work / "a.rewake", "--keep-raw", raw, "--", *LOAD, ok=False)
    if done.returncode != 0 and "ended before it recorded" in done.stderr:
        pytest.skip(f"perf cannot record here: {done.stderr.strip().splitlines()[-1][-200:]}")
    assert done.returncode == 0 and done.stdout == f"{work}/a.rewake\n", done.stderr
    recording = Recording(work / "a.rewake")
    manifest = recording.manifest
    assert manifest["source"]["format"] == "perf.data" and manifest["clock"] == "mono"
    assert manifest["kernel"] == os.uname().release and manifest["topology"] == "snapshot"
    assert manifest["capture"]["mode"] == "perf" and manifest["capture"]["observers"] >= 2
    assert manifest["missing"] == [] and manifest["problems"] == [] and manifest["steps_back"] == 0
    shown = subprocess.run(["perf", "script", "-i", raw / "perf.data", "-F", "event"], capture_output=True, text=True,
                           check=True).stdout  # fmt: skip
    assert manifest["events"]["sched_waking"] == shown.count("sched:sched_waking") > 1000
    assert sum(manifest["events"].values()) == len(shown.splitlines())
    classes = decisions_by_class(recording)
    assert classes["moved"] + classes["stayed"] + classes["maybe_delayed"] + classes["maybe_on_cpu"] > 500
    assert "events lost" in tracing.rewake("check", "--force", work / "a.rewake").stdout
    replayed = tracing.rewake("replay", work / "a.rewake", "--force", "--policy", "linux-6.12", "-o", work / "a.run",
                              "--format", "json")  # fmt: skip
    assert "linux-6.12" in replayed.stdout


def test_tools_that_cannot_be_run_are_refused_before(work: Path) -> None:
    done = Machine([]).rewake("record", "--tool", "perfetto", "--duration", "1s", ok=False)
    if shutil.which("perfetto") is None:
        assert done.returncode == 1 and "perfetto is not installed: see rewake doctor" in done.stderr
    done = Machine([]).rewake("record", "--tool", "perf", "--flight-recorder", ok=False)
    assert done.returncode == 2 and "not with --flight-recorder" in done.stderr
    shown = Machine([]).rewake("record", "--tool", "perfetto", "--emit-script", "--duration", "2s").stdout
    assert "duration_ms: 2000\n" in shown and 'ftrace_events: "sched/sched_switch"' in shown


def test_a_tool_that_fails_is_quoted(tracing: Machine, work: Path) -> None:
    fake = work / "trace-cmd"
    fake.write_text('#!/bin/sh\n[ "$1" = --version ] && exec echo version 3.1\necho "no such luck" >&2\nexit 7\n')
    fake.chmod(0o755)
    done = subprocess.run(
        [*tracing.prefix, "env", f"PATH={work}:{os.environ['PATH']}",
         *Machine([]).argv("record", "--duration", "1s", "-o", work / "a")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "trace-cmd ended before it recorded anything: no such luck" in done.stderr


def test_without_rights_it_says_so(work: Path) -> None:
    if os.geteuid() != 0:
        done = Machine([]).rewake("record", "--duration", "1s", ok=False)
    else:
        code = "import os, sys; os.setuid(65534); from rewake.cli import main; sys.exit(main(['record']))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if "ModuleNotFoundError" in done.stderr or "Permission denied" in done.stderr:
            pytest.skip("this user cannot read the sources")
    assert done.returncode == 1
    assert "run as root" in done.stderr or "tracefs is not mounted: as root, mount -t tracefs" in done.stderr


def test_a_name_that_cannot_be_written_is_refused_before(trace_cmd: Machine, work: Path) -> None:
    """Each of these was told when there was a recording to lose."""
    (work / "link").symlink_to("/proc/none/a.rewake")
    for name, said in (("a" * 252, "File name too long"), ("link", "No such file or directory")):
        done = trace_cmd.rewake("record", "-o", work / name, "--", "touch", work / "ran", ok=False)
        assert done.returncode == 1 and said in done.stderr
    with RecordingWriter(work / "a.rewake"):
        done = trace_cmd.rewake("record", "-o", work / "a.rewake", "--", "touch", work / "ran", ok=False)
    assert done.returncode == 1 and "another rewake is writing it" in done.stderr
    assert [p.name for p in work.iterdir()] == ["link"]


def test_a_name_is_held_while_the_recording_goes_on(work: Path) -> None:
    told: list[object] = []
    with record._reserved(work / "a.rewake") as release:
        with pytest.raises(TraceError, match="another rewake is writing it"), RecordingWriter(work / "a.rewake"):
            told.append("entered")
        release()
        with RecordingWriter(work / "a.rewake"):
            told.append("free")
    assert told == ["free"] and list(work.iterdir()) == []


def test_without_sysfs_nothing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Untouched:
        def clean(self) -> list[str]:
            return []

    monkeypatch.setattr(session.take, "take", Path.mkdir)
    request = session.Request((), tmp_path, 4096)
    with pytest.raises(RewakeError, match="mount -t sysfs"):
        session.record(cast(Any, Untouched()), cast(Any, None), request, lambda _: None)


def test_without_tracefs_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(RewakeError, match="tracefs is not mounted: as root, mount -t tracefs nodev"):
        tracefs.Tracefs.find([tmp_path / "none", tmp_path])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--duration", "5"], "5: the unit is missing: ns, us, ms, s, m, h"),
        (["--max-size", "4096"], "4096: the unit is missing: K, M, G"),
        (["--measure-overhead"], "needs a CMD"),
        (["--buffer", "1X"], "expected a size above 0"),
        (["--cpus", "9999"], "CPUs below"),
        (["--cpus", "8000"], "not among the online CPUs"),
        (["--flight-recorder", "--max-size", "1M"], "writes nothing before its end"),
        (["--duration", "1s", "-o", "."], "no name for a recording"),
        (["--duration", "1s", "-o", "/proc"], "exists and is no rewake recording"),
    ],
)
def test_usage(args: list[str], said: str, work: Path) -> None:
    done = Machine([]).rewake("record", *args, ok=False)
    assert done.returncode == 2 and said in done.stderr
