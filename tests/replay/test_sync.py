# SPDX-License-Identifier: GPL-2.0-or-later
"""Inference of WF_SYNC: per relation, from the other wakeups only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake import importing
from rewake.replay.loop import Loop
from rewake.replay.spec import PolicySpec
from rewake.replay.sync import best, infer

SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"


def run(rows: list[tuple[int, int, bool, bool, bool]]) -> list[bool]:
    """Rows: waker, wakee, from task context, agrees with the flag clear, set."""
    columns = list(zip(*rows, strict=True)) or [()] * 5
    ids = [np.array(c, np.uint32) for c in columns[:2]]
    flags = [np.array(c, np.bool_) for c in columns[2:]]
    out: list[bool] = infer(ids[0], ids[1], flags[0], flags[1], flags[2]).tolist()
    return out


def test_a_relation_takes_what_its_other_wakeups_say() -> None:
    pro, contra, mute = (True, False, True), (True, True, False), (True, True, True)
    assert run([(1, 2, *pro), (1, 2, *pro), (1, 2, *mute)]) == [True, True, True]
    assert run([(1, 2, *pro)]) == [False], "its own outcome never decides about itself"
    assert run([(1, 2, *pro), (1, 2, *contra)]) == [False, True], "each sees only the other"
    assert run([(1, 2, *pro), (1, 3, *mute)]) == [False, True], "without evidence the waker's other relations decide"
    assert run([(1, 2, *pro), (1, 2, *pro), (1, 2, False, False, True)]) == [True, True, False], "not from interrupts"
    assert run([]) == []


def test_the_value_at_the_start_is_the_first_of_those_with_most_votes() -> None:
    yes, no = np.ones(3, np.bool_), np.zeros(3, np.bool_)
    two = np.array([True, True, False])
    assert best([(0, no, no, yes), (16, no, two, no), (32, yes, no, two)]).first_flips == 16
    assert best([(0, yes, no, yes), (16, no, two, no)]).sync.all()


rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans(), st.booleans()), max_size=30
)


@given(rows, st.data())
def test_no_answer_depends_on_its_own_outcome(
    given_rows: list[tuple[int, int, bool, bool, bool]], data: st.DataObject
) -> None:
    if not given_rows:
        return
    i = data.draw(st.integers(0, len(given_rows) - 1))
    other = list(given_rows)
    other[i] = (*given_rows[i][:3], data.draw(st.booleans()), data.draw(st.booleans()))
    assert run(given_rows)[i] == run(other)[i]


@pytest.mark.parametrize(
    ("name", "column", "least"),
    [("probed-split-llc-schbench", "linux-6.12", 0.999), ("probed-split-llc-hackbench", "linux-6.12", 0.8)],
)
def test_against_the_flags_that_probes_saw(name: str, column: str, least: float, tmp_path: Path) -> None:
    trace = SHARED / name / "trace.dat"
    if not trace.is_file():
        pytest.skip("the shared recordings are not here")
    recording = importing.import_trace(trace, None, tmp_path / "a.rewake")
    inferred = Loop(recording, 0, use_probes=False).infer(PolicySpec(column)).sync
    con = recording.connect()
    try:
        found = con.execute(
            """
            SELECT decision_id, (wake_flags & 16) > 0 FROM decision d
            ASOF JOIN (SELECT id, task, curr_task, wake_flags FROM probe WHERE phase = 0) p
            ON d.task = p.task AND d.event_id <= p.id
            WHERE kind = 0 AND class IN (0, 1) AND p.id < d.event_id + 30 AND p.curr_task = d.waker_task
            """
        ).fetchall()
    finally:
        con.close()
    assert len(found) > 5000
    assert np.mean([inferred[i] == truth for i, truth in found]) >= least
