# SPDX-License-Identifier: GPL-2.0-or-later
"""A trial counts what replaying each candidate on its own would count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewake.forms import ENUMS, Recording, Run, RunWriter, with_null
from rewake.importing import import_trace
from rewake.replay import trial
from rewake.replay.loop import Loop
from rewake.replay.spec import PolicySpec, parse
from rewake.replay.sync import Sites, by_fold, evidence, wakers
from rewake.replay.unseen import FOLDS, fold_of

FIXTURES = Path(__file__).parents[2] / "fixtures"
NAMES = ["linux-4.12", "linux-4.19", "linux-6.1", "linux-6.1:WA_IDLE=0", "linux-6.8", "linux-6.12"]


@pytest.fixture(scope="module", params=["12cpu-buddy-hackbench", "64cpu-8llc-hackbench"])
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("trial")
    return import_trace(FIXTURES / request.param / "trace.dat", None, folder / "a.rewake")


def specs() -> list[PolicySpec]:
    return [spec for name in NAMES for spec in parse(name)]


def alone(recording: Recording, spec: PolicySpec) -> dict[str, Any]:
    """Chosen CPUs of one candidate at all fair wakeups, with WF_SYNC clear and set, and what was recorded."""
    loop = Loop(recording, 0)
    engines = [loop.engine([spec], sync) for sync in (False, True)]
    parts = []
    for _, d in loop.run(engines, irq=False):
        fair = np.isin(d["class"], [0, 1]) & (d["kind"] == ENUMS["decision_kind"].index("wake"))
        columns = {name: with_null(d[name])[0][fair].copy() for name in
                   ("ts_ns", "task", "chosen_cpu", "prev_cpu")}  # fmt: skip
        waker, may = wakers(d, loop.names())
        columns |= {"by": waker[fair], "may": may[fair]}
        for sync, engine in enumerate(engines):
            columns[f"cpu{sync}"] = with_null(engine.ledger(0)["cpu"])[0][fair].copy()
        parts.append(columns)
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def test_counts_are_those_of_each_candidate_alone(recording: Recording, tmp_path: Path) -> None:
    with RunWriter(tmp_path / "t.run", recording) as writer:
        trial.run(recording, specs(), writer)
        block_ns = writer.manifest["block_ns"]
        identical = writer.manifest["identical"]
        writer.commit()
    con = Run(tmp_path / "t.run").connect()
    try:
        found = con.execute("SELECT * FROM trial").fetchall()
    finally:
        con.close()
    table = {(policy, sync, from_ns): counts for policy, sync, from_ns, *counts in found}
    assert len(table) == len(found)
    replayed = {str(spec): alone(recording, spec) for spec in specs()}
    first = min(from_ns for _, _, from_ns in table)
    differ = 0
    chosen: dict[tuple[str, str], Any] = {}
    for name, r in replayed.items():
        agrees = [r[f"cpu{s}"] == r["chosen_cpu"] for s in (0, 1)]
        may = r["may"]
        sites = Sites.of(r["by"], r["task"], Loop(recording, 0).names(), may)
        fold = fold_of(r["ts_ns"], first)
        sync = np.zeros(len(fold), np.bool_)
        for f in range(FOLDS):
            flags = by_fold(sites, evidence(may, *agrees), fold, FOLDS)
            sync[fold == f] = flags.of(f)[fold == f]
        differ += int((agrees[0] != agrees[1]).sum())
        for mode, cpu in (("0", r["cpu0"]), ("1", r["cpu1"]), ("auto", np.where(sync, r["cpu1"], r["cpu0"]))):
            chosen[name, mode] = cpu
    moved = r["chosen_cpu"] != r["prev_cpu"]
    block = (r["ts_ns"] - first) // block_ns
    for (name, mode), cpu in chosen.items():
        telling = moved | np.any([cpu != r["prev_cpu"] for (_, m), cpu in chosen.items() if m == mode], axis=0)
        for b in range(len(table) // len(chosen)):
            here = block == b
            agreed = here & (cpu == r["chosen_cpu"])
            want = [here, here & telling, agreed, here & moved, agreed & moved, here & (cpu != r["prev_cpu"])]
            assert table[name, mode, first + b * block_ns] == [int(x.sum()) for x in want], (name, mode, b)
    assert differ > 0, "a recording at which WF_SYNC matters"
    for group in identical:
        for name in group[1:]:
            for sync in ("cpu0", "cpu1"):
                assert np.array_equal(replayed[name][sync], replayed[group[0]][sync])
    assert sorted(name for group in identical for name in group) == sorted(NAMES)


def test_blocks() -> None:
    assert trial.block_length(20_000_000_000) == trial.BLOCK_NS
    assert trial.block_length(200_000_000) == 10_000_000, "at least 20 blocks"
    assert trial.block_length(1_000_000_000_000) == 1_000_000_000, "at most 1,000"
    assert trial.block_length(1) == 1
