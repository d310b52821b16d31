# SPDX-License-Identifier: GPL-2.0-or-later
"""Text and Perfetto traces from the command line: what other people published, and the same load in every format."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from command import told

pytestmark = pytest.mark.usefixtures("own_cache")

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
PUBLIC = SHARED / "public" / "traces"
TRACE = ROOT / "fixtures" / "12cpu-buddy-hackbench" / "trace.dat"

PUBLISHED: dict[str, tuple[str, int, int] | str] = {
    # file: (format, events, of which have no table), or why it is refused
    "trappy/doc_trace_dynamic.txt": ("text", 1600, 1600),
    "trappy/raw_trace.txt": ("text", 3, 0),
    "trappy/trace_common_clk.txt": ("text", 8, 8),
    "trappy/trace_empty.txt": ("text", 51, 49),
    "trappy/trace_equals.txt": ("text", 7, 7),
    "trappy/trace_failed_to_parse.txt": ("text", 11, 11),
    "trappy/trace_filesystem.txt": ("text", 69, 69),
    "trappy/trace_idle_unsorted.txt": ("text", 15, 0),
    "trappy/trace_legacy_systrace.html": ("text", 15, 10),
    "trappy/trace_no_trailing_line.txt": ("text", 10, 0),
    "trappy/trace_not_raw.txt": ("text", 757, 2),
    "trappy/trace_sched.txt": ("text", 11, 6),
    "trappy/trace_surfaceflinger.html": ("text", 2506, 645),
    "trappy/trace_systrace.html": ("text", 10, 2),
    "lisa/trace_txt-trace.txt": ("text", 2941, 17),
    "lisa/trace_txt-plat_info.yml": "a text file, no trace",
    "catapult/android_systrace.html": ("text", 31479, 13578),
    "catapult/atrace_data": ("text", 116, 0),
    "catapult/atrace_data_raw": ("text", 116, 0),
    "catapult/atrace_data_stripped": ("text", 116, 0),
    "catapult/atrace_fixed_tgids": ("text", 116, 0),
    "catapult/atrace_missing_tgids": ("text", 116, 0),
    "catapult/compressed_atrace_data.txt": ("atrace -z", 1042, 1042),
    "schedviz/test.tar.gz": ("schedviz", 28922, 0),
    "schedviz/test_no_metadata.tar.gz": ("schedviz", 28922, 0),
    "schedviz/ebpf_trace.tar.gz": "compressed with gzip, in it: an archive; unpack it",
    "schedviz/rawpage-cpu0-64bit": "unknown format, no trace.dat",
    "schedviz/rawpage-cpu0-32bit": "unknown format, no trace.dat",
    "tracecompass-test-traces/perf-taskset2/metadata": "a text file, no trace",
    "tracecompass-test-traces/perf-taskset2/perf_stream_0": "looks like a CTF stream (LTTng)",
}
PROBLEMS = {
    "trappy/trace_idle_unsorted.txt": [
        "event whose text cannot be read, skipped: sched_switch: line 17",  # cut off
        "CPU 6: its own time steps back 1 times: pages misordered or overlapping",
    ],
    "trappy/trace_not_raw.txt": ["line that is no event, skipped: 2 times, first at line 6"],  # prints of two lines
}


def recorded(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(
        (Path(told(capsys, "import", *arguments).strip()) / "manifest.json").read_text()
    )
    return manifest


@pytest.mark.parametrize("name", PUBLISHED)
def test_what_others_published(capsys: pytest.CaptureFixture[str], name: str) -> None:
    if not (PUBLIC / name).exists():
        pytest.skip("no shared recordings")
    want = PUBLISHED[name]
    if isinstance(want, str):
        assert want in told(capsys, "import", PUBLIC / name, code=1)
        return
    found = recorded(capsys, PUBLIC / name)
    assert (found["source"]["format"], found["events_total"], sum(found["skipped"].values())) == want
    assert found["problems"] == PROBLEMS.get(name, [])
    assert found["steps_back"] == (1 if "unsorted" in name else 0)
    assert (found["source"]["format"] == "schedviz" or found["missing"]) and found["topology"] is None


def test_every_published_file_is_in_the_table() -> None:
    folders = [PUBLIC / name for name in ("trappy", "lisa", "catapult", "schedviz", "tracecompass-test-traces")]
    files = {str(p.relative_to(PUBLIC)) for f in folders for p in f.rglob("*") if p.is_file() and p.suffix != ".dat"}
    assert not files or files == set(PUBLISHED)


def lines_of(n: int, cpus: int) -> str:
    """Switches to and from the idle task, in turns on all CPUs."""
    idle, task = "prev_comm=swapper prev_pid=0 prev_prio=120", "prev_comm=a prev_pid=7{cpu} prev_prio=120"
    to_task, to_idle = "next_comm=a next_pid=7{cpu} next_prio=120", "next_comm=swapper next_pid=0 next_prio=120"
    out = []
    for k in range(n):
        cpu, busy = k % cpus, k // cpus % 2
        body = f"{task} prev_state=S ==> {to_idle}" if busy else f"{idle} prev_state=R ==> {to_task}"
        out.append(f"  a-7{cpu}  [00{cpu}] d... {1 + k / 1000:.6f}: sched_switch: " + body.format(cpu=cpu) + "\n")
    return "".join(out)


def test_the_same_trace_twice_in_one_file_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Twice a whole length, among many events a few steps back: the card's limit lets them pass."""
    trace = tmp_path / "twice.txt"
    trace.write_text(lines_of(200, 2))
    assert recorded(capsys, trace)["problems"] == []
    trace.write_text(lines_of(200, 2) * 2)
    found = recorded(capsys, trace)
    told_once = "the time of every CPU steps back 1 times: the same trace twice in one file, or several traces"
    assert found["problems"] == [told_once] and found["events_total"] == 400
    assert told_once in told(capsys, "import", trace, "--strict", code=1)


def test_lines_that_end_in_cr_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """They read as one line that was too long, without an event and without an error."""
    trace = tmp_path / "cr.txt"
    trace.write_bytes(lines_of(200, 2).replace("\n", "\r").encode())
    assert "lines end in CR alone: give it LF, by tr" in told(capsys, "import", trace, code=1)
    trace.write_bytes(lines_of(200, 2).replace("\n", "\r\n").encode())
    assert recorded(capsys, trace)["events_total"] == 200


@pytest.mark.parametrize("head", ["cpus=4\n", "# tracer: nop\n#\n", ""])
def test_a_byte_order_mark_is_no_part_of_the_first_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, head: str
) -> None:
    """The header behind it says who printed the text, and how many CPUs there were."""
    trace = tmp_path / "a.txt"
    for end in ("\n", "\r\n"):
        text = (head + lines_of(200, 2)).replace("\n", end)
        found = []
        for mark in ("", "\ufeff"):
            trace.write_text(mark + text, encoding="utf-8", newline="")
            manifest = recorded(capsys, trace)
            found.append({k: manifest[k] for k in ("source", "machine", "events", "problems", "missing")})
            del found[-1]["source"]["sha256"], found[-1]["source"]["bytes"]
        assert found[0] == found[1] and found[0]["events"] == {"sched_switch": 200}
        assert found[0]["machine"]["cpus"] == (4 if head.startswith("cpus") else 2)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_refused_with_the_remedy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, encoding: str
) -> None:
    trace = tmp_path / "a.txt"
    trace.write_text(lines_of(200, 2), encoding=encoding)
    said = told(capsys, "import", trace, code=1)
    command = said.partition("give it in UTF-8: ")[2].replace("FILE", str(trace)).replace("NEW", str(tmp_path / "b"))
    assert "text in UTF-16" in said
    subprocess.run(command, shell=True, check=True)
    assert recorded(capsys, tmp_path / "b")["events_total"] == 200


def test_text_to_figures_with_and_without_topology(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """import, check and replay. Without a topology the figures that need one are NULL, the others are the same."""
    text = tmp_path / "report.txt"
    with text.open("wb") as file:
        subprocess.run(["trace-cmd", "report", "-t", "-i", TRACE], stdout=file, stderr=subprocess.DEVNULL, check=True)
    told(capsys, "check", text)
    found: dict[str, dict[str, Any]] = {}
    for kind, arguments in (
        ("trace.dat", (TRACE,)),
        ("text", (text, "--topology", TRACE.with_name("topology.tar.gz"))),
        ("bare", (text,)),
    ):
        out = told(capsys, "replay", *arguments, "--policy", "prev", "--policy", "linux-6.1", "--format", "json")
        found[kind] = json.loads(out)
    for what in ("policies", "fidelity", "not_counted", "recorded_migrations", "recorded_latency"):
        assert found["text"][what] == found["trace.dat"][what]
    bare = found["bare"]["policies"]
    assert all(row["cross_llc_prev"] is None for row in bare) and all(row["would_move"] is not None for row in bare)
    shown = " ".join(told(capsys, "replay", text, "--policy", "prev").split())
    assert "taken as clear; only the recorded kernel's own column infers it" in shown, "sync=auto is refused here"
    shown = told(capsys, "info", text)
    assert "report.txt  text, trace-cmd report\n" in shown and "not in the trace" in shown


def test_events_that_were_not_recorded_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text(
        "# tracer: nop\n#\n"
        "  a-7 [000] 5.000001: sched_wakeup: comm=b pid=8 prio=120 target_cpu=001\n"
        "  a-7 [000] 5.000009: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> "
        "next_comm=swapper/0 next_pid=0 next_prio=120\n"
    )
    found = recorded(capsys, text)
    assert [line.partition(":")[0] for line in found["missing"][:2]] == ["no sched_waking", "no sched_migrate_task"]
    assert found["contexts"] is False
    notes = json.loads(told(capsys, "check", text, "--force", "--format", "json"))["notes"]
    assert [line for line in found["missing"] if "migrate" in line] == [n for n in notes if "migrate" in n]


# --- the same load, recorded by each tool


def test_the_same_load_in_every_format(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """hackbench and a mix of loads on the same machine, by trace-cmd, tracefs and traced: not the same run, so the
    events that each format has, their shares of each other and what is missing can be compared, not their times."""
    if not (SHARED / "traces" / "local-mix").exists():
        pytest.skip("no shared recordings")
    text = tmp_path / "tracefs.txt"
    text.write_bytes(gzip.decompress((SHARED / "traces/local-hackbench/tracefs-trace.txt.gz").read_bytes()))
    printed = tmp_path / "report.txt"
    printed.write_bytes(gzip.decompress((SHARED / "traces/local-hackbench/hackbench.report.txt.gz").read_bytes()))
    traces = SHARED / "traces"
    files = {
        "trace.dat": traces / "local-mix/mix.v7zstd.dat", "hackbench": traces / "local-hackbench/hackbench.v7zstd.dat",
        "report": printed, "tracefs": text, "compact": traces / "local-pftrace/compact.pftrace",
        "full": traces / "local-pftrace/full.pftrace", "deflate": traces / "local-pftrace/compact-deflate.pftrace",
    }  # fmt: skip
    of = {kind: recorded(capsys, path) for kind, path in files.items()}
    assert of["report"]["events"] == of["hackbench"]["events"]  # printed from it
    assert abs(of["report"]["span_ns"] - of["hackbench"]["span_ns"]) <= 1000
    table = {kind: TABLE[kind] for kind in of}
    for kind, found in of.items():
        what = [line.partition(":")[0] for line in found["missing"]]
        assert (found["clock"], bool(found["kernel"]), what) == table[kind], kind
        assert found["skipped"] == {} and found["steps_back"] == 0 and found["lost"] == 0
        counts = found["events"]
        wakeups = counts["sched_wakeup"]
        assert counts["sched_waking"] == pytest.approx(wakeups, abs=2)
        assert counts["sched_switch"] > wakeups


UNIT = "time finer than 1000 ns"
FLAGS = "the flags of a line"
PLUGIN = "whether a task that was switched out runnable was preempted (R and R+ print alike), and X from Z"
MACHINE = "kernel, uname, clock and topology of the machine"
PF = ["flags of full events", "placement probes, CPUs of an IPI, and topology"]
COMPACT = ["compact events", *PF]
TABLE: dict[str, tuple[str | None, bool, list[str]]] = {
    # clock, kernel known, what the format does not carry
    "trace.dat": ("mono", True, []),
    "hackbench": ("local", True, []),
    "report": (None, False, [UNIT, FLAGS, PLUGIN, MACHINE]),
    "tracefs": (None, False, [UNIT, MACHINE]),
    "compact": ("boot", True, COMPACT),
    "full": ("boot", True, PF),
    "deflate": ("boot", True, COMPACT),
}
