# SPDX-License-Identifier: GPL-2.0-or-later
"""The text tables of the input audit and of the error budget. Nothing is computed here."""

from __future__ import annotations

from rewake.analysis.audit import Audit
from rewake.analysis.budget import Budget
from rewake.analysis.grid import NOTHING, Column, count, percent, render, share, wrap
from rewake.analysis.text import terminal


def _amount(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}"


def audit(a: Audit) -> str:
    """Each input against its probed value, then the classes."""
    found = a.inputs
    lines = wrap(
        f"Inputs of {terminal(a.policy)} as the events give them, against the probed ones; decisions of the first "
        f"{a.warm_up_ns / 1e9:.3g} s are left out. Close: within 10 % or 16. Past warm-up: of all decisions "
        "those at which everything that the input depends on is in the recording."
    )
    grid = [
        Column(("input",), [i.input for i in found], left=True),
        Column(("origin",), [i.origin for i in found], left=True),
        Column(("decisions",), [count(i.decisions) for i in found]),
        Column(("exact",), [share(i.exact) for i in found]),
        Column(("close",), [share(i.close) for i in found]),
        Column(("error", "p50"), [_amount(i.error_p50) for i in found]),
        Column(("", "p90"), [_amount(i.error_p90) for i in found]),
        Column(("", "p99"), [_amount(i.error_p99) for i in found]),
        Column(("R2",), [_ratio(i.r2) for i in found]),
        Column(("probed", "mean"), [_amount(i.probed_mean) for i in found]),
        Column(("mean",), [_amount(i.mean) for i in found]),
        Column(("past", "warm-up"), [NOTHING if i.warm is None else count(i.warm) for i in found]),
        Column(("", "exact"), [share(i.warm_exact) for i in found]),
    ]
    classes = [
        Column(("class by events",), [c.class_ for c in a.classes], left=True),
        Column(("wakeups",), [count(c.wakeups) for c in a.classes]),
        Column(("reached placement",), [count(c.placed) for c in a.classes]),
    ]
    return "\n".join([*lines, "", *render(grid), "", *render(classes)]) + "\n"


def budget(b: Budget) -> str:
    """What the misses are due to, and what the order of events leaves open."""
    of = f"{count(b.misses)} misses of {count(b.decisions)} decisions of {terminal(b.policy)}"
    lines = wrap(
        f"{of}: {count(b.proven)} proven, {count(b.possible)} with a possible cause only, {count(b.unexplained)} "
        "without. "
        "Proven: the recorded choice comes out with the input's probed value"
        + (" (replay had taken them all, but for loads where there are task groups)" if b.probed else "")
        + "; possible: with another value of it. Placebo: the same for a random other CPU in place of the recorded one."
    )
    grid = [
        Column(("input",), [c.input for c in b.causes], left=True),
        Column(("proven",), [count(c.proven) for c in b.causes]),
        Column(("placebo",), [count(c.proven_placebo) for c in b.causes]),
        Column(("possible",), [count(c.possible) for c in b.causes]),
        Column(("placebo",), [count(c.possible_placebo) for c in b.causes]),
    ]
    branches = [
        Column(("branch",), [terminal(name) for name, _, _ in b.by_branch], left=True),
        Column(("misses",), [count(n) for _, n, _ in b.by_branch]),
        Column(("open order",), [count(n) for _, _, n in b.by_branch]),
    ]
    answers = NOTHING if b.order_answers is None else f"{b.order_answers:.3f}"
    open_order = percent(100 * b.open_order / max(b.misses, 1))
    rest = wrap(
        f"Order of events less than {b.window_ns / 1000:g} us apart: {answers} answers a decision; the recorded CPU is "
        f"one of them in {share(b.order_agreement)}, of the misses in {open_order}. "
        f"Equivalent misses (another CPU, as idle, same LLC, core as idle; no agreement): {count(b.equivalent)}."
    )
    return "\n".join([*lines, "", *render(grid), "", *rest, "", *render(branches)]) + "\n"
