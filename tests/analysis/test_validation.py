# SPDX-License-Identifier: GPL-2.0-or-later
"""Predicted against measured: the arithmetic of validate, on figures that one can check by hand."""

from __future__ import annotations

import math

import pytest

from rewake.analysis import validation
from rewake.analysis.text import columns
from rewake.analysis.validation_table import table


def figures(p99: float, moves: float = 100.0) -> dict[str, float | None]:
    return dict.fromkeys(validation.FIGURES) | {"p99_ns": p99, "moves_per_s": moves}


def built(ratio: float | None = 0.5, b: float = 520.0, miss: float = 1.0) -> validation.Validation:
    a = {"a1": figures(1000), "a2": figures(1100), "a3": figures(1050)}
    ratios = {name: {"p99_ns": ratio, "moves_per_s": 1.0} for name in a}
    errors = {name: {"p99_ns": miss} for name in a}
    both = {"b1": figures(b), "b2": figures(b)}
    return validation.build(a, both, ratios, {"a1": {"p99_ns": 0.9}}, errors, "one", "other")


def test_a_prediction_is_what_a_measured_times_the_simulated_ratio() -> None:
    p99, moves = built().rows
    middle = (1000 * 1100 * 1050) ** (1 / 3)
    assert p99.model.value == pytest.approx(middle / 2)
    assert p99.null.value == pytest.approx(middle)
    assert p99.model.error == pytest.approx(abs(math.log(middle / 2 / 520)))
    assert p99.one_step is not None and p99.one_step.value == pytest.approx(900)
    assert (p99.model.covered, p99.null.covered) == (1.0, 0.0)
    assert p99.beyond_spread and p99.sign_right
    assert moves.model.error == moves.null.error == 0
    assert not moves.beyond_spread and moves.sign_right is None
    # Half width: t(0.95, 2) x deviation of the logarithms x sqrt(1 + 1/3).
    logs = [math.log(x) for x in (1000, 1100, 1050)]
    mean = sum(logs) / 3
    deviation = math.sqrt(sum((x - mean) ** 2 for x in logs) / 2)
    assert p99.null_spread == pytest.approx(2.920 * deviation * math.sqrt(4 / 3))
    half = math.hypot(p99.null_spread, 1.645 * validation.CHANGE_ERROR * math.log(2))
    assert p99.model.score == pytest.approx(2 * half), "covered: the width alone"
    assert p99.null.score > p99.model.score
    assert moves.model.score == moves.null.score, "no change said, no error known: as wide as the repeats"


def test_what_the_model_misses_of_a_widens_its_interval() -> None:
    good, bad = built().rows[0], built(miss=1.2).rows[0]
    half = (math.log(bad.model.high) - math.log(bad.model.low)) / 2
    known = (math.log(good.model.high) - math.log(good.model.low)) / 2
    assert half == pytest.approx(math.hypot(known, 1.645 * math.log(1.2)))
    assert bad.null == good.null and bad.model.value == good.model.value


def test_misses_that_cancel_over_the_repeats_widen_nothing() -> None:
    a = {"a1": figures(1000), "a2": figures(1100)}
    ratios: dict[str, dict[str, float | None]] = {name: {"p99_ns": 0.5} for name in a}

    def low(*misses: float) -> float:
        errors: dict[str, dict[str, float | None]] = {
            name: {"p99_ns": miss} for name, miss in zip(a, misses, strict=True)
        }
        return validation.build(a, {"b": figures(500)}, ratios, {}, errors, "one", "other").rows[0].model.low

    assert low(1.25, 0.8) == pytest.approx(low(1.0, 1.0)), "the prediction is the mean's"
    assert low(1.25, 1.25) < low(1.0, 1.0)


def test_a_wrong_direction_is_said() -> None:
    row = built(ratio=1.5).rows[0]
    assert row.sign_right is False
    assert "WRONG" in table(built(ratio=1.5))
    assert built(ratio=1.0).rows[0].sign_right is False, "no change is no direction"
    assert "NOT nearer than no change" in " ".join(table(built(ratio=3.0)).split())


def test_one_recording_of_a_has_no_spread_and_no_ratio_no_row() -> None:
    one = validation.build({"a": figures(1000)}, {"b": figures(500)}, {"a": {"p99_ns": 0.5}}, {}, {}, "one", "other")
    (row,) = one.rows
    assert row.null_spread == math.inf and row.sign_right is None
    assert (row.model.low, row.model.high) == (0.0, math.inf)
    assert row.one_step is None
    text = table(one)
    assert "0.0..∞" in text and all(columns(line) <= 100 for line in text.splitlines())
    assert built(ratio=None).rows[0].figure == "moves_per_s"


def test_what_was_measured_as_0_is_said_to_be_left_out() -> None:
    """Of the repeats of B, one moved no task: the row is of the other."""
    a, b = {"a": figures(1000)}, {"b1": figures(500, 50.0), "b2": figures(500, 0.0)}
    found = validation.build(a, b, {"a": {"p99_ns": 0.5, "moves_per_s": 0.4}}, {}, {}, "one", "other", 0.0, ("said",))
    assert found.rows[1].b == pytest.approx(50)
    assert found.notes == ("said", "left out, as no ratio compares 0: moves_per_s of 1 of 2 recordings of B")
    assert "Left out, as no ratio compares 0: moves_per_s of 1 of 2 recordings of B." in table(found)
    assert built().notes == ()


def test_diverged_simulations_are_said() -> None:
    a = {"a": figures(1000)}
    found = validation.build(a, {"b": figures(500)}, {"a": {"p99_ns": 0.5}}, {}, {}, "one", "other", 75.0)
    assert found.plain()["diverged_pct"] == 75.0
    assert "75 % of the windows of a simulation left the recording behind" in " ".join(table(found).split())
    assert "left the recording" not in table(built())
