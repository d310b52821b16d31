# SPDX-License-Identifier: GPL-2.0-or-later
"""Inference of what no event carries: nr_idle_scan as steps in time, wakee_flips at the start. No outcome comes back to
its own decision."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tracedat
from hypothesis import given, settings
from hypothesis import strategies as st
from world import World

from rewake.forms import Columns, Recording, with_null
from rewake.importing import import_trace
from rewake.replay import _engine, inputs
from rewake.replay.first_flips import CLOSER, FIRST_FLIPS, FirstFlips, better, between, later, nearby, own
from rewake.replay.loop import Loop
from rewake.replay.spec import PolicySpec
from rewake.replay.unseen import BLOCK_NS, FOLDS, MODES, Asked, Course, fold_of, infer, nothing, scan_values

VALUES = [0, 2, 4]
MS = 1_000_000
Vote = tuple[int, int, int]


def steps(rows: list[Vote], *, causal: bool = False, model: int = 2, **rules: Any) -> list[int]:
    """Rows: us, 0 for no search, else 1 + LLC that is searched, agreement as bits of VALUES; -1: LLC 0, which is not
    searched because of has_idle_cores. Asked for LLC 0, whose balancer may run each 4 ms, and does each 20."""
    n = len(rows)
    ticks, writes = (np.array([r[0] // us for r in rows], np.int32) for us in (4_000, 20_000))
    votes = {
        "n_llcs": 2, "ts": np.array([r[0] for r in rows], np.int64) * 1000,
        "searched": np.array([min(r[1], 1) if r[1] >= 0 else 3 for r in rows], np.uint8),
        "agreed": np.array([r[2] for r in rows], np.uint32),
        "llc_prev": np.array([max(r[1] - 1, 0) for r in rows], np.uint16), "llc_waker": np.zeros(n, np.uint16),
        "model_prev": np.full(n, model, np.int32), "model_waker": np.full(n, model, np.int32),
        "chances_prev": ticks, "chances_waker": ticks, "writes_prev": writes, "writes_waker": writes,
    }  # fmt: skip
    given_rules = {
        "values": VALUES,
        "stays": 0.95,
        "kept": 0.1,
        "doubt": 0.05,
        "hint": 0.8,
        "reach": 1.0,
        "block": MS // 4,
        "causal": causal,
    }
    out: list[int] = _engine.steps_in_time(given_rules | rules, votes)[1].tolist()
    return out


def test_a_decision_takes_what_those_near_it_say() -> None:
    none, four = 0b001, 0b100
    blocks = [(0, 1, four), (1000, 1, four), (2000, 1, four), (90_000, 1, none), (91_000, 1, none), (92_000, 1, none)]
    assert steps(blocks) == [4, 4, 4, 0, 0, 0]
    assert steps(blocks, causal=True)[0] == 2, "the modelled one, until somebody spoke"
    assert steps(blocks, causal=True)[2] == 4
    assert steps([(0, 1, four)]) == [2], "its own outcome never decides about itself: the model does"
    assert steps([(0, 1, four), (100, 1, none)]) == [2, 2], "nor do others of its block"
    assert steps([(0, 1, four), (1000, 1, none)]) == [0, 4]
    assert steps([(0, 2, four), (1000, 2, four), (2000, 0, 0b111)]) == [2, 2, 2], "not what another LLC says"
    assert steps([(0, 1, 0b111), (1000, 1, 0)]) == [2, 2], "who agrees with all or none says nothing"
    assert steps([]) == []


def test_what_only_the_flag_kept_from_a_search_is_believed_less() -> None:
    none, four = 0b001, 0b100
    hints = [(1000 * k, -1, none) for k in range(1, 40)]
    assert steps([(0, 1, four), *hints[:3]])[1:] == [4] * 3, "one that searched against two of them"
    assert steps(hints[:15])[-1] == 0, "but nobody else"
    assert steps([(0, 1, four), *hints])[-1] == 0


def flag_or_search() -> World:
    """The core of CPUs 1 and 3 was idle. Task 10 on CPU 0 wakes 12, which finds none, and 13, by when CPU 2, the
    sibling of 0, is idle. Both stay."""
    w = World(4, 14, smt=2)
    w.runs(1_000, 0, 0, 10).runs(1_100, 2, 2, 7).runs(2_000, 1, 8, 1).runs(2_100, 3, 9, 3)
    w.runs(3_000, 1, 1, 8).runs(3_100, 3, 3, 9)
    w.waking(60_000, 0, 12, 0, curr=10).wakeup(64_000, 0, 12, 0)
    w.runs(70_000, 2, 7, 2)
    return w.waking(80_000, 0, 13, 0, curr=10).wakeup(84_000, 0, 13, 0)


def test_a_value_that_leaves_the_flag_set_is_voted_for_where_the_modelled_one_has_cleared_it() -> None:
    decisions = flag_or_search().decisions((6, 1))
    options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0}
    asked = options | {"panel": True, "panel_scans": [0, 1, 4]}
    loop = _engine.OpenLoop(decisions.recorded, [("linux-6.1", {})], 0, asked, [], [], [])
    loop.run(decisions.batches[0], None, decisions.parts[0])
    told = loop.answers()
    assert told["agreed"].reshape(2, 4)[:, 0].tolist() == [1 << 31 | 0b111, 0b001]
    assert told["searched"].reshape(2, 4)[:, 0].tolist() == [1, 3]


def test_without_any_search_the_flag_is_still_set_from_before_the_recording() -> None:
    """No core is idle, CPU 2 is, the sibling of 0, and the wakee stays on 0: with the flag clear it would go to 2."""
    w = World(4, 14, smt=2).runs(1_000, 0, 0, 10).runs(1_100, 1, 1, 8).runs(1_200, 3, 3, 9)
    w.runs(1_300, 2, 2, 7).runs(2_000, 2, 7, 2)
    decisions = w.waking(60_000, 0, 12, 0, curr=10).wakeup(64_000, 0, 12, 0).decisions((6, 1))
    options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0}
    asked = options | {"panel": True, "panel_scans": [0, 1, 4]}
    loop = _engine.OpenLoop(decisions.recorded, [("linux-6.1", {})], 0, asked, [], [], [])
    loop.run(decisions.batches[0], None, decisions.parts[0])
    assert loop.answers()["agreed"][0] == 0b001


def bounded_scan() -> World:
    """Task 8 of CPU 0 wakes 9, which ran on CPU 1, where another runs now, as on CPUs 2 and 3: CPU 4 is the fourth
    that the search meets. CPU 0 was idle for 100 us, so its next wakeups may cost 195 ns a CPU of the LLC."""
    w = World(8, 20).runs(1_000, 0, 0, 8).runs(1_100, 1, 1, 9)
    for cpu in (2, 3):
        w.runs(1_200 + cpu, cpu, cpu, 10 + cpu)
    w.runs(2_000, 1, 9, 11)
    for k in range(40):  # rq::avg_idle comes down
        at = 100_000 + 200_000 * k
        w.runs(at, 0, 8, 0).waking(at + 99_000, 2, 8, 0, curr=12).wakeup(at + 100_000, 0, 8, 0).runs(
            at + 101_000, 0, 0, 8
        )
    for k in range(30):
        at = 9_000_000 + 100_000 * k
        w.waking(at, 0, 9, 1, curr=8).wakeup(at + 1_000, 0, 9, 1)
        w.runs(at + 2_000, 1, 11, 9).runs(at + 3_000, 1, 9, 11)
    return w


def test_a_panel_asks_under_every_scan_clock() -> None:
    decisions = bounded_scan().decisions((5, 10))
    clocks = [(200, 50), (0, 0), (100, 10), (4000, 100)]
    options = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0, "scan_clocks": clocks}
    asked = options | {"panel": True, "panel_scans": [1, 2, 3], "panel_clocks": True}
    panel = _engine.OpenLoop(decisions.recorded, [("linux-5.10", {})], 0, asked, [], [], [])
    panel.run(decisions.batches[0], None, decisions.parts[0])
    part = decisions.parts[0]
    ours = np.asarray(part["task"][0] if isinstance(part["task"], tuple) else part["task"]) == 9
    bits = panel.answers()["agreed"].reshape(-1, 4)[ours, 0]
    alone = []
    for k in range(len(clocks)):
        loop = _engine.OpenLoop(decisions.recorded, [("linux-5.10", {})], 0, options, [], [], [])
        loop.run(decisions.batches[0], None, {**part, "clock": np.full(len(ours), k, np.uint8)})
        alone.append(loop.ledger(0)["known"][0][ours])
    for k, known in enumerate(alone):
        assert (bits >> (31 if k == 0 else k - 1) & 1).astype(bool).tolist() == known.tolist(), clocks[k]
    assert any((known != alone[0]).any() for known in alone), "it matters which"
    with pytest.raises(ValueError, match="no such scan clock"):
        loop.run(decisions.batches[0], None, {**part, "clock": np.full(len(ours), 4, np.uint8)})
    with pytest.raises(ValueError, match="panel_scans: no such clock"):
        _engine.OpenLoop(decisions.recorded, [("linux-5.10", {})], 0, asked | {"panel_scans": [4]}, [], [], [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"values": []},
        {"values": [*range(32)]},
        {"doubt": 0.0},
        {"hint": 0.0},
        {"block": 0},
        {"stays": 0.0},
        {"kept": 1.5},
    ],
)
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|positive"):
        steps([(0, 1, 1)], **wrong)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 2), st.integers(0, 7)), min_size=1, max_size=30),
       st.booleans(), st.data())  # fmt: skip
def test_no_value_depends_on_an_outcome_that_it_must_not_hear(
    given_rows: list[Vote], causal: bool, data: st.DataObject
) -> None:
    ordered = sorted(((100 * t, llc, bits) for t, llc, bits in given_rows), key=lambda r: r[0])
    i = data.draw(st.integers(0, len(ordered) - 1))
    other = list(ordered)
    other[i] = (*ordered[i][:2], data.draw(st.integers(0, 7)))
    before, after = steps(ordered, causal=causal), steps(other, causal=causal)
    deaf = range(i + 1) if causal else [k for k, r in enumerate(ordered) if r[0] // 250 == ordered[i][0] // 250]
    assert [before[k] for k in deaf] == [after[k] for k in deaf]


def test_the_values_of_a_small_llc_are_all_tried_and_a_large_one_s_are_few() -> None:
    assert scan_values(4) == [0, 1, 2, 3, 4]
    assert scan_values(8) == [*range(9)]
    assert scan_values(64)[-1] == 64
    assert len(scan_values(64)) < 30


def test_a_period_of_a_load_does_not_fall_into_one_fold() -> None:
    for period in (BLOCK_NS, FOLDS * BLOCK_NS, MS, 4 * MS, 10 * MS):
        folds = fold_of(np.arange(1000, dtype=np.int64) * period, 0)
        assert np.bincount(folds, minlength=FOLDS).min() > 150, period


def one_relation(agreed: npt.NDArray[np.uint32], wide: npt.NDArray[np.uint32]) -> Asked:
    """Wakeups of task 2 by task 1, one a block, that look at nothing but wakee_flips."""
    n = len(wide)
    zeros = np.zeros(n, np.int32)
    return Asked(
        ts=np.arange(n, dtype=np.int64) * BLOCK_NS, waker=np.ones(n, np.uint32), wakee=np.full(n, 2, np.uint32),
        may=np.ones(n, np.bool_), llc_waker=np.zeros(n, np.uint16), llc_prev=np.zeros(n, np.uint16),
        agreed=agreed.ravel(), searched=np.zeros(4 * n, np.uint8), wide=wide,
        doubt=np.zeros(n, np.uint8), otherwise=np.zeros(n, np.uint8), pair=np.zeros(n, np.uint32),
        decided=np.ones(n, np.bool_), scan_prev=zeros, scan_waker=zeros, chances_prev=zeros, chances_waker=zeros,
        writes_prev=zeros, writes_waker=zeros,
    )  # fmt: skip


NOBODY = {name: np.empty(0, np.uint32) for name in ("row", "curr", "p", "of_curr", "of_p")}


def test_flips_at_the_start_are_those_under_which_the_others_come_out_as_recorded() -> None:
    """From decision 20 on another value holds: too few to change the vote of all."""
    n, wide = 26, 1 << FIRST_FLIPS.index(FirstFlips(16))
    modelled = np.uint32(1 << 31)
    agreed = np.zeros((n, 4), np.uint32)
    agreed[:20, 2:], agreed[20:, :2] = modelled, modelled  # wide is right, then narrow
    asked, names = one_relation(agreed, np.full(n, wide, np.uint32)), np.zeros(3, np.int64)
    assert infer([asked], "auto", [], 1, names)[2:4] == ((FirstFlips(16),), None)
    found = infer([asked], "causal", [], 1, names)
    assert found.first_flips == (FirstFlips(0), FirstFlips(16))
    assert found.flips is not None
    assert found.flips.tolist() == [0] + [1] * (n - 1), "before the first vote the lowest"
    near = between(FirstFlips(16))

    def wide_under(first: list[FirstFlips]) -> npt.NDArray[np.uint32]:
        """Of the closer ones only one comes out as recorded, and then of those closer to that; nothing is told of the
        last decisions."""
        best = FirstFlips(21)
        assert first in (near, between(FirstFlips(20), near), [best])
        right = FirstFlips(20) if first == near else best
        return np.full(n - 4, 1 << first.index(right), np.uint32)

    course = Course(wide_under, lambda base, tries, rows: NOBODY)
    assert infer([asked], "auto", [], 1, names, course).first_flips == (FirstFlips(21),)
    assert infer([asked], "causal", [], 1, names, course).first_flips == found.first_flips


def test_which_kind_of_hypothesis_holds_shows_when_both_are_close() -> None:
    """Wide is right. Halved at once all but 16 come out so with 16, and nothing closer is better; halved later all but
    24 with 32, and all with 36."""
    n, at_once, later = 400, FirstFlips(16), FirstFlips(32, 0.0, 1.0)
    number = np.arange(n)

    def wide_under(first: Sequence[FirstFlips]) -> npt.NDArray[np.uint32]:
        wide = {at_once: number >= 16, later: number >= 24, later._replace(flips=36): number >= 0}
        wide[FirstFlips(256)] = number < 24
        out = np.zeros(n, np.uint32)
        for k, h in enumerate(first):
            out |= wide.get(h, number < 0).astype(np.uint32) << np.uint32(k)
        return out

    agreed = np.zeros((n, 4), np.uint32)
    agreed[:, 2:] = np.uint32(1 << 31)
    asked, names = one_relation(agreed, wide_under(FIRST_FLIPS)), np.zeros(3, np.int64)
    assert infer([asked], "auto", [], 1, names).first_flips == (at_once,)
    course = Course(wide_under, lambda base, tries, rows: NOBODY)
    assert infer([asked], "auto", [], 1, names, course).first_flips == (later._replace(flips=36),)


def test_a_task_begins_otherwise_where_the_votes_of_other_folds_are_for_it() -> None:
    """Wide is right where the waker began with 512, and no hypothesis for all says so. Only one fold tells."""
    n = 40
    fold = fold_of(np.arange(n, dtype=np.int64) * BLOCK_NS, 0)
    tells = fold == FOLDS - 1
    right = FirstFlips(512).of(1)

    def wide(first: Sequence[FirstFlips]) -> npt.NDArray[np.uint32]:
        return np.full(n, sum(1 << k for k, h in enumerate(first) if h.of(1) == right), np.uint32)

    def apart(
        base: FirstFlips, tries: Sequence[FirstFlips], rows: npt.NDArray[np.bool_]
    ) -> dict[str, npt.NDArray[Any]]:
        assert rows.tolist() == tells.tolist(), "the others have nothing to say"
        return {"row": np.arange(n), "curr": np.full(n, 1, np.uint32), "p": np.full(n, 2, np.uint32),
                "of_curr": wide([base, *tries]), "of_p": wide([base] * (1 + len(tries)))}  # fmt: skip

    agreed = np.full((n, 4), np.uint32(1 << 31))
    agreed[tells, :2] = 0
    asked = np.zeros(n, np.uint32)
    asked[0] = 1 << FIRST_FLIPS.index(FirstFlips(256))
    found = infer([one_relation(agreed, asked)], "auto", [], 1, np.zeros(3, np.int64), Course(wide, apart))
    assert found.flips is not None
    own = [found.first_flips[k].own for k in found.flips.tolist()]
    assert own == [() if f == FOLDS - 1 else ((1, right),) for f in fold.tolist()]
    assert found.likeliest.own == ((1, right),), "by all votes"


def some_course(n: int) -> Course:
    """What one would be told, whatever the outcomes."""

    def bits(of: Sequence[FirstFlips], salt: int) -> npt.NDArray[np.uint32]:
        each = [np.random.default_rng([salt, *map(int, h[:2]), int(1e6 * h[2]), len(h.own)]) for h in of]
        return np.stack([g.integers(0, 2, n, np.uint32) << np.uint32(k) for k, g in enumerate(each)]).sum(0, np.uint32)

    def apart(
        base: FirstFlips, tries: Sequence[FirstFlips], rows: npt.NDArray[np.bool_]
    ) -> dict[str, npt.NDArray[Any]]:
        at = np.flatnonzero(rows)
        return {"row": at, "curr": at % 3, "p": 3 + at % 2,
                "of_curr": bits([base, *tries], 1)[at], "of_p": bits([base, *tries], 2)[at]}  # fmt: skip

    return Course(lambda first: bits(first, 0)[: n - 4], apart)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("agreed", "left"), [(0b101, 0), (0b100, 4), (0b010, 2), (0b000, 2)])
def test_what_stays_of_a_decision_goes_by_its_own_outcome(agreed: int, left: int, mode: str) -> None:
    """It comes out as recorded with some of 0, 2 and 4; the model says 2. Its answer hears none of that."""
    two = np.full(1, 2, np.int32)
    asked = one_relation(np.full((1, 4), agreed, np.uint32), np.zeros(1, np.uint32))
    asked = asked._replace(searched=np.ones(4, np.uint8), scan_prev=two, scan_waker=two)
    found = infer([asked], mode, VALUES, 1, np.zeros(3, np.int64), before=True)
    assert found.scan is not None
    assert found.scan[1].tolist() == [2]
    assert found.before is not None
    assert found.before.scan is not None
    assert found.before.scan[1].tolist() == [left]


def test_a_scan_clock_is_the_one_under_which_the_others_come_out_as_recorded() -> None:
    """The second of those that are tried; of the last ten decisions the first, which is too few to change the vote."""
    n = 50
    agreed = np.full((n, 4), 0b010, np.uint32)
    agreed[40:] = 0b001
    asked = one_relation(agreed, np.zeros(n, np.uint32))
    looked = asked._replace(searched=np.ones(4 * n, np.uint8))
    for mode in MODES:
        found = infer([looked], mode, [], 1, np.zeros(3, np.int64), before=True, clocks=4)
        assert found.clock is not None and found.before is not None and found.scan is None
        assert found.clock.tolist() == [2] * n if mode == "auto" else [0] + [2] * (n - 1), "before the first vote none"
        blind = infer([asked], mode, [], 1, np.zeros(3, np.int64), clocks=4)
        assert blind.clock is not None and not blind.clock.any(), "no search looked at it"
    assert infer([looked], "auto", [], 1, np.zeros(3, np.int64)).clock is None


@given(st.integers(0, 1 << 32), st.sampled_from(MODES))
def test_a_scan_clock_hears_none_of_the_outcomes_of_its_decision(seed: int, mode: str) -> None:
    draw, n, clocks = np.random.default_rng(seed), 40, 5
    row = int(draw.integers(n))
    agreed = draw.integers(0, 1 << (clocks - 1), (n, 4), np.uint32)
    asked = one_relation(agreed, np.zeros(n, np.uint32))._replace(searched=np.ones(4 * n, np.uint8))
    other = agreed.copy()
    other[row] = draw.integers(0, 1 << (clocks - 1), 4, np.uint32)
    found = []
    for bits in (agreed, other):
        of = infer([asked._replace(agreed=bits.ravel())], mode, [], 1, np.zeros(3, np.int64), clocks=clocks)
        assert of.clock is not None
        found.append(int(of.clock[row]))
    assert found[0] == found[1]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(MODES))
def test_what_is_inferred_for_a_fold_hears_none_of_its_outcomes(seed: int, mode: str) -> None:
    """Nor what stays of a decision, any later one."""
    draw, n = np.random.default_rng(seed), 60
    ts = np.arange(n, dtype=np.int64) * BLOCK_NS
    asked = one_relation(
        draw.integers(0, 2, (n, 4), np.uint32) << np.uint32(31), draw.integers(0, 1 << 31, n, np.uint32)
    )
    asked = asked._replace(waker=draw.integers(0, 3, n, np.uint32), wakee=draw.integers(3, 5, n, np.uint32))
    late = draw.integers(1, n)
    mine = np.arange(n) >= late if mode == "causal" else fold_of(ts, 0) == draw.integers(FOLDS)
    outcomes = asked.agreed.reshape(n, 4).copy()
    outcomes[mine] = draw.integers(0, 2, (mine.sum(), 4), np.uint32) << np.uint32(31)
    found = []
    for agreed in (asked.agreed, outcomes.ravel()):
        of = infer([asked._replace(agreed=agreed)], mode, [], 1, np.zeros(5, np.int64), some_course(n), before=True)
        none = np.zeros(n, np.uint8)
        assert of.before is not None
        for one, heard in ((of, ~mine if mode == "auto" else mine), (of.before, np.arange(n) >= np.argmax(mine))):
            flips = none if one.flips is None else one.flips
            deaf = np.flatnonzero(~heard).tolist()
            found.append([(one.sync[k], one.told[k], of.first_flips[flips[k]]) for k in deaf])
    assert found[:2] == found[2:]


def told(rows: Sequence[tuple[int, int, int, int]]) -> dict[str, npt.NDArray[Any]]:
    """FlipsApart of one try. Rows: waker, wakee, and whether it is wide with the try of either; else it is not."""
    curr, p, of_curr, of_p = (np.array(column, np.uint32) for column in zip(*rows, strict=True))
    return {"row": np.arange(len(rows)), "curr": curr, "p": p, "of_curr": of_curr << 1, "of_p": of_p << 1}


def test_who_began_otherwise_takes_more_votes_than_chance() -> None:
    assert better(told([(1, 2, 1, 0)] * 3), np.array([1, 1, 1], np.int8), 1) == {1: 0}
    assert better(told([(1, 2, 1, 0)] * 3), np.array([1, 0, 0], np.int8), 1) == {}, "one is too few"
    assert better(told([(1, 2, 1, 0)] * 3), np.array([1, 1, -1], np.int8), 1) == {}, "two against one"
    assert better(told([(1, 2, 0, 1)] * 3), np.array([1, 1, 1], np.int8), 1) == {2: 0}
    assert better(told([(1, 2, 1, 0)] * 3), np.array([-1, -1, -1], np.int8), 1) == {}
    pair = [(1, 2, 1, 1)] * 3 + [(1, 3, 1, 0)] * 2 + [(4, 3, 1, 0)] * 2
    assert better(told(pair), np.ones(7, np.int8), 1) == {1: 0, 4: 0}, "not the second of a pair"
    assert better(NOBODY, np.ones(7, np.int8), 1) == {}


def test_hypotheses_near_one_change_what_each_task_began_with() -> None:
    base = FirstFlips(40, 0.5, 0.2, ((7, (100, 0.0, 0.0)),))
    tries = nearby(base, 2.8)
    assert {h.flips for h in tries} >= {20, 40, 80}
    assert {h.of(7)[0] for h in tries} >= {50, 100, 200}
    assert {round(h.halved_s, 4) for h in tries} >= {0.1732, 0.2, 0.2268}, "three quarters of a step of 1 s"
    assert all(h.halved_s >= 0 and h.of(7)[2] >= 0 for h in tries)
    assert base.of(8) == (40, 0.5, 0.2)
    at_other_times = later(base, 0.14)
    assert {round(h.halved_s, 3) for h in at_other_times} == {*(round(0.005 * k, 3) for k in range(1, 29)), 1.0}
    assert {h.flips for h in at_other_times} == {40}
    assert {h.of(7)[0] for h in at_other_times} == {50}, "it has been halved by the first call"
    assert all(len(each(base, 2.8)) < 32 for each in (own, later, nearby)), "and the one itself"


def test_closer_hypotheses_lie_between_the_neighbours() -> None:
    assert [h.flips for h in between(FirstFlips(64))] == [64, 40, 48, 56, 72, 80, 88]
    assert [h.flips for h in between(FirstFlips(0))] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert [h.flips for h in between(FirstFlips(48), between(FirstFlips(64)))] == [48, 42, 44, 46, 50, 52, 54]
    for h in FIRST_FLIPS:
        near = between(h)
        assert near[0] == h
        assert len(near) <= CLOSER + 1
        assert {n[1:] for n in near} == {h[1:]}


# No outcome comes back.

FIXTURES = Path(__file__).parents[2] / "fixtures"
SPECS = [PolicySpec(name) for name in ("linux-6.1", "linux-4.19", "prev", "oracle-idle", "userspace-hints")]


class Unequal(Recording):
    """A recording of which the first four CPUs have half the capacity of the others."""

    def read(self, table: str, names: Sequence[str] | None = None) -> Columns:
        columns = super().read(table, names)
        if table != "cpu" or "capacity" not in columns:
            return columns
        n = len(with_null(columns["capacity"])[0])
        return {**columns, "capacity": np.where(np.arange(n) < 4, 512, 1024).astype(np.uint16)}


class Changed(Recording):
    """A recording in which some decisions chose other CPUs."""

    def __init__(self, of: Recording, chosen: dict[int, int]) -> None:
        super().__init__(of.path)
        self.of, self.chosen = of, chosen

    def read(self, table: str, names: Sequence[str] | None = None) -> Columns:
        return self.of.read(table, names)

    def read_part(self, table: str, index: int, names: Sequence[str] | None = None) -> Columns:
        part = super().read_part(table, index, names)
        if table != "decision" or "chosen_cpu" not in part:
            return part
        assert index == 0
        values, null = (x.copy() for x in with_null(part["chosen_cpu"]))
        for row, cpu in self.chosen.items():
            values[row] = cpu
        return {**part, "chosen_cpu": (values, null)}


def answers(recording: Recording, mode: str) -> list[list[int | None]]:
    """By decision the answer of every policy; the last items are what was inferred for it."""
    loop = Loop(recording, 0)
    unseen = loop.infer(SPECS[0], mode)
    engine = loop.engine(SPECS, False, SPECS[0], unseen.first_flips)
    columns: list[list[int | None]] = []
    for _ in loop.run([engine], False, unseen):
        for k in range(len(SPECS)):
            cpus, null = engine.ledger(k)["cpu"]
            columns.append([None if n else c for c, n in zip(cpus.tolist(), null.tolist(), strict=True)])
    columns.append(unseen.sync.tolist())
    if unseen.scan is not None:
        columns += [values.tolist() for values in unseen.scan]
    return [list(row) for row in zip(*columns, strict=True)]


def test_a_hypothesis_is_the_same_alone_and_beside_another(folder: Path) -> None:
    """Also where the recorder's clock has not reached the second after which flips are halved."""
    recording = toy(0, folder)
    n = sum(len(recording.read_part("decision", k, ("event_id",))["event_id"]) for k in range(recording.n_parts))
    found = []
    for first, which in (((FirstFlips(),), None), ((FirstFlips(16), FirstFlips()), np.ones(n, np.uint8))):
        loop = Loop(recording, 0)
        unseen = nothing(n)._replace(first_flips=first, flips=which)
        engine = loop.engine(SPECS, False, SPECS[0], unseen.first_flips)
        found.append([engine.ledger(k)["cpu"][0].tolist() for _ in loop.run([engine], False, unseen)
                      for k in range(len(SPECS))])  # fmt: skip
    assert found[0] == found[1]


@cache
def toy(seed: int, folder: Path) -> Recording:
    """A small schedule on 8 CPUs of two LLCs."""
    trace = folder / f"{seed}.dat"
    columns = tracedat.schedule(3000 + 100 * seed, 8)
    tracedat.write(trace, columns, version=7, compression="none", machine=tracedat.Machine(8))
    return import_trace(trace, "pack:1 l3:2 core:2 pu:2", folder / f"{seed}.rewake")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("toys")


@cache
def machine(seed: int, folder: Path, unequal: bool) -> Recording:
    return Unequal(toy(seed, folder).path) if unequal else toy(seed, folder)


@cache
def untouched(seed: int, folder: Path, unequal: bool, mode: str) -> list[list[int | None]]:
    return answers(machine(seed, folder, unequal), mode)


@pytest.mark.parametrize("unequal", [False, True])
@settings(max_examples=8)
@given(st.integers(0, 1), st.sampled_from(MODES), st.data())
def test_another_outcome_of_a_decision_changes_no_answer_to_it(
    folder: Path, unequal: bool, seed: int, mode: str, data: st.DataObject
) -> None:
    recording = machine(seed, folder, unequal)
    assert bool(Loop(recording, 0).options["lead"]) == unequal
    decisions = recording.read_part("decision", 0)
    fair = np.flatnonzero(inputs.fair(decisions)).tolist()
    row, cpu = data.draw(st.sampled_from(fair)), data.draw(st.integers(0, 7))
    before, after = untouched(seed, folder, unequal, mode), answers(Changed(recording, {row: cpu}), mode)
    assert after[row] == before[row]
    if mode == "causal":
        assert after[:row] == before[:row]


@pytest.mark.parametrize(("row", "cpu"), [(495, 0), (130, 5)])
def test_nor_does_it_through_what_an_earlier_one_left_behind(folder: Path, row: int, cpu: int) -> None:
    """Other values for an earlier decision would leave another has_idle_cores."""
    after = answers(Changed(toy(0, folder), {row: cpu}), "auto")
    assert after[row] == untouched(0, folder, False, "auto")[row]


@pytest.mark.parametrize("mode", MODES)
def test_other_outcomes_of_many_decisions_of_a_real_recording(mode: str, tmp_path: Path) -> None:
    """All decisions of one block of time at once: whatever they do together, none of them hears any of it."""
    recording = import_trace(FIXTURES / "64cpu-8llc-hackbench" / "trace.dat", None, tmp_path / "a.rewake")
    decisions = recording.read_part("decision", 0)
    ts = np.asarray(decisions["ts_ns"])
    fair = np.flatnonzero(inputs.fair(decisions))
    rng = np.random.default_rng(3)
    before = answers(recording, mode)
    for row in rng.choice(fair, 2, replace=False).tolist():
        changed = {row: int(rng.integers(64))}
        after = answers(Changed(recording, changed), mode)
        assert after[row] == before[row]
    fold = fold_of(ts, int(ts[0]))
    ours = [i for i in fair.tolist() if fold[i] == FOLDS - 1]
    others = answers(Changed(recording, {i: int(rng.integers(64)) for i in ours}), mode)
    if mode == "auto":
        assert all(others[i][len(SPECS)] == before[i][len(SPECS)] for i in ours), "WF_SYNC of a fold comes from others"
    else:
        assert others[: ours[0] + 1] == before[: ours[0] + 1]
