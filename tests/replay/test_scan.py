# SPDX-License-Identifier: GPL-2.0-or-later
"""Inference of nr_idle_scan: by the other decisions of the LLC near in time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rewake.replay.scan import candidates, carried, infer

VALUES = (0, 2, 4)


def run(rows: list[tuple[int, int, list[bool]]], model: int = 2) -> list[int]:
    """Rows: ms, LLC that is searched (negative: none), agreement under each of VALUES. Asked for LLC 0."""
    n = len(rows)
    agrees = np.array([r[2] for r in rows], np.bool_).reshape(n, len(VALUES)).T
    ts = np.array([r[0] for r in rows], np.int64) * 1_000_000
    searched = np.array([r[1] for r in rows], np.int64)
    out: list[int] = infer(ts, searched, np.zeros(n, np.int64), agrees, VALUES, np.full(n, model, np.int32)).tolist()
    return out


def test_a_decision_takes_what_the_others_near_it_say() -> None:
    none, four = [True, False, False], [False, False, True]
    assert run([(0, 0, four), (1, 0, four), (50, 0, none), (51, 0, none)]) == [4, 4, 0, 0]
    assert run([(0, 0, four)]) == [2], "its own outcome never decides about itself: the model does"
    assert run([(0, 0, four), (1, 0, none)]) == [0, 4]
    assert run([(0, 1, four), (1, 1, four), (1, -1, [True] * 3)]) == [2, 2, 2], "not what another LLC says"
    assert run([]) == []


rows = st.lists(
    st.tuples(st.integers(0, 9), st.integers(-1, 1), st.lists(st.booleans(), min_size=3, max_size=3)), max_size=30
)


@given(rows, st.data())
def test_no_value_depends_on_the_outcome_of_its_own_decision(
    given_rows: list[tuple[int, int, list[bool]]], data: st.DataObject
) -> None:
    ordered = sorted(given_rows, key=lambda r: r[0])
    if not ordered:
        return
    i = data.draw(st.integers(0, len(ordered) - 1))
    other = list(ordered)
    other[i] = (*ordered[i][:2], data.draw(st.lists(st.booleans(), min_size=3, max_size=3)))
    assert run(ordered)[i] == run(other)[i]


def test_the_values_of_a_small_llc_are_all_tried_and_a_large_one_s_are_few() -> None:
    assert candidates(4) == [0, 1, 2, 3, 4]
    assert candidates(8) == [0, 1, 2, 3, 4, 5, 6, 8]
    assert candidates(64)[-1] == 64
    assert len(candidates(64)) < 30


def test_the_last_modelled_value_of_an_llc() -> None:
    of, wanted = np.array([0, 1, 0, 0]), np.array([1, 1, 1, 0])
    assert carried(of, wanted, np.array([5, 6, 7, 8], np.int32)).tolist() == [5, 6, 6, 8]
