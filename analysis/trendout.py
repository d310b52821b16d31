# SPDX-License-Identifier: GPL-2.0-or-later
"""What the changes in a store's histories look like: a table, and rows for CSV."""

from __future__ import annotations

from rewake.analysis import sql, text
from rewake.analysis.grid import NOTHING, Column, counted, micros, number, render, wrap
from rewake.analysis.measures import Measure
from rewake.analysis.trend import LEAST_POINTS, MAX_Q, METHOD, STATES, Change, Series, Trend


def value(measure: Measure, x: float | None) -> str:
    """A figure with its unit's digits, without the unit."""
    if x is None:
        return NOTHING
    return micros(round(x)) if measure.unit == "ns" else number(x, 2)


def unit(measure: Measure) -> str:
    return {"ns": "µs", "per 1,000": "/1k"}.get(measure.unit, measure.unit)


def day(made: str) -> str:
    """`2026-10-11 03:00`, or the day alone at midnight."""
    return made[:16].replace("T", " ").removesuffix(" 00:00")


def effect(c: Change) -> str:
    return "from 0" if c.effect_pct is None else f"{c.effect_pct:+.1f} %"


def _all(trend: Trend) -> list[tuple[Series, Change]]:
    """Open regressions first, improvements last."""
    found = [(s, c) for s in trend.series for c in s.changes]
    return sorted(found, key=lambda pair: STATES.index(pair[1].state))


def short(trend: Trend) -> str:
    """What was too short to be judged."""
    number, has = counted(trend.short, "history", "histories"), "has" if trend.short == 1 else "have"
    of = "runs of which the figure is bounded"
    return f"{number} {has} fewer than {LEAST_POINTS} {of} and {'was' if trend.short == 1 else 'were'} not looked at."


def unchanged(trend: Trend) -> str:
    """What is said where no change was found."""
    return "no change" if trend.short < len(trend.series) else "nothing judged yet"


def table(trend: Trend) -> str:
    """For a terminal."""
    found = _all(trend)
    counts = [(state, sum(c.state == state for _, c in found)) for state in STATES]
    told = ", ".join(f"{n} {state}" for state, n in counts if n) or unchanged(trend)
    runs = {p.shard for s in trend.series for p in s.points}
    lines = [f"{told} in {counted(len(trend.series), 'history', 'histories')} of {counted(len(runs), 'run')}"]
    if found:
        shown = [(s, c, s.points[c.at]) for s, c in found]
        grid = [
            Column(("state",), [c.state for _, c, _ in shown], left=True),
            Column(("metric",), [f"{s.name} ({unit(s.measure)})" for s, _, _ in shown], left=True),
            Column(("policy",), [text.terminal(s.policy, 24) for s, _, _ in shown], left=True),
            Column(("since",), [day(p.made) for _, _, p in shown], left=True),
            Column(("revision",), [text.terminal(p.revision or NOTHING, 14) for _, _, p in shown], left=True),
            Column(("change",), [effect(c) for _, c, _ in shown]),
            Column(
                ("before", "→ after"),
                [f"{value(s.measure, c.before)} → {value(s.measure, c.after)}" for s, c, _ in shown],
            ),
            Column(("q",), [f"{c.q:.1g}" for _, c, _ in shown]),
            Column(("n",), [f"{c.n_before}+{c.n_after}" for _, c, _ in shown]),
        ]
        head = render(grid)
        lines += ["", *head[:2]]
        group: tuple[str, str] | None = None
        for (s, _, _), line in zip(shown, head[2:], strict=True):
            if group != (s.suite, s.machine):
                group = (s.suite, s.machine)
                lines += wrap(f"{text.terminal(s.suite, 60)}, {text.terminal(s.machine, 60)}:")
            lines.append(line)
    passed_over = f" {short(trend)}" if trend.short else ""
    method = (
        f"{METHOD}; p times the places it was picked from, Benjamini-Hochberg over all histories (q ≤ {MAX_Q:g}), at "
        f"least {trend.floor_pct:g} %. n: runs before and after.{passed_over} open: the newest run brought it to "
        "light; fixed: a later level is back within that distance; one end: the other end of [lo, hi] did not move, "
        "which proves nothing."
    )
    return "\n".join([*lines, "", *wrap(method)]) + "\n"


def rows(trend: Trend) -> sql.Rows:
    """For CSV: one row per change."""
    columns = (
        "state", "suite", "machine", "policy", "metric", "end", "since", "revision", "run", "effect_pct", "before",
        "after", "unit", "p", "q", "n_before", "n_after", "method",
    )  # fmt: skip
    flat = []
    for s, c in _all(trend):
        p = s.points[c.at]
        flat.append(
            (c.state, s.suite, s.machine, s.policy, s.measure.name, s.side, p.made, p.revision, p.run, c.effect_pct,
             c.before, c.after, s.measure.unit, c.p, c.q, c.n_before, c.n_after, METHOD)
        )  # fmt: skip
    return sql.Rows(columns, flat)
