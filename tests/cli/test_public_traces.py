# SPDX-License-Identifier: GPL-2.0-or-later
"""Every published trace.dat imports: records, CPUs and decisions of each. Skipped where the files are absent.

The numbers of records are those that `trace-cmd report` prints.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from command import told

from rewake.forms import RECORDING_TABLES, Recording

PUBLIC = Path(__file__).parents[2].parent / "shared" / "public" / "traces"
FOLDERS = ("lisa", "derived-v7")

# (records, of events without a table, CPUs, version, compression, decisions)
EXPECTED = {
    "lisa/example_rtapp-trace.dat": (7820, 6256, 6, 6, "none", 0),
    "lisa/sched_load-trace.dat": (3724, 2807, 6, 6, "none", 6),
    "derived-v7/elainecole.v7.zstd.dat": (4427, 0, 4, 7, "zstd", 0),
    "derived-v7/trappy-870cec7b.v7.none.dat": (59176, 57922, 8, 7, "none", 417),
    "derived-v7/trappy-870cec7b.v7.zstd.dat": (59176, 57922, 8, 7, "zstd", 417),
}
FILES = sorted(p for folder in FOLDERS for p in PUBLIC.glob(f"{folder}/*.dat"))


def imported(path: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> Recording:
    told(capsys, "import", path, "-o", place / f"{path.stem}.rewake")
    return Recording(place / f"{path.stem}.rewake")


def test_the_table_has_every_file() -> None:
    if not FILES:
        pytest.skip("no published traces here")
    assert {str(p.relative_to(PUBLIC)) for p in FILES} == set(EXPECTED)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_published(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = imported(path, tmp_path, capsys).manifest
    records, skipped, cpus, version, compression, decisions = EXPECTED[str(path.relative_to(PUBLIC))]
    assert (said["events_total"], sum(said["skipped"].values())) == (records, skipped)
    source = said["source"]
    assert (said["machine"]["cpus"], source["version"], source["compression"]) == (cpus, version, compression)
    assert (said["lost"], said["steps_back"], said["problems"]) == (0, 0, [])
    rows = {t: sum(n) if isinstance(n, list) else n for t, n in said["rows"].items()}
    wakeups = said["events"].get("sched_waking", 0) + said["events"].get("sched_wakeup", 0)
    assert rows["decision"] == decisions
    if wakeups == 0:  # forks and execs are decisions, too; the quality card says which events to record
        card = json.loads(told(capsys, "check", tmp_path / f"{path.stem}.rewake", "--format", "json", code=4))
        assert {c["name"]: c["passed"] for c in card["checks"]}["missing_events"] is False


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_records_as_trace_cmd_counts_them(path: Path) -> None:
    if shutil.which("trace-cmd") is None:
        pytest.skip("no trace-cmd")
    done = subprocess.run(["trace-cmd", "report", path], capture_output=True, check=True)
    lines = sum(b": " in line for line in done.stdout.splitlines())
    assert lines == EXPECTED[str(path.relative_to(PUBLIC))][0]


def test_compressed_is_as_uncompressed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = [PUBLIC / "derived-v7" / f"trappy-870cec7b.v7.{kind}.dat" for kind in ("none", "zstd")]
    if not all(p.exists() for p in pair):
        pytest.skip("no published traces here")
    plain, packed = (imported(p, tmp_path, capsys) for p in pair)
    for table in RECORDING_TABLES:
        one, two = plain.read(table), packed.read(table)
        for name in one:
            a, b = (c[name] if isinstance(c[name], tuple) else (c[name],) for c in (one, two))
            assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True)), (table, name)
