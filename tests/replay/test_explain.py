# SPDX-License-Identifier: GPL-2.0-or-later
"""Explanations: what they say is what the ledger says, and listening changes nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from world import World, schedules

from rewake import importing
from rewake.analysis import inputs
from rewake.analysis.explain import TURNED, body
from rewake.errors import UsageError
from rewake.forms import ENUMS, FAIR_CLASSES, INPUTS, Recording, with_null
from rewake.replay import _engine
from rewake.replay.explain import explain
from rewake.replay.loop import Loop
from rewake.replay.spec import PolicySpec
from rewake.replay.unseen import Unseen

FIXTURES = Path(__file__).parents[2] / "fixtures"
POLICIES: dict[str, dict[str, Any]] = {p["name"]: p for p in _engine.policies()}
SPECS = [
    *map(PolicySpec, POLICIES),
    PolicySpec("userspace-hints", {"hint": "4"}),
    PolicySpec("wakeup-buddy", {"ref": "1"}),
]
SAMPLE = 300
EXEC = ENUMS["decision_kind"].index("exec")


@pytest.fixture(scope="module", params=["demo-split-llc-schbench", "12cpu-buddy-hackbench"])
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp(request.param)
    return importing.import_trace(FIXTURES / request.param / "trace.dat", out=folder / "a.rewake")


def ledger_of(engine: _engine.OpenLoop, k: int) -> dict[str, Any]:
    """Columns with None where they are NULL."""
    return {name: np.where(null, None, values) for name, (values, null) in engine.ledger(k).items()}


def sample(recording: Recording) -> list[int]:
    """Decisions that policies are asked about, and some that they are not."""
    classes = np.asarray(recording.read("decision", ("class",))["class"])
    fair = np.flatnonzero(classes < len(FAIR_CLASSES)).tolist()
    rest = np.flatnonzero(classes >= len(FAIR_CLASSES)).tolist()
    dice = random.Random(1)
    return sorted(dice.sample(fair, min(SAMPLE, len(fair))) + dice.sample(rest, min(SAMPLE // 5, len(rest))))


def test_explanations_are_the_ledger(recording: Recording) -> None:
    """Several hundred decisions, every policy: decided by an engine that listens and by one that does not."""
    chosen = sample(recording)
    event_ids = np.asarray(recording.read("decision", ("event_id",))["event_id"])
    loop = Loop(recording, 0)
    plain, listening = loop.engine(SPECS, False), loop.engine(SPECS, False)
    listening.watch([int(event_ids[i]) for i in reversed(chosen)])
    first, told = 0, 0
    branches: set[str] = set()
    for _, decisions in loop.run([plain, listening], irq=True):
        rows = len(decisions["event_id"])
        here = {int(event_ids[i]): i - first for i in chosen if first <= i < first + rows}
        explained = {e["event_id"]: e["policies"] for e in listening.explanations()[told:]}
        told += len(explained)
        assert set(explained) <= set(here)
        for k, spec in enumerate(SPECS):
            ledger, again = ledger_of(plain, k), ledger_of(listening, k)
            for name, column in ledger.items():
                assert np.array_equal(column, again[name]), f"{spec}: listening changes {name}"
            for event, row in here.items():
                want = {name: column[row] for name, column in ledger.items()}
                if event not in explained:
                    assert want["cpu"] is None
                    continue
                p = explained[event][k]
                assert p["cpu"] == want["cpu"], (spec, event)
                assert p["decided"] == (want["cpu"] is not None)
                if not p["decided"]:
                    continue
                assert p["branch"] == _engine.BRANCHES[want["branch"]]
                assert p["cpus_scanned"] == want["cpus_scanned"]
                assert p["assumed"] == want["inputs_assumed"]
                branches.add(p["branch"])
                if not POLICIES[spec.name]["reference"]:
                    assert all(step["reasons"] for step in p["steps"]), "every step tells a reason"
                    ends = 1 if decisions["kind"][row] == EXEC else 2  # an exec is not checked by the core
                    assert sum(s["decided"] for s in p["steps"]) == ends
        first += rows
    assert told >= SAMPLE
    assert {"X1", "X2", "SCAN", "RING", "TARGET"} <= branches


def test_one_decision_is_explained_as_the_run_decides_it(recording: Recording) -> None:
    specs = [PolicySpec("linux-6.1"), PolicySpec("random-idle")]
    loop = Loop(recording, 7)
    engine = loop.engine(specs, True)
    _, decisions = next(iter(loop.run([engine], irq=False)))
    fair = [i for i, c in enumerate(decisions["class"]) if c < 2 and decisions["kind"][i] == 0]
    ledgers = [ledger_of(engine, k)["cpu"].copy() for k in range(2)]
    for i in (fair[0], fair[len(fair) // 2], fair[-1]):
        found = explain(recording, i, specs, seed=7, sync="1")
        assert found is not None and found["wakeup"]["sync"] is True
        assert [p["cpu"] for p in found["policies"]] == [ledger[i] for ledger in ledgers]
    inferred = explain(recording, fair[0], specs, sync="auto", auto=specs[0])
    assert inferred is not None
    with pytest.raises(UsageError, match="needs the recorded kernel's own column"):
        explain(recording, fair[0], specs, sync="auto")
    with pytest.raises(UsageError, match=f"decisions 0 to {recording.rows('decision') - 1}"):
        explain(recording, recording.rows("decision"), specs)


@settings(max_examples=40)
@given(schedules(), st.booleans(), st.booleans())
def test_steps_look_only_at_inputs_that_they_declare(world: World, asymmetric: bool, sync: bool) -> None:
    if not world.events:
        return
    if asymmetric:
        for cpu in world.cpus[: world.n_cpus // 2]:
            cpu["capacity"] = 512
    decisions = world.decisions()
    options = {"sync": sync, "hz": 250, "migration_cost": 500_000, "inferred": (1 << len(INPUTS)) - 1}
    names = list(POLICIES)
    specs: list[tuple[str, dict[str, str]]] = [(name, {}) for name in names]
    engine = _engine.OpenLoop(decisions.recorded, specs, 0, options, [], [], World.running(decisions.batches))
    engine.watch([row["event_id"] for row in decisions.rows()])
    for batch, ahead, part in zip(decisions.batches, [*decisions.batches[1:], None], decisions.parts, strict=True):
        engine.run(batch, ahead, part)
    for explained in engine.explanations():
        for name, p in zip(names, explained["policies"], strict=True):
            if POLICIES[name]["reference"]:
                continue
            undeclared = p["looked"] & ~POLICIES[name]["inputs"]
            assert not undeclared, (name, [i.name for i in inputs.of(undeclared)])


def test_each_pass_of_irq_aware_says_that_it_found_none() -> None:
    """That no CPU is idle stood there twice, where the steps of one branch are told in a row."""
    w = World(4, 14, smt=2)
    for cpu in range(4):
        w.runs(1000 + cpu, cpu, cpu, 10 + cpu, "R")
    w.runs(2000, 1, 11, 8, "R").runs(2100, 1, 8, 11)
    w.waking(10_000, 0, 8, 1, curr=10).wakeup(10_200, 1, 8, 1)
    decisions = w.decisions((4, 12))
    options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0}
    specs = [("irq-aware", {}), ("irq-aware@linux-6.1", {})]
    engine = _engine.OpenLoop(decisions.recorded, specs, 0, options, [], [], World.running(decisions.batches))
    engine.watch([row["event_id"] for row in decisions.rows()])
    engine.run(decisions.batches[0], None, decisions.parts[0])
    (explained,) = engine.explanations()
    found = [[r for s in p["steps"] for r in s["reasons"] if "no CPU is idle" in r] for p in explained["policies"]]
    assert found == [
        ["CPU pass: no CPU is idle", "sibling pass: no CPU is idle"],
        ["siblings of prev: no CPU is idle", "scan: no CPU is idle"],
    ]


def test_every_input_is_described() -> None:
    assert tuple(inputs.BY_NAME) == INPUTS
    words = {"recorded", "reconstructed", "inferred", "modelled"}
    for found in [*inputs.BY_NAME.values(), *inputs.ALWAYS]:
        assert {found.known, found.assumed or found.known} <= words


def test_an_order_that_was_inferred_is_said(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the machine is shown as the policies saw it."""
    column = PolicySpec("linux-6.1")
    decision = recording.read("decision", ("class", "prev_cpu", "waker_cpu"))
    prev, waker = (with_null(decision[name])[0] for name in ("prev_cpu", "waker_cpu"))
    row = int(np.flatnonzero((with_null(decision["class"])[0] == 0) & (prev != waker))[0])

    def seen(turned: bool) -> tuple[bool, dict[str, Any]]:
        n = recording.rows("decision")
        where = np.arange(n) == row
        given = Unseen(np.zeros(n, np.bool_), np.ones(n, np.bool_), turned=where if turned else None)
        monkeypatch.setattr(Loop, "infer", lambda *_: given)
        told = explain(recording, recording.first_decision + row, [column], sync="auto", auto=column)
        assert told is not None
        return int(prev[row]) in told["machine"]["idle"], told

    as_recorded, plain = seen(False)
    otherwise, told = seen(True)
    assert otherwise != as_recorded
    assert (plain["turned"], told["turned"]) == (False, True)
    about = [POLICIES["linux-6.1"]]
    notes = [
        body({"class": "moved", "chosen_cpu": 0}, x, ["linux-6.1"], about, sync="auto", auto="linux-6.1")["notes"]
        for x in (plain, told)
    ]
    assert notes == [[], [TURNED]]


PROBED = Path(__file__).parents[3] / "shared" / "traces" / "probed-12cpu-messaging" / "trace.dat"


@pytest.mark.skipif(not PROBED.exists(), reason="no shared recordings")
def test_what_probes_recorded_is_no_assumption(tmp_path: Path) -> None:
    recording = importing.import_trace(PROBED, out=tmp_path / "a.rewake")
    specs = [PolicySpec("linux-7.2"), PolicySpec("idle-thread-scan")]
    loop = Loop(recording, 0)
    engine = loop.engine(specs, False, specs[0])
    chosen = sample(recording)[::3]
    event_ids = np.asarray(recording.read("decision", ("event_id",))["event_id"])
    engine.watch([int(event_ids[i]) for i in chosen])
    first, told, recorded = 0, 0, 0
    for _, decisions in loop.run([engine], irq=True):
        rows = len(decisions["event_id"])
        explained = {e["event_id"]: e["policies"] for e in engine.explanations()[told:]}
        told += len(explained)
        for k in range(len(specs)):
            assumed, cpu = (ledger_of(engine, k)[name] for name in ("inputs_assumed", "cpu"))
            for row in (i - first for i in chosen if first <= i < first + rows):
                event = int(event_ids[first + row])
                if event in explained and cpu[row] is not None:
                    assert explained[event][k]["assumed"] == assumed[row]
                    recorded += not assumed[row] & 1 << INPUTS.index("flips")
        first += rows
    assert recorded > 50
