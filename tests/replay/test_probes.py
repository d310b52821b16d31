# SPDX-License-Identifier: GPL-2.0-or-later
"""Placement probes: which call belongs to which decision, what replay takes from it, and from where when it may not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from world import World

from rewake import importing
from rewake.forms import ENUMS, INPUTS, Columns, Recording, with_null
from rewake.replay import _engine, inputs, probes, recorded
from rewake.replay.loop import Loop
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
    chosen, returned = with_null(decision["chosen_cpu"])[0], truth["chosen_cpu"][0]
    assert (chosen[fair] == returned[fair]).mean() > 0.999


@pytest.mark.parametrize(("cpus", "n"), [("", 0), ("3", 1), ("0-15", 16), ("0-3,8,10-11", 7)])
def test_size_of_a_cpu_list(cpus: str, n: int) -> None:
    assert recorded.cpus_in(cpus) == n


def test_a_mask_with_another_number_of_cpus_than_the_probes_saw_is_assumed(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    column = PolicySpec("linux-6.12")
    counts = Loop(recording, 0)._allowed_counts(probes.truth(recording))
    assert {16} in counts.values(), "the workers may use the whole machine"
    bit = 1 << INPUTS.index("allowed")

    def assumed() -> dict[int, bool]:
        loop = Loop(recording, 0)
        engine = loop.engine([column], False, column)
        found: dict[int, bool] = {}
        for _, decisions in loop.run([engine], irq=False):
            bits, undecided = engine.ledger(0)["inputs_assumed"]
            for task, b in zip(np.asarray(decisions["task"])[~undecided], bits[~undecided], strict=True):
                found[int(task)] = found.get(int(task), False) or bool(b & bit)
        return found

    before = assumed()
    worker = next(task for task, is_assumed in before.items() if not is_assumed and counts.get(task) == {16})
    monkeypatch.setattr(Loop, "_allowed_counts", lambda *_: counts | {worker: {16, 6}})
    after = assumed()
    assert after[worker]
    assert {t: v for t, v in after.items() if t != worker} == {t: v for t, v in before.items() if t != worker}


@pytest.mark.parametrize("use_probes", [False, True])
def test_slow_cpus_are_seen_as_early_with_probes_as_without(
    recording: Recording, use_probes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewake.replay.loop._lead", lambda _, n, switched, queued, all_: [(switched, queued)] * n)
    loop = Loop(recording, 0, use_probes=use_probes)
    assert loop.options["lead"] == [(800, 600)] * loop.recorded.n_cpus


def test_recorded_inputs_beat_reconstructed_ones(recording: Recording) -> None:
    column = PolicySpec("linux-6.12")
    agreed = []
    for use_probes in (True, False):
        loop = Loop(recording, 0, use_probes=use_probes)
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
    assert 0.85 < agreed[1] < agreed[0] - 0.04


def test_the_audit_sees_what_the_probes_saw(recording: Recording) -> None:
    found = inputs.inputs(recording, PolicySpec("linux-6.12"))
    assert found is not None
    for name, least in (("recent_cpu", 0.99), ("nallowed", 0.999), ("has_idle_cores", 0.9), ("sync", 0.99)):
        truth, null = found.truth[name]
        known = found.late & ~null
        assert (found.model[name][known] == truth[known]).mean() >= least, name
    assert sum(n for _, n, _ in found.classes) == 22_909


def test_nothing_was_carried_on_to_the_first_probed_value_of_a_task() -> None:
    task, probed = np.array([4, 5, 4, 5, 6, 4]), np.array([False, True, True, True, True, True])
    assert inputs._first_of_each(task, probed).tolist() == [False, True, True, False, True, False]


def test_a_proven_cause_is_one_that_the_probed_value_takes_away(recording: Recording) -> None:
    column = PolicySpec("linux-6.12")
    blind = inputs.account(recording, column, use_probes=False)
    seeing = inputs.account(recording, column, use_probes=True)
    miss = ~blind.agrees
    assert not blind.blame["proven"][~miss].any()
    assert (blind.blame["proven"][miss] != 0).sum() > 500
    assert (blind.blame["placebo_proven"][miss] != 0).sum() < 50
    assert (seeing.blame["proven"] != 0).sum() < 5, "what was recorded is not wrong"
    assert seeing.agrees.sum() > blind.agrees.sum() + 500
    old = inputs.account(recording, PolicySpec("linux-5.4"), use_probes=True)
    assert (old.blame["proven"] != 0).sum() < 5, "load_avg, which was probed, is no load that it compares"
    assert (seeing.agrees <= seeing.blame["among"]).all(), "the order as it stands is one of the orders"


# linux-5.10: what a scan costs is inferred for it (SIS_PROP), in the place of nr_idle_scan.
@pytest.mark.parametrize("own", ["linux-6.12", "linux-5.10"])
@pytest.mark.parametrize("mode", ["auto", "causal"])
@pytest.mark.parametrize("use_probes", [True, False])
def test_no_answer_depends_on_its_own_recorded_outcome(
    recording: Recording, use_probes: bool, mode: str, own: str
) -> None:
    """With WF_SYNC and wakee_flips inferred: another recorded CPU for one decision leaves every answer to it."""
    column = PolicySpec(own)
    specs = [column, *map(PolicySpec, ("prev", "oracle-idle", "userspace-hints", "asym-prefer-prev"))]

    def answers(source: Recording) -> list[np.ndarray[tuple[int], np.dtype[np.uint16]]]:
        loop = Loop(source, 0, use_probes=use_probes)
        unseen = loop.infer(column, mode)
        engine = loop.engine(specs, False, column, unseen.first_flips)
        for _ in loop.run([engine], False, unseen):
            pass
        return [engine.ledger(k)["cpu"][0].copy() for k in range(len(specs))]

    before = answers(recording)
    decisions = recording.read_part("decision", 0)
    fair = np.nonzero(inputs.fair(decisions))[0]
    rng = np.random.default_rng(1)
    for row in rng.choice(fair, 3, replace=False).tolist():
        changed = with_null(decisions["chosen_cpu"])[0].copy()
        changed[row] = (changed[row] + 1 + rng.integers(15)) % 16
        after = answers(Changed(recording, changed))
        assert [a[row] for a in after] == [b[row] for b in before]


class Changed(Recording):
    """A recording in which one decision chose another CPU."""

    def __init__(self, of: Recording, chosen: np.ndarray[tuple[int], np.dtype[np.uint16]]) -> None:
        super().__init__(of.path)
        self.chosen = chosen

    def read_part(self, table: str, index: int, names: Sequence[str] | None = None) -> Columns:
        part = super().read_part(table, index, names)
        if table != "decision" or "chosen_cpu" not in part:
            return part
        return {**part, "chosen_cpu": self.chosen}


def test_without_probes_there_is_no_truth(tmp_path: Path) -> None:
    demo = Path(__file__).resolve().parents[2] / "fixtures" / "demo-split-llc-schbench" / "trace.dat"
    assert probes.truth(importing.import_trace(demo, None, tmp_path / "a.rewake")) is None


class OfAnotherKernel(Recording):
    """Its probes fetched something else in the place of the task's number."""

    def read_part(self, table: str, index: int, names: Sequence[str] | None = None) -> Columns:
        part = super().read_part(table, index, names)
        return {**part, "task": with_null(part["task"])[0] + np.uint32(1000)} if table == "probe" else part


def test_probes_of_another_kernel_are_told_by_whom_they_name(recording: Recording) -> None:
    assert probes.foreign(recording) is None
    why = probes.foreign(OfAnotherKernel(recording.path))
    assert why is not None and "only 0 are for the task that is woken there" in why


class WithoutWaking(Recording):
    def read_part(self, table: str, index: int, names: Sequence[str] | None = None) -> Columns:
        part = super().read_part(table, index, names)
        return {name: column[:0] for name, column in part.items()} if table == "waking" else part


def test_where_no_wakeup_is_announced_nothing_is_said_of_probes(recording: Recording) -> None:
    assert probes.foreign(WithoutWaking(recording.path)) is None


@pytest.mark.skipif(not SCHBENCH.is_file(), reason="the shared recordings are not here")
def test_what_probes_of_another_kernel_fetched_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "foreign", lambda source: "of another kernel")
    plain = importing.import_trace(SCHBENCH, None, tmp_path / "a.rewake")
    assert (plain.rows("probe"), probes.truth(plain)) == (0, None)
    assert "of another kernel" in plain.manifest["problems"]
    assert (np.asarray(plain.read("decision", ("class",))["class"]) < 2).sum() > 1000, "they take part in no decision"


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


@pytest.mark.parametrize(("by", "expected"), [(1, "maybe_on_cpu"), (0, "bypass_on_rq")])
def test_a_wakeup_without_a_call_of_a_task_that_leaves_its_cpu_is_on_its_wake_list(by: int, expected: str) -> None:
    """`by`: the CPU that queues it: its own, from the wake list, or the waker's, where it never was off the queue."""
    w = world_with_a_call(8).runs(64_000, 1, 1, 8, "R")
    w.waking(89_000, 0, 8, 1, curr=10).runs(90_000, 1, 8, 1).wakeup(91_000, by, 8, 1, curr=1 if by else 10)
    assert [r["class"] for r in w.decisions((6, 12)).rows()][-1] == expected


def test_a_cpu_that_its_task_leaves_is_not_idle_where_that_is_on_its_wake_list() -> None:
    w = World(4, 12)
    w.runs(1000, 1, 1, 8, "R").runs(1100, 0, 0, 10, "R").runs(1200, 2, 2, 11, "R").runs(1300, 3, 3, 7, "R")
    w.waking(50_000, 0, 8, 1, curr=10).runs(51_000, 1, 8, 1)
    w.waking(52_000, 2, 9, 1, curr=11).wakeup(52_500, 1, 8, 1).wakeup(54_000, 1, 9, 1)
    decisions = w.decisions((6, 1))
    assert [r["class"] for r in decisions.rows()] == ["maybe_on_cpu", "stayed"]
    for seen in (True, False):  # without probes it may as well have waited for the CPU's lock, and be placed then
        options = {
            "sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0, "settle": [10_000, 0, 0, 0],
            "calls_seen": seen,
        }  # fmt: skip
        specs = [("oracle-idle", {})]
        loop = _engine.OpenLoop(decisions.recorded, specs, 0, options, [], [], World.running(decisions.batches))
        loop.run(decisions.batches[0], None, decisions.parts[0])
        assert bool(int(loop.ledger(0)["outcome"][0][1]) & 1) != seen


def test_a_task_that_runs_when_it_is_woken_is_searched_for_once_it_has_left_its_cpu() -> None:
    """It leaves 1 us after its sched_waking; CPU 2 goes idle 4.5 us after that, and a search takes 4."""
    w = World(4, 12)
    w.runs(1000, 1, 1, 8, "R").runs(1100, 0, 0, 10, "R").runs(1200, 2, 2, 9, "R").runs(1300, 3, 3, 7, "R")
    w.waking(50_000, 0, 8, 1, curr=10).runs(51_000, 1, 8, 11).runs(54_500, 2, 9, 2)
    w.migrate(58_000, 0, 8, 1, 2, curr=10).wakeup(59_000, 2, 8, 2)
    decisions = w.decisions((6, 1))
    options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0, "settle": [4_000] * 4}
    loop = _engine.OpenLoop(
        decisions.recorded, [("oracle-idle", {})], 0, options, [], [], World.running(decisions.batches)
    )
    loop.run(decisions.batches[0], None, decisions.parts[0])
    assert int(loop.ledger(0)["cpu"][0][0]) == 2


@pytest.mark.parametrize("settle", [0, 4_000])
def test_a_task_that_runs_when_it_is_woken_finds_the_cpu_idle_that_it_leaves(settle: int) -> None:
    """Where a recording does not tell how long placement takes, too."""
    w = World(4, 12)
    w.runs(1000, 1, 1, 8, "R").runs(1100, 0, 0, 10, "R").runs(1200, 2, 2, 9, "R").runs(1300, 3, 3, 7, "R")
    w.waking(50_000, 0, 8, 1, curr=10).runs(51_000, 1, 8, 1).wakeup(59_000, 0, 8, 1)
    decisions = w.decisions((6, 1))
    options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0, "settle": [settle] * 4}
    specs = [("oracle-idle", {})]
    loop = _engine.OpenLoop(decisions.recorded, specs, 0, options, [], [], World.running(decisions.batches))
    loop.run(decisions.batches[0], None, decisions.parts[0])
    assert int(loop.ledger(0)["outcome"][0][0]) & 1


def test_a_wakeup_is_decided_when_its_placement_ends() -> None:
    """CPU 1 goes idle 2 us after the waking: placement that takes longer finds it so."""
    w = World(4, 12)
    w.runs(1000, 1, 8, 11, "S").runs(1100, 0, 0, 10, "R").runs(1200, 2, 2, 9, "R").runs(1300, 3, 3, 7, "R")
    w.waking(50_000, 0, 8, 1, curr=10).runs(52_000, 1, 11, 1).wakeup(58_000, 1, 8, 1)
    decisions = w.decisions((6, 1))
    picked = []
    for settle in (0, 4_000, 40_000):
        options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0, "settle": [settle] * 4}
        specs = [("oracle-idle", {})]
        loop = _engine.OpenLoop(decisions.recorded, specs, 0, options, [], [], World.running(decisions.batches))
        loop.run(decisions.batches[0], None, decisions.parts[0])
        picked.append(int(loop.ledger(0)["outcome"][0][0]) & 1)
    assert picked == [0, 1, 1], "at the latest its own sched_wakeup says that it is over"


@pytest.mark.parametrize(("lead", "idle"), [([], 0), ([0, 300, 0, 0], 0), ([0, 400, 0, 0], 1), ([400, 0, 400, 400], 0)])
def test_that_a_slow_cpu_goes_idle_is_seen_before_its_event(lead: list[int], idle: int) -> None:
    """It does 350 ns after the search."""
    w = World(4, 12)
    w.runs(1000, 1, 8, 11, "S").runs(1100, 0, 0, 10, "R").runs(1200, 2, 2, 9, "R").runs(1300, 3, 3, 7, "R")
    w.waking(50_000, 0, 8, 1, curr=10).runs(54_350, 1, 11, 1).wakeup(58_000, 1, 8, 1)
    decisions = w.decisions((6, 1))
    options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0, "settle": [4_000] * 4}
    options |= {"lead": [(ns, 0) for ns in lead]}
    specs = [("oracle-idle", {})]
    loop = _engine.OpenLoop(decisions.recorded, specs, 0, options, [], [], World.running(decisions.batches))
    loop.run(decisions.batches[0], None, decisions.parts[0])
    assert int(loop.ledger(0)["outcome"][0][0]) & 1 == idle
