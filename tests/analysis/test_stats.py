# SPDX-License-Identifier: GPL-2.0-or-later
"""The statistics against worked figures, and where nothing varies."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewake.analysis import stats
from rewake.errors import RewakeError


def test_wilcoxon_of_six_pairs_that_all_grew_is_two_to_the_minus_five() -> None:
    found = stats.paired([0.01, 0.02, 0.03, 0.04, 0.05, 0.06])
    assert found.n == 6
    assert found.p == pytest.approx(2 / 2**6) and found.attainable == pytest.approx(2 / 2**6)
    assert found.effect == pytest.approx(0.035)
    assert 0 < found.low < 0.035 < found.high and found.excludes_zero


def test_mann_whitney_of_two_separate_fives_is_two_of_their_252_orders() -> None:
    found = stats.unpaired([1.0, 1.1, 1.2, 1.3, 1.4], [2.0, 2.1, 2.2, 2.3, 2.4])
    assert found.p == pytest.approx(2 / 252) and found.attainable == pytest.approx(2 / 252)
    assert found.effect == pytest.approx(1.0)


def test_nothing_differs_nothing_is_tested() -> None:
    assert stats.paired([0.0] * 9).p is None
    assert stats.unpaired([1.0] * 4, [1.0] * 5).p is None
    assert stats.paired([]).n == 0


def test_the_same_change_everywhere_is_its_own_interval() -> None:
    found = stats.paired([0.05] * 8)
    assert (found.low, found.high) == (0.05, 0.05)
    assert found.p is not None and found.p < 0.05


def test_one_unit_bounds_nothing() -> None:
    found = stats.paired([0.3])
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert found.attainable == 1.0


def test_the_same_numbers_give_the_same_interval() -> None:
    values = [float(x) for x in np.random.default_rng(1).normal(0.02, 0.03, 15)]
    assert stats.paired(values) == stats.paired(values)


def test_benjamini_hochberg() -> None:
    assert stats.adjusted([0.01, 0.02, 0.03, 0.5]) == pytest.approx([0.04, 0.04, 0.04, 0.5])
    assert stats.adjusted([]) == []


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(RewakeError, match=r"a history needs nowhere_at_all: .* 'rewake\[history\]'"):
        stats.extra("nowhere_at_all", "history", "a history")


@settings(max_examples=10)
@given(st.lists(st.floats(-2, 2), min_size=2, max_size=12))
def test_turning_all_signs_turns_the_answer(values: list[float]) -> None:
    there, back = stats.paired(values), stats.paired([-v for v in values])
    assert back.effect == pytest.approx(-there.effect)
    assert back.p == pytest.approx(there.p) if there.p is not None else back.p is None
    assert there.low <= there.high or math.isnan(there.low)


def test_ties_are_exact() -> None:
    """Seven equal changes: one of 2^7 orders of signs, and its mirror."""
    assert stats.paired([0.05] * 7).p == pytest.approx(2 / 2**7)
    assert stats.paired([0.0, 0.0, 0.01, 0.01, 0.01]).p == pytest.approx(2 / 2**3)
