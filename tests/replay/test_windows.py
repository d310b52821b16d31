# SPDX-License-Identifier: GPL-2.0-or-later
"""How a recording is cut into windows."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from rewake.replay.simulate import ANCHOR, SLACK, crossed, odd, plan

MS = 1_000_000


def test_scripts_go_on_behind_their_window() -> None:
    """For as long as a wakeup of its end may wait: who competes with it has work until then."""
    assert [w.horizon - w.to for w in plan(0, 100 * MS, 2 * MS, MS)[:2]] == [8 * MS] * 2, "four windows"
    waits_long = plan(0, 100 * MS, 2 * MS, MS, 30 * MS)
    assert [w.horizon - w.to for w in waits_long[:2]] == [30 * MS] * 2
    assert waits_long[-1].horizon == 100 * MS, "nothing is known of what comes then"
    assert plan(0, 10_000 * MS, 2 * MS, MS, 2 * SLACK)[0].horizon == 2 * MS + SLACK
    assert plan(0, 10_000 * MS, 1_000 * MS)[0].horizon == 1_000 * MS + SLACK


def test_each_window_begins_where_the_one_before_ends() -> None:
    found = plan(5 * MS, 105 * MS, 20 * MS, 5 * MS)
    assert [w.to for w in found] == [25 * MS, 45 * MS, 65 * MS, 85 * MS, 105 * MS]
    assert [w.measured for w in found] == [10 * MS, 25 * MS, 45 * MS, 65 * MS, 85 * MS]
    assert [w.measured - w.start for w in found] == [5 * MS] * 5


def test_costs_of_an_anchored_window_are_of_others() -> None:
    first, n = 4_326_918_639, 64
    found = crossed(plan(first, first + n * ANCHOR, ANCHOR, MS), first)
    halves = [odd(w.measured, first) for w in found]
    assert sum(halves) == n // 2
    assert sum(halves[::2]) == n // 4, "of those that have a tick, too"
    assert max(len(list(same)) for _, same in groupby(halves)) == 2, "and of each time"
    for w, half in zip(found, halves, strict=True):
        assert [odd(ts, first) for ts in (w.measured, w.to - 1)] == [half] * 2
        assert w.costs == (1 if half else 2), "costs of the other half"
    assert odd(np.array([w.measured for w in found]), first).tolist() == halves
