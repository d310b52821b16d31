# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernel CPU lists and masks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.collectors.snapshot.cpulist import MAX_CPUS, format_list, parse_list, parse_mask

cpu_sets = st.frozensets(st.integers(0, MAX_CPUS - 1), max_size=80)


@given(cpu_sets)
def test_round_trip(cpus: frozenset[int]) -> None:
    assert parse_list(format_list(cpus)) == cpus
    bits = sum(1 << c for c in cpus)
    digits = f"{bits:x}"
    words = [digits[max(0, i - 8) : i] for i in range(len(digits), 0, -8)][::-1]
    assert parse_mask(",".join(words)) == cpus


def test_examples() -> None:
    assert format_list([8, 0, 1, 2, 3]) == "0-3,8"
    assert parse_list("0-3,8\n") == {0, 1, 2, 3, 8}
    assert parse_list("0-7:2/4") == {0, 1, 4, 5}
    assert parse_list("\n") == frozenset()
    assert parse_mask("1,00000001") == {0, 32}


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "0-99999", "1-", "0-7:2/0"])
def test_bad_lists(text: str) -> None:
    with pytest.raises(ValueError):
        parse_list(text)
