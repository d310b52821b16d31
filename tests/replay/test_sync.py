# SPDX-License-Identifier: GPL-2.0-or-later
"""Inference of WF_SYNC: by the votes of wakeups in other folds, or of earlier ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake import importing
from rewake.forms import ENUMS, Columns
from rewake.replay import probes, sync
from rewake.replay.loop import Loop
from rewake.replay.spec import PolicySpec
from rewake.replay.sync import Sites, by_fold, causal, evidence, wakers

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"
Row = tuple[int, int, bool, bool, bool]
PRO, CONTRA, MUTE = (True, False, True), (True, True, False), (True, True, True)


def run(rows: list[Row], folds: list[int] | None = None, names: list[int] | None = None) -> list[bool]:
    """Rows: waker, wakee, from task context, agrees with the flag clear, set. `folds`: None: causal."""
    columns = list(zip(*rows, strict=True)) or [()] * 5
    waker, wakee = (np.array(c, np.uint32) for c in columns[:2])
    may, clear, set_ = (np.array(c, np.bool_) for c in columns[2:])
    sites = Sites.of(waker, wakee, np.array(names or list(range(9)), np.int64), may)
    votes = evidence(may, clear, set_)
    if folds is None:
        found: list[bool] = causal(sites, votes)[0].tolist()
        return found
    flags = by_fold(sites, votes, np.array(folds, np.int64), max(folds, default=0) + 1)
    return [bool(flags.of(f)[i]) for i, f in enumerate(folds)]


def test_a_relation_takes_what_the_other_folds_say() -> None:
    pro, mute = (1, 2, *PRO), (1, 2, *MUTE)
    assert run([pro, mute], [0, 1]) == [False, True], "never its own fold"
    assert run([mute, mute, pro], [0, 1, 1]) == [True, False, False], "where nobody votes it is clear"
    assert run([pro, (1, 3, *MUTE)], [0, 1])[-1] is True, "without votes the waker's other relations decide"
    assert run([pro, (1, 2, False, False, True)], [0, 1])[-1] is False, "not from interrupts"
    pros, contra = [pro] * 3, [(1, 3, *CONTRA)] * 8
    assert run([*pros, *contra, mute], [0] * 11 + [1])[-1] is True, "the relation's own votes go first"
    assert run([], []) == []


def test_a_softirq_is_its_own_waker_and_a_hardirq_none() -> None:
    task, softirq, hardirq = (ENUMS["irq_ctx"].index(name) for name in ("task", "softirq", "hardirq"))
    columns: Columns = {
        "waker_task": (np.array([1, 2, 1, 0, 0], np.uint32), np.array([False, False, False, True, True])),
        "irq_ctx": (np.array([task, softirq, hardirq, softirq, 0], np.uint8), np.array([False] * 4 + [True])),
    }
    waker, may = wakers(columns, np.arange(10))
    assert may.tolist() == [True, True, False, True, False]
    assert waker[[0, 1, 3]].tolist() == [1, 9, 9]


def test_tasks_of_one_name_speak_for_each_other() -> None:
    rows = [(1, 2, *PRO), (3, 4, *MUTE), (5, 6, *MUTE)]
    assert run(rows, [0, 1, 1], [0, 1, 2, 1, 2, 3, 4, 0, 0])[1:] == [True, False]


def test_causal_votes_come_from_before() -> None:
    pro, mute = (1, 2, *PRO), (1, 2, *MUTE)
    assert run([pro, mute]) == [False, True]
    assert run([mute, pro])[0] is False


rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans(), st.booleans()), max_size=30
)


@given(rows, st.booleans(), st.data())
def test_no_answer_depends_on_its_own_outcome(given_rows: list[Row], by_folds: bool, data: st.DataObject) -> None:
    if not given_rows:
        return
    i = data.draw(st.integers(0, len(given_rows) - 1))
    folds = [data.draw(st.integers(0, 2)) for _ in given_rows] if by_folds else None
    other = list(given_rows)
    other[i] = (*given_rows[i][:3], data.draw(st.booleans()), data.draw(st.booleans()))
    before, after = run(given_rows, folds), run(other, folds)
    if folds is None:
        assert before[: i + 1] == after[: i + 1], "nor does any earlier one"
    else:
        assert [b for b, f in zip(before, folds, strict=True) if f == folds[i]] == [
            a for a, f in zip(after, folds, strict=True) if f == folds[i]
        ], "nor does any other of its fold"


def test_a_table_and_a_sort_number_pairs_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.array([3, 1, 3, 0]), np.array([1, 1, 1, 7])
    dense = sync._numbered(a, b).tolist()
    monkeypatch.setattr(sync, "_DENSE", 0)
    assert dense == sync._numbered(a, b).tolist() == [2, 1, 2, 0]


@pytest.mark.parametrize("mode", ["auto", "causal"])
@pytest.mark.parametrize(("name", "least"), [("probed-split-llc-schbench", 0.999), ("probed-split-llc-hackbench", 0.9)])
def test_against_the_flags_that_probes_saw(name: str, least: float, mode: str, tmp_path: Path) -> None:
    trace = SHARED / name / "trace.dat"
    if not trace.is_file():
        pytest.skip("the shared recordings are not here")
    recording = importing.import_trace(trace, None, tmp_path / "a.rewake")
    inferred = Loop(recording, 0, use_probes=False).infer(PolicySpec("linux-6.12"), mode)
    truth = probes.truth(recording)
    assert truth is not None
    flags, null = truth["wake_flags"]
    asked = ~null & (flags & (probes.WF_FORK | probes.WF_EXEC) == 0) & inferred.told
    assert asked.sum() > 5000
    assert np.mean(inferred.sync[asked] == ((flags[asked] & probes.WF_SYNC) > 0)) >= least
