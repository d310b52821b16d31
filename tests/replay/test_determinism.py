# SPDX-License-Identifier: GPL-2.0-or-later
"""The same recording, policies and seed give the same bytes: on a second run, in another process, at any thread count.

With --slow over every shared recording and every policy. As a program (RECORDING RUN THREADS) it is the other process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from rewake import runs
from rewake.analysis import identify, jsonout, quality, report, sql
from rewake.errors import TraceError
from rewake.forms import Recording, Run, RunWriter
from rewake.importing import import_trace
from rewake.replay import driver, trial
from rewake.replay.spec import PolicySpec, parse

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = [ROOT / "fixtures" / name / "trace.dat" for name in ("12cpu-buddy-hackbench", "64cpu-8llc-hackbench")]
SHARED = sorted(p for p in (ROOT.parent / "shared" / "traces").glob("*/*") if p.suffix in (".dat", ".data", ".pftrace"))


def run_all(recording: Path, out: Path, threads: int) -> None:
    """Every policy there is, WF_SYNC inferred from a column (so that the inference takes part), and a trial."""
    known = runs.policies()
    opened = Recording(recording, threads)
    with RunWriter(out, opened, threads) as writer:
        specs = [PolicySpec(name) for name in known]
        driver.replay(opened, specs, writer, seed=5, sync="auto", auto=PolicySpec("linux-6.1"))
        writer.commit()
    with RunWriter(out.with_suffix(".trial.run"), opened, threads) as writer:
        candidates = identify.candidates(runs.parameters_of(known))[::7]
        trial.run(opened, [spec for text in candidates for spec in parse(text)], writer)
        writer.commit()


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def told(path: Path, threads: int) -> str:
    """The report as JSON: what the queries make of the ledgers."""
    run = Run(path, threads)
    con = run.connect()
    try:
        card = quality.assess(run.recording)
        found = report.build(con, run.manifest, name="x", kernel=None, quality=card)
        rows = [jsonout.rows(sql.run(con, name)) for name in ("scan/cost", "population/by_class", "fidelity/branches")]
    finally:
        con.close()
    return jsonout.dumps([found.plain(), rows])


def same(trace: Path, folder: Path) -> int:
    """Imports and replays in several ways; returns the number of decisions."""
    try:
        first = import_trace(trace, None, folder / "a.rewake")
    except TraceError as error:
        if "not supported yet" in str(error):
            pytest.skip(str(error))
        raise
    import_trace(trace, None, folder / "b.rewake")
    assert bytes_of(folder / "a.rewake") == bytes_of(folder / "b.rewake")
    run_all(first.path, folder / "one.run", 1)
    run_all(first.path, folder / "two.run", 2)
    env = os.environ | {"PYTHONHASHSEED": "77", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, __file__, first.path, folder / "other.run", "1"], env=env, check=True)
    for kind in ("run", "trial.run"):
        one = bytes_of(folder / f"one.{kind}")
        assert one
        for name in ("two", "other"):
            assert one == bytes_of(folder / f"{name}.{kind}"), f"{kind} {name}"
    assert told(folder / "one.run", 1) == told(folder / "one.run", 2)
    return first.rows("decision")


@pytest.mark.parametrize("trace", FIXTURES, ids=lambda p: p.parent.name)
def test_the_same_bytes_again(trace: Path, tmp_path: Path) -> None:
    assert same(trace, tmp_path) > 100


@pytest.mark.slow
@pytest.mark.parametrize("trace", SHARED, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_the_same_bytes_again_for_every_shared_recording(trace: Path, tmp_path: Path) -> None:
    assert same(trace, tmp_path) > 0


def main(arguments: Sequence[str]) -> None:
    recording, out, threads = arguments
    run_all(Path(recording), Path(out), int(threads))


if __name__ == "__main__":
    main(sys.argv[1:])
