# SPDX-License-Identifier: GPL-2.0-or-later
"""The script of --emit-script: its text, its quoting, and what it does under dash and busybox."""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracing import PING_PONG, TRACING, Machine

from rewake.collectors.capture import script
from rewake.collectors.snapshot import load
from rewake.collectors.snapshot.take import cpu_cgroups
from rewake.errors import UsageError
from rewake.forms import Recording

GOLDEN = Path(__file__).parent / "golden" / "script.txt"
HOSTILE = script.Options(
    3, ("sched:sched_switch", "sched:sched_wakeup"), 64, 1024, "it's $(here).tar", ("sh", "-c", "echo '$HOME' `id`\n;")
)


def test_what_is_filled_in() -> None:
    """The golden file is the difference from the template."""
    template = script.TEMPLATE.read_text().splitlines()
    lines = script.emit(HOSTILE, "1.0'; rm -rf /").splitlines()
    found = (
        "\n".join(line for line in difflib.unified_diff(template, lines, n=0, lineterm="") if line[0] in "+-") + "\n"
    )
    assert found == GOLDEN.read_text()


def test_nothing_stays_unfilled() -> None:
    assert "@" not in script.emit(HOSTILE, "1.0").replace('"$@"', "")


def shells() -> list[list[str]]:
    found = []
    for name, argv in (("dash", ["dash"]), ("busybox", ["busybox", "ash"])):
        if shutil.which(name):
            found.append(argv)
    return found


@settings(max_examples=30)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20))
def test_quoting(text: str) -> None:
    for shell in shells():
        done = subprocess.run([*shell, "-c", f"printf %s {script.quote(text)}"], capture_output=True, check=True)
        assert done.stdout.decode() == text


def test_a_nul_is_refused() -> None:
    with pytest.raises(UsageError, match="NUL"):
        script.quote("a\0b")


def test_seconds_are_whole() -> None:
    assert [script.whole_seconds(s) for s in (0.001, 1.0, 1.2, 60)] == [1, 1, 2, 60]


@pytest.mark.parametrize("shell", ["dash", "sh"])
def test_shellcheck(shell: str, tmp_path: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    file = tmp_path / "record.sh"
    file.write_text(script.emit(script.Options(10, command=("make", "-j8")), "1.0"))
    done = subprocess.run(["shellcheck", "-s", shell, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# --- for real


@pytest.fixture(params=["dash", "busybox"])
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A command that runs a script; for busybox every tool that the script calls is busybox's own."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    if request.param == "dash":
        return ["dash"]
    applets = tmp_path_factory.mktemp("applets")
    busybox = shutil.which("busybox")
    assert busybox is not None
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        (applets / name).symlink_to(busybox)
    for name in ("trace-cmd", "python3"):
        if (where := shutil.which(name)) is not None:
            (applets / name).symlink_to(where)
    return ["env", f"PATH={applets}", "sh"]


def emit(machine: Machine, work: Path, *args: str | Path) -> Path:
    file = work / "record.sh"
    file.write_text(machine.rewake("record", "--emit-script", *args).stdout)
    return file


@pytest.mark.parametrize("found", ["N", "Y"])
def test_domains_that_another_recording_switches_off(tmp_path: Path, shell: list[str], found: str) -> None:
    """It ends while the script reads; a stand-in for cp does as it would."""
    text = script.emit(script.Options(1), "1.0")
    functions = text[text.index("# copy_to FILE") : text.index("# --- probes on")]
    sched = tmp_path / "sched"
    (sched / "domains").mkdir(parents=True)
    (sched / "verbose").write_text(f"{found}\n")
    (tmp_path / "s.sh").write_text(f"""set -eu
cp() {{
    case "$*" in *{sched}*)
        if [ -e {tmp_path}/ended ]; then
            cat {sched}/verbose >{sched}/domains/flags
        else
            echo N >{sched}/verbose
            echo >{tmp_path}/ended
        fi
        ;;
    esac
    command cp "$@"
}}
verbose=
{functions.replace("/sys/kernel/debug/sched", str(sched)).replace("/sys/devices/system", "/none")}
copy_cgroups() {{ :; }}
snapshot "$1"
""")
    done = subprocess.run([*shell, tmp_path / "s.sh", tmp_path / "out"], capture_output=True, check=False)
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    assert (sched / "verbose").read_text() == "N\n"
    (flags,) = (tmp_path / "out").rglob("flags")
    assert flags.read_text() == "Y\n"


def test_cgroups_are_those_of_the_first_mount(tmp_path: Path, shell: list[str]) -> None:
    """As in take.cpu_cgroups: a part of them that is mounted elsewhere, too, is not the machine's root group."""
    text = script.emit(script.Options(1), "1.0")
    functions = text[text.index("# copy_to FILE") : text.index("threads() {")]
    whole, part = tmp_path / "of all", tmp_path / "part"
    for folder, weight in ((whole, 100), (whole / "web", 300), (part, 300), (part / "inner", 50)):
        folder.mkdir()
        (folder / "cgroup.controllers").write_text("cpuset cpu\n")
        (folder / "cpu.weight").write_text(f"{weight}\n")
    rows = (f"none {str(top).replace(' ', chr(92) + '040')} cgroup2 rw,nosuid 0 0\n" for top in (whole, part))
    (tmp_path / "mounts").write_text("".join(rows))
    (tmp_path / "s.sh").write_text(
        f"set -eu\n{functions.replace('/proc/mounts', str(tmp_path / 'mounts'))}\ntarget=$1\ncopy_cgroups\n"
    )
    subprocess.run([*shell, tmp_path / "s.sh", tmp_path / "out"], check=True)
    top = tmp_path / "out/sys/fs/cgroup"
    found = {str(f.parent.relative_to(top)): f.read_text() for f in top.rglob("cpu.weight")}
    assert found == {".": "100\n", "web": "300\n"}


def test_dry_run_changes_nothing(tracing: Machine, work: Path, shell: list[str]) -> None:
    file = emit(tracing, work, "--duration", "5s")
    before = tracing.settings()
    done = subprocess.run([*tracing.prefix, *shell, file, "--dry-run", work / "o.tar"], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "dry run: nothing is recorded" in done.stderr and "would record 5 s" in done.stderr
    assert tracing.settings() == before and [p.name for p in work.iterdir()] == ["record.sh"]


@pytest.mark.parametrize("tool", ["trace-cmd", "raw"])
def test_it_records_and_the_tar_is_imported(tracing: Machine, work: Path, shell: list[str], tool: str) -> None:
    if tool == "trace-cmd" and shutil.which("trace-cmd") is None:
        pytest.skip("trace-cmd is not installed")
    file = emit(tracing, work, "--", sys.executable, "-c", PING_PONG, "0.5")
    before = tracing.settings()
    flags = ["--no-trace-cmd"] if tool == "raw" else []
    with subprocess.Popen([*tracing.prefix, *shell, file, *flags, work / "o.tar"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as child:  # fmt: skip
        out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert out == f"{work}/o.tar\n" and (work / "o.tar").stat().st_mode & 0o77 == 0
    assert {p.name for p in work.iterdir()} == {"record.sh", "o.tar"}
    assert not (TRACING / "instances" / f"rewake-{child.pid}").exists() and tracing.settings() == before
    tracing.rewake("import", work / "o.tar", "-o", work / "a.rewake")
    manifest = Recording(work / "a.rewake").manifest
    assert manifest["events"]["sched_waking"] > 1000 and manifest["source"]["format"] == "capture"
    assert manifest["problems"] == [] and manifest["topology"] == "snapshot" and manifest["lost"] == 0
    capture = manifest["capture"]
    assert (capture["tool"], capture["stopped_by"]) == (tool, "command") and capture["observers"] >= 1
    assert sum(c["read"] for c in capture["kernel"]) == manifest["events_total"], (
        "all that was in the buffers came back"
    )
    snapshot = load(work / "o.tar")
    assert {t.when for t in snapshot.threads} == {"main", "before", "after"} and snapshot.steal_pct is not None
    assert any(t.tid == 2 and t.kthread for t in snapshot.threads) or not Path("/proc/2").exists()
    assert len(snapshot.cgroup["path"]) > 0 or cpu_cgroups() is None
    session = Path("/proc/self/autogroup")
    told = re.search(r"-(\d+) nice (-?\d+)", session.read_text() or "-0 nice 0") if session.exists() else None
    mine = (int(told[1]), int(told[2])) if told else None
    assert {t.autogroup for t in snapshot.threads if t.tid == os.getpid()} == {mine}
    checked = tracing.rewake("check", work / "a.rewake", "--format", "json", ok=False)
    assert {c["name"] for c in json.loads(checked.stdout)["checks"] if c["passed"] is None} == set()


def test_a_full_buffer_ends_it_and_what_did_not_fit_is_counted(tracing: Machine, work: Path) -> None:
    file = emit(tracing, work, "--max-size", "256K", "--duration", "60s")
    load = subprocess.Popen([sys.executable, "-c", PING_PONG, "20"])
    try:
        done = subprocess.run([*tracing.prefix, "sh", file, "--no-trace-cmd", work / "o.tar"], capture_output=True,
                              text=True, check=False, timeout=100)  # fmt: skip
    finally:
        load.kill()
        load.wait()
    assert done.returncode == 0 and "stopped by size" in done.stderr, done.stderr
    tracing.rewake("import", work / "o.tar", "-o", work / "a.rewake")
    manifest = Recording(work / "a.rewake").manifest
    counted = {c["cpu"]: c["dropped"] + c["overrun"] for c in manifest["capture"]["kernel"]}
    assert {c["cpu"]: c["lost"] for c in manifest["loss"]} == counted
    assert sum(c["read"] for c in manifest["capture"]["kernel"]) == manifest["events_total"] > 1000


@pytest.mark.parametrize("flags", [["--no-trace-cmd"], []])
def test_after_a_kill_the_next_run_leaves_nothing(tracing: Machine, work: Path, flags: list[str]) -> None:
    if tracing.prefix:
        pytest.skip("in a mount namespace the shell is not our child")
    if not flags and shutil.which("trace-cmd") is None:
        pytest.skip("trace-cmd is not installed")
    file = emit(tracing, work, "--duration", "60s")
    with subprocess.Popen(["sh", file, *flags, work / "killed.tar"], stderr=subprocess.DEVNULL) as child:
        instance = TRACING / "instances" / f"rewake-{child.pid}"
        wait_until(lambda: instance.exists() and (instance / "tracing_on").read_text() == "1\n")
        child.send_signal(signal.SIGKILL)
    # trace-cmd watches the shell and ends by itself.
    wait_until(lambda: not flags or instance.exists())
    short = emit(tracing, work, "--duration", "1s")

    def gone() -> bool:
        subprocess.run(["sh", short, "--no-trace-cmd", work / "killed.tar"], stderr=subprocess.DEVNULL, check=True)
        (work / "killed.tar").unlink()
        return not instance.exists()

    wait_until(gone)
    assert {p.name for p in work.iterdir()} == {"record.sh"}, "and of the one that was killed no half-written tar"


def test_ctrl_c_ends_the_command_too(tracing: Machine, work: Path, shell: list[str]) -> None:
    """The shell has its children in the background ignore it."""
    if tracing.prefix:
        pytest.skip("in a mount namespace the shell is not our child")
    count = work / "count"
    file = emit(tracing, work, "--", "sh", "-c", f"echo $$ >{count}; while :; do sleep 1; done")
    with subprocess.Popen([*shell, file, "--no-trace-cmd", work / "o.tar"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as child:  # fmt: skip
        wait_until(lambda: count.exists() and count.read_text().endswith("\n"))
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=120)
    assert child.returncode == 0 and "stopped by signal" in err, err
    assert (work / "o.tar").exists()
    wait_until(lambda: not Path(f"/proc/{count.read_text().strip()}").exists(), 10)


@pytest.mark.usefixtures("hangups_end")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_all_of_its_processes_ends_the_recording_and_keeps_it(
    trace_cmd: Machine, work: Path, shell: list[str], number: signal.Signals
) -> None:
    """As timeout(1), systemd and a closed terminal send it: to trace-cmd, too."""
    if trace_cmd.prefix:
        pytest.skip("in a mount namespace the shell is not our child")
    begun = work / "begun"
    file = emit(trace_cmd, work, "--", "sh", "-c", f"echo >{begun}; exec sleep 60")
    with subprocess.Popen([*shell, file, work / "o.tar"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as child:  # fmt: skip
        wait_until(begun.exists)
        time.sleep(0.5)
        os.killpg(child.pid, number)
        _, err = child.communicate(timeout=120)
    assert child.returncode == 0 and "stopped by" in err and (work / "o.tar").exists(), err


def test_a_signal_while_it_collects_loses_nothing(trace_cmd: Machine, work: Path) -> None:
    """It comes while the last snapshot is taken, to all processes; a stand-in for awk makes time for it."""
    if trace_cmd.prefix:
        pytest.skip("in a mount namespace the shell is not our child")
    ended, collects = work / "ended", work / "collects"
    awk = work / "bin" / "awk"
    awk.parent.mkdir()
    awk.write_text(
        f'#!/bin/sh\ncase "$*" in *autogroup=*) [ ! -e {ended} ] || {{ echo >{collects}; sleep 2; }} ;; esac\n'
        f'exec {shutil.which("awk")} "$@"\n'
    )
    awk.chmod(0o755)
    file = emit(trace_cmd, work, "--", "sh", "-c", f"sleep 1; echo >{ended}")
    environment = {**os.environ, "PATH": f"{awk.parent}:{os.environ['PATH']}"}
    with subprocess.Popen(["sh", file, work / "o.tar"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          start_new_session=True, env=environment) as child:  # fmt: skip
        wait_until(collects.exists)
        for _ in range(2):
            os.killpg(child.pid, signal.SIGTERM)
            time.sleep(0.5)
        _, err = child.communicate(timeout=120)
    assert child.returncode == 0 and "stopped by command" in err and (work / "o.tar").exists(), err


def test_a_size_that_is_less_than_a_buffer_is_refused(tracing: Machine, work: Path) -> None:
    file = emit(tracing, work, "--max-size", "1K", "--duration", "1s")
    cpus = len(list((TRACING / "per_cpu").glob("cpu*")))
    if cpus < 2:
        pytest.skip("for one CPU it is enough")
    for flags in (["--dry-run"], []):
        done = subprocess.run([*tracing.prefix, "sh", file, "--no-trace-cmd", *flags, work / "o.tar"],
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 1
        assert done.stderr == (
            f"rewake: error: 1 KiB of trace are too little for {cpus} CPUs: give a --max-size of at least {cpus}K\n"
        )


def test_a_directory_that_is_not_there(tracing: Machine, work: Path, shell: list[str]) -> None:
    file = emit(tracing, work, "--duration", "1s")
    done = subprocess.run([*tracing.prefix, *shell, file, work / "none" / "o.tar"], capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 1 and done.stderr == f"rewake: error: {work}/none: no such directory\n"


def wait_until(condition: object, seconds: float = 120.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)
