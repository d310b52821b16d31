# SPDX-License-Identifier: GPL-2.0-or-later
"""Every file of a recording of ../shared/traces: imported, or no trace by its name and refused as what it is.

`meta.json` beside a recording of the lab counts its events by kind, by the recorder's own report: the same numbers.
Those of the local files are what `trace-cmd report` and `perf script` print.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import told

SHARED = Path(__file__).parents[2].parent / "shared" / "traces"
NO_TRACE = {
    # name: what its refusal says
    "meta.json": "looks like JSON", "workload.txt": "a text file, no trace", "overrun.txt": "a text file, no trace",
    "background.txt": "a text file, no trace",
    "topology.tar.gz": "compressed with gzip, in it: an archive",
}  # fmt: skip
LOCAL = {
    # file: format, packed with, events, lost
    "local-hackbench/hackbench.report.txt.gz": ("text", "gzip", 5820, 0),
    "local-hackbench/hackbench.v7zstd.dat": ("trace.dat", None, 5820, 0),
    "local-hackbench/tracefs-trace.txt.gz": ("text", "gzip", 1978, 0),
    "local-mix/mix.v7zstd.dat": ("trace.dat", None, 46669, 0),
    "local-overrun/overrun.v7zstd.dat": ("trace.dat", None, 8825, 168),
    "local-perf/all.perf.data": ("perf.data", None, 8449, 0),
    "local-perf/lost.perf.data": ("perf.data", None, 9901, 595),
    "local-perf/sched.perf.data": ("perf.data", None, 5403, 0),
    "local-perf/zstd.perf.data": ("perf.data", None, 5417, 0),
    "local-pftrace/compact-deflate.pftrace": ("pftrace", None, 15576, 0),
    "local-pftrace/compact.pftrace": ("pftrace", None, 29666, 0),
    "local-pftrace/full.pftrace": ("pftrace", None, 11602, 0),
}
QUICK = 500_000
"""Bytes of the lab's recordings that are imported without --slow."""


def files() -> list[str]:
    return sorted(str(p.relative_to(SHARED)) for p in SHARED.glob("*/*"))


def of_the_lab(name: str) -> bool:
    return Path(name).name not in NO_TRACE and name not in LOCAL


def test_every_file_is_in_a_table() -> None:
    """What is neither named no trace nor one of the local files is the recording of a directory with a meta.json."""
    strange = [n for n in files() if of_the_lab(n) and not (SHARED / n).with_name("meta.json").is_file()]
    assert strange == [] and (not SHARED.exists() or set(LOCAL) <= set(files()))


@pytest.mark.parametrize("name", LOCAL)
def test_local(capsys: pytest.CaptureFixture[str], name: str) -> None:
    if not SHARED.exists():
        pytest.skip("no shared recordings")
    found = json.loads((Path(told(capsys, "import", SHARED / name).strip()) / "manifest.json").read_text())
    source = found["source"]
    assert (source["format"], source["packed"], found["events_total"], found["lost"]) == LOCAL[name]
    assert (
        not any(e in found["skipped"] for e in ("sched_switch", "sched_waking", "sched_wakeup"))
        and found["steps_back"] == 0
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.slow] if (SHARED / n).stat().st_size > QUICK else [])
        for n in files()
        if of_the_lab(n)
    ],
)
def test_of_the_lab(capsys: pytest.CaptureFixture[str], name: str) -> None:
    found = json.loads((Path(told(capsys, "import", SHARED / name).strip()) / "manifest.json").read_text())
    meta = json.loads((SHARED / name).with_name("meta.json").read_text())
    counted = {k.rpartition(":")[2]: n for k, n in meta["event_counts"].items()}
    assert found["events"] == counted
    assert (found["steps_back"], found["lost"]) == (0, meta["lost_events"])


@pytest.mark.parametrize("name", sorted({Path(n).name for n in files()} & set(NO_TRACE)))
def test_what_is_no_trace(capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = next(p for p in sorted(SHARED.glob(f"*/{name}")) if p.stat().st_size)
    assert NO_TRACE[name] in told(capsys, "import", path, code=1)


def test_perf_starts_and_stops_cpu_by_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    """The events of a CPU begin and end while perf is there: outside of what all have nothing contradicts, nothing
    counts. sched_waking alone does not say where a task was put: the reason to refuse, not the contradictions."""
    if not SHARED.exists():
        pytest.skip("no shared recordings")
    path = told(capsys, "import", SHARED / "split-llc-perfsched" / "perf.data").strip()
    found = json.loads((Path(path) / "manifest.json").read_text())
    window = found["window"]
    assert (window["late"], window["cut"]) == (list(range(1, 16)), list(range(15)))
    assert window["begin_ns"] - found["first_ns"] < 10_000_000 and found["last_ns"] - window["end_ns"] < 1_000_000
    assert found["replay"]["resync"] == 0 and found["problems"] == []
    assert "15 decisions outside of the time that all" in told(capsys, "check", path)
    alone = told(capsys, "check", SHARED / "local-perf" / "zstd.perf.data", "--format", "json", code=4)
    failed = [c["name"] for c in json.loads(alone)["checks"] if c["passed"] is False]
    assert failed == ["missing_events"]
