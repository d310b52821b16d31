# SPDX-License-Identifier: GPL-2.0-or-later
"""Changes that were put into histories are found where they are, and nothing else; what becomes of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import history
import numpy as np
import pytest

from rewake.analysis import trend, trendout
from rewake.analysis.measures import MEASURES
from rewake.analysis.trend import Point, Series
from rewake.errors import RewakeError
from rewake.forms import Store

pytest.importorskip("otava.analysis")


def series(values: Sequence[float | None], metric: str = "p99", name: str = "s") -> Series:
    points = tuple(
        Point(f"2026-01-01T00:{i // 60:02d}:{i % 60:02d}Z", None, None, f"run {i}", f"suite=s/{i}.parquet", v)
        for i, v in enumerate(values)
    )
    return Series(name, "m", "linux-6.1", MEASURES[metric], None, points)


def noisy(levels: Sequence[tuple[int, float]], seed: int = 0, noise: float = 0.01) -> list[float]:
    """Runs and level, one after the other."""
    rng = np.random.default_rng(seed)
    return [1e6 * level * math.exp(rng.normal(0, noise)) for n, level in levels for _ in range(n)]


def states(values: Sequence[float | None], floor: float = 2.0) -> list[tuple[int, str]]:
    (found,) = trend.watch([series(values)], floor).series
    return [(c.at, c.state) for c in found.changes]


def read(store: Store) -> list[Series]:
    con = store.connect()
    try:
        return trend.read(con)
    finally:
        con.close()


def test_sixty_nights_with_one_regression(tmp_path: Path) -> None:
    """6 % at night 40 in the p99 of one policy, both ends: found within one run, and nothing else in 41 histories."""
    store = history.nightly(tmp_path / "s")
    found = trend.watch(read(store), 2.0)
    assert len(found.series) == 41
    changed = [s for s in found.series if s.changes]
    assert [(s.policy, s.name, len(s.changes)) for s in changed] == [
        ("linux-6.1", "p99 lo", 1), ("linux-6.1", "p99 hi", 1),
    ]  # fmt: skip
    assert changed == list(found.series[:2])
    for s in changed:
        (change,) = s.changes
        assert abs(change.at - 40) <= 1 and change.state == trend.FAILING
        assert change.effect_pct == pytest.approx(6.0, abs=1.5)
        assert change.q <= trend.MAX_Q and (change.n_before, change.n_after) == (change.at, 60 - change.at)


def test_sixty_nights_of_nothing() -> None:
    quiet = [series(noisy([(60, 1.0)], seed, 0.015), name=str(seed)) for seed in range(41)]
    assert not [s.suite for s in trend.watch(quiet, 0.0).series if s.changes]


@pytest.mark.slow
def test_how_often_it_is_right() -> None:
    """200 histories with the step and 200 without, 1.5 % of noise."""
    hits = false = 0
    for seed in range(200):
        places = [at for at, _ in states(noisy([(40, 1.0), (20, 1.06)], seed, 0.015))]
        hits += len(places) == 1 and abs(places[0] - 40) <= 1
        false += bool(states(noisy([(60, 1.0)], 1000 + seed, 0.015), floor=0.0))
    print(f"found within one run and nothing else: {hits} of 200; false: {false} of 200")
    assert hits >= 190 and false <= 4


def test_a_life() -> None:
    """Nothing, then open with the run that shows it, then still failing, then fixed."""
    whole = noisy([(20, 1.0), (8, 1.2), (12, 1.0)])
    seen = [(n, states(whole[:n])) for n in range(10, 41)]
    told = [(n, told[0]) for n, told in seen if told]
    first, (at, state) = told[0]
    assert state == trend.OPEN and abs(at - 20) <= 1 and 21 <= first <= 26
    assert states(whole[: first + 1])[0][1] == trend.FAILING
    assert [s for _, s in states(whole)] == [trend.FIXED, trend.IMPROVED]


def test_exact_replays_have_no_noise() -> None:
    assert states([100_000.0] * 20 + [106_000.0] * 5) == [(20, trend.FAILING)]
    assert states([100_000.0] * 30) == []


def test_a_fall_is_an_improvement() -> None:
    assert states(noisy([(20, 1.2), (20, 1.0)])) == [(20, trend.IMPROVED)]


def test_below_the_floor_is_no_change() -> None:
    assert states(noisy([(30, 1.0), (30, 1.06)])) and not states(noisy([(30, 1.0), (30, 1.06)]), floor=10.0)


def test_from_zero_there_is_no_per_cent() -> None:
    (found,) = trend.watch([series([0.0] * 20 + [5.0] * 20, "stacked")], 2.0).series
    assert found.changes[0].effect_pct is None
    assert "from 0" in trendout.table(trend.watch([series([0.0] * 20 + [5.0] * 20, "stacked")], 2.0))


def test_unbounded_runs_are_left_out_not_counted_as_zero() -> None:
    values: list[float | None] = list(noisy([(20, 1.0), (20, 1.06)]))
    values[5] = values[25] = None
    assert states(values) == [(20, trend.FAILING)]
    (found,) = trend.watch([series([None] * 20)], 2.0).series
    assert not found.changes and trend.watch([found], 2.0).short == 1


def test_short_histories_are_counted_not_judged() -> None:
    found = trend.watch([series([1.0, 2.0, 3.0])], 2.0)
    assert found.short == 1 and not found.series[0].changes
    told = trendout.table(found).replace("\n  ", " ")
    assert "1 history has fewer than 8 runs of which the figure is bounded and was not looked at" in told
    assert told.startswith("nothing judged yet in 1 history of ")
    judged = trend.watch([series([1e6] * 7), series([1e6] * 8, name="t")], 2.0)
    assert trendout.table(judged).startswith("no change in 2 histories of ")


def test_noise_bands_hold_the_runs_of_their_level() -> None:
    (found,) = trend.watch([series(noisy([(40, 1.0), (20, 1.06)]))], 2.0).series
    assert [(level.first, level.last) for level in found.levels] == [(0, 39), (40, 59)]
    inside = sum(level.low <= (p.value or 0) <= level.high for level in found.levels
                 for p in found.points[level.first : level.last + 1])  # fmt: skip
    assert 0.85 * 60 <= inside < 60


def test_many_histories_ask_for_more() -> None:
    """The same weak change, alone and among 400 histories without one."""
    weak = next(v for seed in range(200) if 0.003 < _q(v := noisy([(10, 1.0), (10, 1.012)], seed)) < 0.01)
    quiet = [series([1e6 + i % 2 for i in range(20)], name=str(k)) for k in range(400)]
    assert trend.watch([series(weak)], 0.5).series[0].changes
    assert not any(s.changes for s in trend.watch([series(weak), *quiet], 0.5).series)


def _q(values: Sequence[float]) -> float:
    (found,) = trend.watch([series(values)], 0.5).series
    return found.changes[0].q if found.changes else 1.0


def test_without_otava_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "otava.analysis", None)
    with pytest.raises(RewakeError, match=r"rewake\[history\]"):
        trend.watch([series(noisy([(20, 1.0)]))], 2.0)


def ends(lo: Sequence[float], hi: Sequence[float]) -> list[list[tuple[int, str]]]:
    both = [replace(series(lo), side="lo"), replace(series(hi), side="hi")]
    found = {s.side: s for s in trend.watch(both, 2.0).series}
    return [[(c.at, c.state) for c in found[side].changes] for side in ("lo", "hi")]


def test_one_end_alone_is_no_regression() -> None:
    moved, still = noisy([(20, 1.0), (20, 1.1)]), noisy([(40, 3.0)], 1)
    assert ends(moved, still) == [[(20, trend.ONE_END)], []]
    assert ends(moved, [3 * v for v in moved]) == [[(20, trend.FAILING)], [(20, trend.FAILING)]]
    assert ends(moved, [3e12 / v for v in moved]) == [[(20, trend.ONE_END)], [(20, trend.ONE_END)]]


def test_one_run_is_no_level() -> None:
    assert states([100_000.0] * 20 + [150_000.0]) == []
    assert states([150_000.0] + [100_000.0] * 20) == []
    assert states([100_000.0] * 20 + [150_000.0] * 2) == [(20, trend.OPEN)]
    assert states([100_000.0] * 12 + [110_000.0] + [120_000.0] * 12) == [(13, trend.FAILING)]
    (found,) = trend.watch([series(noisy([(20, 1.0), (1, 1.3), (8, 1.5)]))], 2.0).series
    assert [min(c.n_before, c.n_after) for c in found.changes] == [9]


@pytest.mark.parametrize("slip", [1.1, 2.0, 10.0])
def test_a_slip_hides_nothing(slip: float) -> None:
    """One run far off, in the middle of the runs before or of those after."""
    for seed in range(5):
        before = noisy([(10, 1.0), (1, slip), (10, 1.0), (8, 1.2)], seed)
        assert states(before) == [(21, trend.FAILING)]
        assert states(noisy([(20, 1.0), (4, 1.2), (1, 1.2 * slip), (4, 1.2)], seed)) == [(20, trend.FAILING)]
        (found,) = trend.watch([series(before)], 2.0).series
        assert found.changes[0].effect_pct == pytest.approx(20.0, abs=2.0)
        assert states(noisy([(10, 1.0), (1, slip), (10, 1.0)], seed)) == []


@pytest.mark.parametrize(("slip", "step"), [(1.3, 1.06), (2.0, 1.06), (0.7, 1.06), (1.3, 1.12)])
def test_a_slip_near_a_change_does_not_move_it(slip: float, step: float) -> None:
    """One run far off, two runs before the change or in the second after it, among runs of their level."""
    for seed in range(8):
        before = noisy([(38, 1.0), (1, slip), (1, 1.0), (20, step)], seed)
        after = noisy([(40, 1.0), (1, step), (1, step * 0.7), (18, step)], seed)
        for values in (before, after):
            ((at, state),) = states(values)
            assert abs(at - 40) <= 1 and state == trend.FAILING


@pytest.mark.parametrize("episode", [(8, 6, 6), (10, 5, 10)])
def test_a_short_episode_is_found_with_both_its_ends(episode: tuple[int, int, int]) -> None:
    before, bad, after = episode
    for seed in range(5):
        found = states(noisy([(before, 1.0), (bad, 1.2), (after, 1.0)], seed))
        assert [state for _, state in found] == [trend.FIXED, trend.IMPROVED]
        assert [at for at, _ in found] == pytest.approx([before, before + bad], abs=1)
