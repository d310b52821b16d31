# SPDX-License-Identifier: GPL-2.0-or-later
"""Placement probes: which call belongs to which decision, what replay takes from it, and from where when it may not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from world import World

from rewake import importing
from rewake.forms import ENUMS, INPUTS, Recording
from rewake.replay import driver, probes
from rewake.replay.spec import PolicySpec

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"
SCHBENCH = SHARED / "probed-split-llc-schbench" / "trace.dat"
CLASS = ENUMS["decision_class"].index


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    if not SCHBENCH.is_file():
        pytest.skip("the shared recordings are not here")
    return importing.import_trace(SCHBENCH, None, tmp_path_factory.mktemp("probed") / "a.rewake")


def test_every_call_belongs_to_one_decision_and_returned_what_was_chosen(recording: Recording) -> None:
    truth = probes.truth(recording)
    assert truth is not None
    decision = recording.read("decision")
    ids, null = truth["probe_id"]
    assert (~null).sum() == recording.rows("probe") // 2
    assert len(np.unique(ids[~null])) == (~null).sum()
    fair = np.isin(decision["class"], [CLASS("moved"), CLASS("stayed")])
    assert not null[fair].any(), "a wakeup counts as placed only where the placement function was called"
    chosen, returned = driver._with_null(decision["chosen_cpu"])[0], truth["chosen_cpu"][0]
    assert (chosen[fair] == returned[fair]).mean() > 0.999


def test_recorded_inputs_beat_reconstructed_ones(recording: Recording) -> None:
    column = PolicySpec("linux-6.12")
    agreed = []
    for use_probes in (True, False):
        loop = driver.Loop(recording, 0, use_probes=use_probes)
        engine = loop.engine([column], False, column)
        known, bits = [], []
        for _, _ in loop.run([engine], irq=False):
            ledger = engine.ledger(0)
            decided = ~ledger["known"][1]
            known.append(ledger["known"][0][decided].copy())
            bits.append(ledger["inputs_assumed"][0][decided].copy())
        agreed.append(float(np.concatenate(known).mean()))
        assumed = np.concatenate(bits)
        sync = (assumed >> INPUTS.index("sync")) & 1
        assert bool(sync.any()) is not use_probes, "wake flags are recorded, so WF_SYNC is not assumed"
    assert agreed[0] > 0.96
    assert 0.9 < agreed[1] < agreed[0] - 0.04


def test_without_probes_there_is_no_truth(tmp_path: Path) -> None:
    demo = Path(__file__).resolve().parents[2] / "fixtures" / "demo-split-llc-schbench" / "trace.dat"
    assert probes.truth(importing.import_trace(demo, None, tmp_path / "a.rewake")) is None


def world_with_a_call(task: int | None) -> World:
    """8 sleeps on CPU 1 and is woken from CPU 0, in between a call of the placement function for `task`."""
    w = World(4, 12)
    w.runs(1000, 1, 8, 1).runs(1100, 0, 0, 10, "R").waking(50_000, 0, 8, 1, curr=10)
    if task is not None:
        w.add("probe", 51_000, 0, phase=0, task=task, curr_task=10).add("probe", 52_000, 0, phase=1, curr_task=10)
    w.wakeup(53_000, 0, 8, 1, curr=10)
    w.waking(60_000, 0, 9, 2, curr=10).add("probe", 61_000, 0, phase=0, task=9, curr_task=10)
    return w.add("probe", 62_000, 0, phase=1, curr_task=10).wakeup(63_000, 0, 9, 2, curr=10)


@pytest.mark.parametrize(("task", "expected"), [(8, "stayed"), (9, "stayed"), (None, "stayed")])
def test_before_the_first_call_nothing_is_said(task: int | None, expected: str) -> None:
    assert world_with_a_call(task).decisions((6, 12)).rows()[0]["class"] == expected


def test_a_wakeup_without_a_call_did_not_reach_placement() -> None:
    w = world_with_a_call(8)
    w.runs(64_000, 1, 1, 8, "R").runs(65_000, 1, 8, 1)
    w.waking(90_000, 0, 8, 1, curr=10).wakeup(91_000, 0, 8, 1, curr=10)
    classes = [r["class"] for r in w.decisions((6, 12)).rows()]
    assert classes == ["stayed", "stayed", "bypass_on_rq"]
