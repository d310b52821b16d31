# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a replay: which sections it has, and the template filled. Figures are formatted here, never computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewake.analysis import grid, inputs, table
from rewake.analysis.html import charts
from rewake.analysis.html.colours import Look, looks
from rewake.analysis.html.figures import Figures, Heat
from rewake.analysis.html.template import fill, tree
from rewake.analysis.metrics import PolicyFigures
from rewake.analysis.report import Report

MOST_PANELS = 12
"""Latency panels; more policies than that have their curves in latency/curve."""


def page(r: Report, f: Figures, vega: str, *, tool: str, recording: str | None) -> str:
    """The whole file. `vega` is `bundle`'s text, `tool` its version, `recording` the recording's hash."""
    seen = looks([p.policy for p in r.policies], r.auto)
    drawn = _charts(r, f, seen)
    return fill(
        "page.html",
        vega,
        {"charts": drawn, "heats": [_cells(h, r) for h in f.heats]},
        r=r,
        f=f,
        looks=seen,
        shown=drawn,
        heats=[(h.kind, f"heat-{h.key}") for h in f.heats],
        results=_results(r),
        panels=[n.removeprefix("curve-") for n in drawn if n.startswith("curve-")],
        panels_left=max(0, len(_alternatives(r)) - MOST_PANELS) if f.curve else 0,
        machine=tree(f.cpus),
        known=_provenance(r, f),
        assumed=_assumed(r),
        targets=[t for t in charts.TARGETS if any(row["target"] == t[0] for row in f.flow)],
        kernel_chose=charts.KERNEL_CHOSE,
        notes=table.notes(r),
        windows_ns=f.windows[0]["width_ns"] if f.windows else None,
        version=tool,
        recording=recording,
    )


def _alternatives(r: Report) -> list[PolicyFigures]:
    return [p for p in r.policies if p.policy != "recorded"]


def _charts(r: Report, f: Figures, seen: Mapping[str, Look]) -> dict[str, Any]:
    """What is drawn, by the id of its place in the page."""
    names = list(seen)
    others = {name: look for name, look in seen.items() if name != "recorded"}
    out: dict[str, Any] = {}
    if f.flow:
        out["flow"] = charts.flow(f.flow, names)
    by_policy: dict[str, list[dict[str, Any]]] = {}
    for row in f.curve:
        by_policy.setdefault(row["policy"], []).append(row)
    ends = [ns for row in f.curve for ns in (row["lo_ns"], row["hi_ns"]) if ns]
    for i, p in enumerate(_alternatives(r)[:MOST_PANELS]):
        if ends and p.policy in by_policy:
            recorded = by_policy.get("recorded", [])
            span = min(ends), max(ends)
            out[f"curve-{i}"] = charts.curve(by_policy[p.policy], recorded, seen[p.policy], span)
    for heat in f.heats:
        out[f"heat-{heat.key}"] = charts.heat(heat.kind, heat.order, heat.breaks)
    windows = [row for row in f.windows if row["policy"] != "recorded"]
    if windows:
        out["disagreed"] = charts.over_time(windows, others, "disagreed_pct", "another CPU than recorded, %")
    if windows:
        out["exposed"] = charts.over_time(windows, others, "exposed_pct", "exposed, %")
        stacked = [row for row in f.stacked if row["policy"] != "recorded"]
        out["exposure-bars"] = charts.bars(stacked, others, "exposure_pct", "exposed decisions, %", r.max_exposure)
        out["collision-bars"] = charts.bars(stacked, others, "self_collision_per_1k", "self-collisions per 1,000")
    if r.fidelity is not None and r.fidelity.branches:
        out["branches"] = charts.branches(r.fidelity.plain()["branches"])
    return out


def _cells(heat: Heat, r: Report) -> dict[str, Any]:
    """The cells of a heatmap by policy: [from, to, moves, recorded, difference], places by position."""
    at = {name: i for i, name in enumerate(heat.order)}
    cells: dict[str, list[list[int]]] = {p.policy: [] for p in r.policies}
    origin, destination = f"from_{heat.key}", f"to_{heat.key}"
    for row in heat.rows:
        if row[origin] in at and row[destination] in at:
            figures = [row["moves"], row["recorded"], row["difference"]]
            cells[row["policy"]].append([at[row[origin]], at[row[destination]], *figures])
    return {"id": f"heat-{heat.key}", "names": heat.order, "cells": cells}


def _results(r: Report) -> dict[str, Any]:
    """The headline table as cells: policies as columns where there are few, else as rows."""
    alternatives = _alternatives(r)
    policies = [p for p in r.policies if p.policy == "recorded"] + alternatives
    recorded = policies[0] if policies and policies[0].policy == "recorded" else None
    figures: list[tuple[str, str, list[tuple[str, str, str]]]] = []
    for key, label, _ in table.RATES:
        row = []
        for p in policies:
            versus = "" if recorded is None or p is recorded else table.versus(p[key], recorded[key]).strip(" ()")
            better = "" if not versus or versus.startswith("0") else "worse" if versus.startswith("-") else "better"
            versus = versus.replace(" ", "").replace("-999%", "below -998%")  # as far as the text table has room
            row.append((grid.number(p[key]), versus, better))
        figures.append((label, "per 1,000", row))
    over = {p.policy for p in r.over_exposed()}
    tail = (
        [(table.p99(p), "", "") for p in policies],
        [(grid.number(p["known_pct"]), "", "") for p in policies],
        [(table.own(p, grid.number(p["exposure_pct"])), "←" if p.policy in over else "", "over") for p in policies],
        [(table.own(p, grid.number(p["self_collision_per_1k"])), "", "") for p in policies],
    )
    figures += [
        (label, unit.replace("/1k", "per 1,000"), row) for (label, unit), row in zip(table.TAIL, tail, strict=True)
    ]
    return {
        "policies": policies,
        "as_columns": len(alternatives) <= table.MOST_COLUMNS,
        "figures": figures,
    }


def _provenance(r: Report, f: Figures) -> list[dict[str, Any]]:
    """Every input that some policy looked at: its trust word, and how many decisions of the recorded kernel's column
    had to assume it."""
    of_auto = {row["input"]: row for row in f.inputs if row["policy"] == r.auto}
    sync = str((r.run.get("assume") or {}).get("sync"))
    out: list[dict[str, Any]] = [
        {"name": i.name, "meaning": i.meaning, "how": i.how, "known": i.known, "assumed": None, "row": None}
        for i in inputs.ALWAYS
    ]
    for name in dict.fromkeys(row["input"] for row in f.inputs if row["input"] != "any"):
        found = inputs.BY_NAME[name]
        out.append(
            {
                "name": name,
                "meaning": found.meaning,
                "how": found.how,
                "known": found.known,
                "assumed": inputs.trust(name, (1 << len(inputs.BY_NAME)) - 1, sync),
                "row": of_auto.get(name),
            }
        )
    return out


def _assumed(r: Report) -> dict[str, Any]:
    """Assumed inputs by policy, as a table: what `population/inputs` says of each."""
    policies = [p for p in r.policies if p.inputs.get("any")]
    names = list(dict.fromkeys(name for p in policies for name in p.inputs if name != "any"))
    return {
        "names": names,
        "rows": [(p.policy, [grid.number(p.inputs.get(name)) for name in ("any", *names)]) for p in policies],
    }
