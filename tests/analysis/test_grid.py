# SPDX-License-Identifier: GPL-2.0-or-later
"""Formats and alignment of the text tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.analysis.grid import WIDTH, Column, bounds, counted, defined, micros, percent, render, wrap
from rewake.analysis.table import cell
from rewake.analysis.text import columns


@pytest.mark.parametrize(
    ("ns", "text"),
    [(None, "-"), (0, "0.0"), (3_449, "3.4"), (99_949, "99.9"), (99_950, "100"), (1_148_000, "1148")],
)
def test_micros(ns: int | None, text: str) -> None:
    assert micros(ns) == text


def test_bounds() -> None:
    assert bounds(310_000, 1_620_000, None) == "[310, 1620]"
    assert bounds(310_000, None, 1_620_000) == "[310, ≥ 1620]"
    assert bounds(None, None, None) == "-"


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e300, "1e+300"), (-1e15, "-1e+15"), (123_456.5, "123456.50"), (0.25, "0.25"), (1e-5, "1e-05"), (0.0, "0"),
     (1.0, "1.00"), (float("inf"), "inf")],
)  # fmt: skip
def test_a_double_of_any_size_is_short(value: float, text: str) -> None:
    assert cell(value) == text


def test_a_number_keeps_its_per_cent_sign() -> None:
    text = "x" * 96 + " " + percent(12.3)
    assert wrap(text) == ["x" * 96, "  12.3 %"]


@given(st.lists(st.text("abc宽 %", max_size=140), max_size=6).map(" ".join), st.sampled_from(["", "  ", " " * 30]))
def test_wrap_loses_nothing_and_fits(text: str, indent: str) -> None:
    lines = wrap(text, indent)
    assert all(columns(line) <= WIDTH for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_definitions_align() -> None:
    assert defined([("a", "one"), ("long", "two")]) == ["a     one", "long  two"]


def test_columns_align_by_width_not_length() -> None:
    lines = render([Column(("name",), ["宽", "ab"], left=True), Column(("n",), ["1", "22"])])
    assert lines == ["name   n", "宽     1", "ab    22"]


def test_a_name_too_long_for_its_line_gets_its_own() -> None:
    figures = [Column(("x" * 20,), ["1", "2"]) for _ in range(4)]
    lines = render([Column(("policy",), ["short", "y" * 60], left=True), *figures], spill=True)
    assert lines[2] == "y" * 60
    assert lines[3].split() == ["2"] * 4
    assert all(columns(line) <= WIDTH for line in lines)


def test_counts_in_words() -> None:
    assert [counted(n, "run") for n in (0, 1, 2, 1000)] == ["0 runs", "1 run", "2 runs", "1,000 runs"]
    assert [counted(n, "history", "histories") for n in (1, 2)] == ["1 history", "2 histories"]
