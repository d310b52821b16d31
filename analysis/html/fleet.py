# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a fleet: what counts, every policy's change with its interval, then the report's tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewake.analysis import fleetout, text
from rewake.analysis.fleet import AUTO, LEAST_GROUP, Fleet, Group
from rewake.analysis.html import charts
from rewake.analysis.html.colours import looks
from rewake.analysis.html.template import fill

Links = Sequence[tuple[str, str]]
"""Other pages: where, and what."""
MOST_DRAWN = 12


def fleet_page(f: Fleet, vega: str, *, tool: str, title: str | None = None, links: Links = ()) -> str:
    """The whole file. `vega` is the script that draws, `tool` its version, `title` the heading instead of the store."""
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
    where = []
    for word, order, verdict in (("loses", "worst first", "regression"), ("wins", "largest gain first", "improvement")):
        found = f.changed(verdict)
        rows = [row | {"where": _place(i, g)} for i, g in enumerate(found[:MOST_DRAWN]) if (row := _row(g.finding))]
        if rows:
            drawn[f"where-{word}"] = charts.changes(f"where-{word}", rows, seen, by="where")
        if f.by_facet:
            where.append((f"where-{word}", f"Where a policy {word}, {order}", len(found)))
    return fill(
        "fleet.html",
        vega,
        {"charts": drawn, "heats": []},
        r={"machine": {"recording": title or f.store}},
        where=where,
        most=MOST_DRAWN,
        links=links,
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


def facet_page(f: Fleet, facet: str, label: str, *, tool: str, title: str, links: Links = ()) -> str:
    """Every policy in every group of a facet."""
    return fill(
        "facet.html",
        "",
        {"charts": {}, "heats": []},
        r={"machine": {"recording": title}},
        f=f,
        m=fleetout.matrix(f, facet),
        label=label,
        links=links,
        least=LEAST_GROUP,
        notes=fleetout.notes(f),
        version=tool,
    )


def studies_page(studies: Sequence[tuple[Fleet, str]], *, tool: str, title: str) -> str:
    """What a store of several studies holds: each with its page."""
    return fill(
        "studies.html",
        "",
        {"charts": {}, "heats": []},
        r={"machine": {"recording": title}},
        studies=[(f, href, fleetout.head(f)[1:], len(f.changed("regression")), len(f.changed("improvement")))
                 for f, href in studies],
        version=tool,
    )  # fmt: skip


def _place(i: int, g: Group) -> str:
    """Two lines beside a chart; no two are the same."""
    name = text.terminal(g.name, 40)
    told = name if g.facet == "machine" else f"{g.facet} {name}"
    return f"{g.finding.policy}: {g.finding.measure.name}\n{told}" + "\u200b" * i


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
    return None if pct is None else 1 + pct / 100
