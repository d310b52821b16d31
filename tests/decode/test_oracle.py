# SPDX-License-Identifier: GPL-2.0-or-later
"""Event for event what libtracecmd reads: written files, fixtures, foreign files, shared recordings where there are."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tracedat
from decode.reading import SHARED, STATES, Reference, count, decode, in_order, oracle_records, same

ROOT = Path(__file__).parents[2]
FIXTURES = sorted(ROOT.glob("fixtures/*/trace.dat"))
RECORDINGS = sorted(SHARED.glob("traces/*/trace.dat"))
FOREIGN = sorted([*SHARED.glob("traces/local-*/*.dat"), *SHARED.glob("public/traces/*/*.dat")])
KINDS: dict[str, dict[str, Any]] = {
    "v6": {"version": 6}, "v7": {"version": 7}, "v7-zstd": {"version": 7, "compression": "zstd"},
}  # fmt: skip


def label(path: Path) -> str:
    return path.parent.name


def check(oracle: Path, path: Path) -> None:
    got = decode(path)
    assert got.end["problems"] == []
    assert got.end["steps_back"] == 0
    same(got, Reference(got.header["cpus"]).run(in_order(oracle_records(oracle, path))))


@pytest.mark.parametrize("long_size", [4, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_written_files(tmp_path: Path, oracle: Path, kind: str, long_size: int) -> None:
    path = tmp_path / "trace.dat"
    machine = tracedat.Machine(3, long_size)
    tracedat.write(path, tracedat.schedule(20_000, 3), machine=machine, **KINDS[kind])
    check(oracle, path)


@pytest.mark.parametrize("kind", KINDS)
def test_big_endian_files(tmp_path: Path, oracle: Path, kind: str) -> None:
    path = tmp_path / "trace.dat"
    tracedat.write(
        path, tracedat.schedule(5_000, 2, block=1000), machine=tracedat.Machine(2, endian=">"), **KINDS[kind]
    )
    check(oracle, path)


def test_shuffled_fields(tmp_path: Path, oracle: Path) -> None:
    path = tmp_path / "trace.dat"
    fmts = tracedat.formats(shuffle=random.Random(5))
    tracedat.write(path, tracedat.schedule(5_000, 2, block=1000), fmts=fmts)
    check(oracle, path)


@pytest.mark.parametrize("path", FIXTURES, ids=label)
def test_fixtures(oracle: Path, path: Path) -> None:
    check(oracle, path)


@pytest.mark.parametrize("path", RECORDINGS, ids=label)
def test_shared_recordings(path: Path) -> None:
    meta = json.loads(path.with_name("meta.json").read_text())
    end = count(path)
    assert end["event_counts"] == meta["event_counts"]
    assert sum(cpu["lost"] for cpu in end["lost"]) == meta["lost_events"]
    assert end["problems"] == [] and end["steps_back"] == 0
    assert end["events"] == end["rows"] == meta["events_in_file"]


@pytest.mark.parametrize("path", [p for p in RECORDINGS if p.stat().st_size < 500_000], ids=label)
def test_shared_recordings_event_for_event(oracle: Path, path: Path) -> None:
    check(oracle, path)


@pytest.mark.parametrize("path", FOREIGN, ids=lambda p: p.stem)
def test_foreign_files(oracle: Path, path: Path) -> None:
    """Other people's kernels: older letters of prev_state, other events, real losses."""
    records = in_order(oracle_records(oracle, path))
    got = decode(path)
    assert got.end["problems"] == []
    same(got, Reference(got.header["cpus"], state=letters(path.stem)).run(records))


# The bit that prints "+", from the format of each old kernel; 3.x to 4.13 also have Z and X the other way round.
PREEMPTED = {"example_rtapp-trace": 2048, "sched_load-trace": 4096, "elainecole.v7.zstd": 4096}
OLD_BITS = {1: "S", 2: "D", 4: "T", 8: "t", 16: "Z", 32: "X", 64: "X", 512: "P"}


def letters(stem: str) -> Callable[[int], str]:
    """Letters of prev_state, as the kernel of a file printed them."""
    plus = PREEMPTED.get(stem, 1024 if stem.startswith("trappy") else 256)
    bits = (
        OLD_BITS if plus != 256 and not stem.startswith("elaine") else {k: v for k, v in STATES.items() if 0 < k < 256}
    )

    def letter(v: int) -> str:
        if v & plus:
            return "R+"
        return "R" if v == 0 else next(s for b, s in bits.items() if v & b)

    return letter
