# SPDX-License-Identifier: GPL-2.0-or-later
"""Identification: which candidates there are, the paired block bootstrap, and the answer in words."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewake.analysis import identify, sql
from rewake.errors import FidelityError
from rewake.forms import RUN_TABLES

SWITCHES = {"WA_IDLE": "1", "WA_WEIGHT": "1", "WA_BIAS": "1", "SIS_UTIL": "1"}
MANIFEST = {"identical": [["linux-6.1", "linux-6.8"], ["linux-4.12"], ["linux-6.1:SIS_UTIL=0"]], "left_out": [],
            "block_ns": 1000}  # fmt: skip


def test_candidates_are_the_columns_and_their_switches() -> None:
    found = identify.candidates({"linux-6.1": SWITCHES, "linux-3.8": {}, "prev": {}, "linux-5.4": {"SIS_PROP": "on"}})
    assert found == [
        "linux-3.8", "linux-5.4", "linux-5.4:SIS_PROP=0", "linux-6.1", "linux-6.1:SIS_UTIL=0", "linux-6.1:WA_IDLE=0",
        "linux-6.1:WA_WEIGHT=0", "linux-6.1:WA_BIAS=0", "linux-6.1:WA_BIAS=0,WA_IDLE=0,WA_WEIGHT=0",
    ]  # fmt: skip
    assert identify.candidates({"linux-6.1": {"SIS_UTIL": "0"}})[1] == "linux-6.1:SIS_UTIL=1"


def told(agreed: list[list[int]], telling: int = 100) -> tuple[list[float], list[float]]:
    counts = np.array(agreed, np.int64)
    seen, reach = identify.intervals(np.full(counts.shape[1], telling, np.int64), counts, 0)
    return seen.tolist(), (seen - reach).tolist()


def test_a_steady_difference_is_told_apart_and_a_change_of_sides_is_not() -> None:
    better = [90] * 20
    seen, low = told([better, [80] * 10 + [82] * 10, [60, 118] * 10, better])
    assert seen[0] == low[0] == seen[3] == low[3] == 0.0
    assert seen[1] == pytest.approx(0.09)
    assert low[1] > 0.08
    assert seen[2] == pytest.approx(0.01)
    assert low[2] < 0, "in one half of the blocks it is the better one"


def test_what_one_block_alone_says_rules_nothing_out() -> None:
    _, low = told([[90] * 20, [40] + [90] * 19])
    assert low[1] <= 0


def test_few_telling_wakeups_rule_nothing_out() -> None:
    few = measure({k: blocks(1 if "4.12" in k else 0) for k in GOOD}, None, telling=1)
    assert len(few.ranking.members) == 4
    one = measure({k: blocks(90 if "4.12" in k else 0, 1) for k in GOOD}, None)
    assert len(one.ranking.members) == 4, "nor does one block"


def test_a_burst_does_not_decide() -> None:
    """19 blocks of 100 wakeups for the first candidate, one of 10,000 for the second."""
    telling = np.array([100] * 19 + [10_000])
    agreed = np.array([[90] * 19 + [4000], [70] * 19 + [8000]])
    counted, scores = identify.capped(telling, agreed)
    assert counted.tolist() == [100 << 20] * 20
    assert scores[1].tolist() == [70 << 20] * 19 + [80 << 20]
    assert scores[0].sum() > scores[1].sum()
    empty, none = identify.capped(np.array([0, 0]), np.array([[0, 0]]))
    assert empty.tolist() == none[0].tolist() == [0, 0]


def test_what_is_ruled_out_no_longer_widens_the_others() -> None:
    """Step-down: with a wild candidate far behind, the near one is judged as without it."""
    rng = np.random.default_rng(3)
    best, near = np.full(20, 90), 90 - np.tile([9, -8], 10)
    wild = [np.maximum(0, 20 - rng.integers(0, 20, 20)) for _ in range(40)]
    _, with_wild = told([list(best), list(near), *map(list, wild)])
    _, without = told([list(best), list(near)])
    assert with_wild[1] == pytest.approx(without[1])


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 100), min_size=8, max_size=8), min_size=1, max_size=6))
def test_the_interval_holds_what_was_seen_and_repeats(rows: list[list[int]]) -> None:
    rows.sort(key=sum, reverse=True)
    seen, low = told(rows)
    assert seen == pytest.approx([(sum(rows[0]) - sum(r)) / 800 for r in rows])
    assert all(a >= 0 and b <= a for a, b in zip(seen, low, strict=True))
    assert (seen, low) == told(rows)


def trial(counts: dict[str, list[tuple[int, int, int]]], telling: int = 100) -> duckdb.DuckDBPyConnection:
    """A trial whose candidates have (agreed, moved_agreed, policy_moved) per block, the same under every WF_SYNC."""
    con = duckdb.connect()
    con.execute("CREATE TABLE trial (" + ", ".join(f"{c.name} {c.type}" for c in RUN_TABLES["trial"].columns) + ")")
    for sync in ("0", "1", "auto"):
        for policy, blocks in counts.items():
            for i, (agreed, moved_agreed, policy_moved) in enumerate(blocks):
                row = [policy, sync, i * 1000, telling, telling, agreed, telling, moved_agreed, policy_moved]
                con.execute("INSERT INTO trial VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    sql.prepare(con)
    return con


def blocks(agreed: int, n: int = 20) -> list[tuple[int, int, int]]:
    return [(agreed, agreed, 100)] * n


def measure(
    counts: dict[str, list[tuple[int, int, int]]], recorded: str | None, telling: int = 100
) -> identify.Identification:
    with trial(counts, telling) as con:
        return identify.measure(con, MANIFEST, "auto", recorded, ("why",))


GOOD = {"linux-6.1": blocks(90), "linux-6.8": blocks(90), "linux-4.12": blocks(50), "linux-6.1:SIS_UTIL=0": blocks(70)}


def test_columns_that_decide_identically_are_one_answer() -> None:
    found = measure(GOOD, "linux-6.8")
    assert found.verdict == "ambiguous"
    assert found.ranking.columns == ("linux-6.1", "linux-6.8")
    assert [c.policy for c in found.ranking.candidates] == ["linux-6.1", "linux-6.1:SIS_UTIL=0", "linux-4.12"]
    assert found.ranking.candidates[0].same == ("linux-6.8",)
    assert found.settings == {"SIS_UTIL": ["default"]}
    assert (found.column_in_set, found.instance_in_set) == (True, True)
    assert (found.tried, found.telling, found.blocks) == (3, 2000, 20)


def test_the_recorded_kernel_is_only_looked_up() -> None:
    answers = [measure(GOOD, recorded) for recorded in (None, "linux-4.12", "linux-6.1:SIS_UTIL=0", "linux-6.1:X=1")]
    assert len({a.ranking for a in answers}) == 1
    assert [a.column_in_set for a in answers] == [None, False, True, True]
    assert [a.instance_in_set for a in answers] == [None, False, False, None]


def test_named_and_inconclusive() -> None:
    assert measure(GOOD | {"linux-4.12": blocks(95)}, None).verdict == "named"
    assert measure(dict.fromkeys(GOOD, blocks(90)), None).verdict == "inconclusive"
    assert measure({k: blocks(1 if "4.12" in k else 0) for k in GOOD}, None, telling=1).verdict == "inconclusive"


def test_nothing_to_identify() -> None:
    with pytest.raises(FidelityError, match="nothing to identify"):
        measure({}, None)
