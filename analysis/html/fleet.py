# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a fleet: what counts, every policy's change with its interval, then the report's tables."""

from __future__ import annotations

from typing import Any

from rewake.analysis import fleetout
from rewake.analysis.fleet import AUTO, Fleet
from rewake.analysis.html import charts
from rewake.analysis.html.colours import looks
from rewake.analysis.html.template import fill


def fleet_page(f: Fleet, vega: str, *, tool: str) -> str:
    """The whole file. `vega` is the script that draws, `tool` its version."""
    compared = list(dict.fromkeys(g.finding.policy for g in f.overall))
    seen = looks(compared, AUTO)
    drawn: dict[str, Any] = {}
    labels = []
    for name in dict.fromkeys(g.finding.measure.name for g in f.overall):
        rows = [row for g in f.overall if g.finding.measure.name == name and (row := _row(g.finding)) is not None]
        if rows:
            drawn[f"change-{name}"] = charts.changes(f"change-{name}", rows, seen)
            label = next(g.finding.measure.label for g in f.overall if g.finding.measure.name == name)
            labels.append((f"change-{name}", label))
    return fill(
        "fleet.html",
        vega,
        {"charts": drawn, "heats": []},
        r={"machine": {"recording": f.store}},
        f=f,
        looks=seen,
        shown=drawn,
        charts=labels,
        head=fleetout.head(f),
        sections=list(fleetout.sections(f)),
        notes=fleetout.notes(f),
        tasks_apart=f.tasks - f.standing.get("counted", (0, 0))[0],
        version=tool,
    )


def _row(found: Any) -> dict[str, Any] | None:
    """Ratios to the baseline; None where the change is not known."""
    effect, interval = found.effect_pct, found.interval_pct
    if effect is None:
        return None
    low, high = (None, None) if interval is None else interval
    return {
        "policy": found.policy,
        "from": _ratio(min(effect)),
        "to": _ratio(max(effect)),
        "low": _ratio(low),
        "high": _ratio(high),
        "n": found.n,
        "verdict": fleetout.verdict(found),
    }


def _ratio(pct: float | None) -> float | None:
    """Within what the axis shows."""
    return None if pct is None else min(max(1 + pct / 100, charts.RATIOS[0]), charts.RATIOS[1])
