# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the previous CPU had gone idle, where clocks cannot tell: by the votes of other rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from world import World

from rewake.replay import _engine, order
from rewake.replay.first_flips import FIRST_FLIPS
from rewake.replay.order import AROUND_NS
from rewake.replay.unseen import Asked, fold_of, infer

US = 1_000
ROUND = 72 * US


def turned(votes: Sequence[int], *, pairs: Sequence[int] = (), apart: int = ROUND, causal: bool = False) -> list[bool]:
    ts = np.arange(len(votes), dtype=np.int64) * apart
    pair = np.array(pairs or [0] * len(votes))
    return order.turned(pair, ts, np.array(votes, np.int8), causal=causal).tolist()


def test_an_order_that_comes_out_wrong_in_every_round_is_turned() -> None:
    assert turned([1, 1, 1, 1]) == [True] * 4
    assert turned([1, 1, 1, 0]) == [False] * 3 + [True], "too few others"
    assert turned([1, 1, 1, 1, 1, -1]) == [True] * 6
    assert turned([1, 1, 1, 1, -1, 0]) == [False] * 4 + [True, True], "rounds differ"
    assert turned([-1, -1, -1]) == [False] * 3


def test_only_the_same_two_cpus_nearby_speak_for_it() -> None:
    assert turned([1, 1, 1, 1, 0, 0], pairs=[0, 0, 0, 0, 1, 0]) == [True] * 4 + [False, True]
    far = [1, 1, 1, 1, 0]
    assert turned(far, apart=AROUND_NS // 4) == [True] * 5
    assert turned(far, apart=AROUND_NS // 2) == [False, True, True, False, False]
    assert turned(far, apart=AROUND_NS + 1) == [False] * 5


def test_causally_only_what_came_before() -> None:
    assert turned([1] * 5, causal=True) == [False, False, False, True, True]


def rounds(agrees: Sequence[int], otherwise: Sequence[int]) -> Asked:
    """One wakeup per round, of which all askings say the same."""
    n, zeros = len(agrees), np.zeros(len(agrees), np.int32)
    modelled = np.repeat(np.array(agrees, np.uint32) << np.uint32(31), 4)
    return Asked(
        ts=np.arange(n, dtype=np.int64) * ROUND, waker=np.ones(n, np.uint32), wakee=np.full(n, 2, np.uint32),
        may=np.ones(n, np.bool_), llc_waker=np.zeros(n, np.uint16), llc_prev=np.zeros(n, np.uint16),
        agreed=modelled, searched=np.zeros(4 * n, np.uint8), wide=np.zeros(n, np.uint32),
        doubt=np.ones(n, np.uint8), otherwise=np.array(otherwise, np.uint8) * 15, pair=np.full(n, 7, np.uint32),
        decided=np.ones(n, np.bool_), scan_prev=zeros, scan_waker=zeros, chances_prev=zeros, chances_waker=zeros,
        writes_prev=zeros, writes_waker=zeros,
    )  # fmt: skip


def inferred(agrees: Sequence[int], otherwise: Sequence[int], mode: str) -> list[bool]:
    found = infer([rounds(agrees, otherwise)], mode, [], 1, np.zeros(3, np.int64)).turned
    return [False] * len(agrees) if found is None else found.tolist()


def test_the_other_rounds_tell() -> None:
    assert inferred([0] * 40, [1] * 40, "auto") == [True] * 40
    assert inferred([0] * 40, [1] * 40, "causal") == [False] * 3 + [True] * 37
    assert inferred([0] * 4, [1] * 4, "auto") == [True] * 4, "also those of its own fold"
    assert len(set(fold_of(np.arange(4, dtype=np.int64) * ROUND, 0))) < 2
    assert inferred([1] * 40, [1] * 40, "auto") == [False] * 40, "either order leads to what was recorded"
    assert len(FIRST_FLIPS) < 32


@pytest.mark.parametrize("mode", ["auto", "causal"])
@given(data=st.data())
def test_what_became_of_a_wakeup_says_nothing_of_its_own_order(mode: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 60))
    bits = st.lists(st.integers(0, 1), min_size=n, max_size=n)
    agrees, otherwise = data.draw(bits), data.draw(bits)
    at = data.draw(st.integers(0, n - 1))
    before = inferred(agrees, otherwise, mode)
    agrees[at], otherwise[at] = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))
    after = inferred(agrees, otherwise, mode)
    deaf = range(at + 1) if mode == "causal" else [at]
    assert [before[k] for k in deaf] == [after[k] for k in deaf]


def lockstep(idle_at: int) -> World:
    """8 goes to sleep on CPU 1 at that time; at 60 us CPU 0 wakes 9, which slept there before."""
    w = World(4, 12)
    w.runs(1_000, 1, 8, 9).runs(1_100, 1, 9, 8).runs(1_200, 0, 0, 10, "R")
    if idle_at < 60_000:
        w.runs(idle_at, 1, 8, 1)
    w.waking(60_000, 0, 9, 1, curr=10)
    if idle_at > 60_000:
        w.runs(idle_at, 1, 8, 1)
    return w.wakeup(64_000, 1, 9, 1)


def engine(decisions: Any, policy: str, **more: Any) -> _engine.OpenLoop:
    options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0} | more
    return _engine.OpenLoop(decisions.recorded, [(policy, {})], 0, options, [], [], World.running(decisions.batches))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("idle_at", [59_500, 60_500])
def test_policies_see_the_cpu_as_the_order_has_it_and_the_next_ones_as_it_is(idle_at: int, turned: bool) -> None:
    decisions = lockstep(idle_at).decisions((6, 1))
    loop = engine(decisions, "prev")
    part = dict(decisions.parts[0]) | {"turned": np.array([turned])}
    loop.run(decisions.batches[0], None, part)
    assert [int(o) & 1 for o in loop.ledger(0)["outcome"][0]] == [int((idle_at < 60_000) != turned)]


@pytest.mark.parametrize(("idle_at", "doubt"), [(57_000, 0), (59_500, 2), (60_500, 1), (63_000, 0)])
def test_there_is_doubt_where_the_cpu_goes_idle_just_then(idle_at: int, doubt: int) -> None:
    decisions = lockstep(idle_at).decisions((6, 1))
    loop = engine(decisions, "linux-6.1", panel=True, order_window=order.WINDOW_NS)
    loop.run(decisions.batches[0], None, decisions.parts[0])
    told = loop.answers()
    assert told["doubt"].tolist() == [doubt]
    # Recorded is prev, which a search comes to where that is idle; else it goes elsewhere.
    assert (told["agreed"] >> 31).tolist()[:2] == [int(idle_at < 60_000)] * 2
    assert told["otherwise"].tolist() == [15 if doubt == 1 else 0], "narrow and wide, the flag clear and set"
