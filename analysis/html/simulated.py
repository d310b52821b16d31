# SPDX-License-Identifier: GPL-2.0-or-later
"""The page of a simulation: what qualifies it first. Figures are formatted here, never computed; all are modelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from rewake.analysis import grid, simulated_table, sql
from rewake.analysis.html import charts
from rewake.analysis.html.colours import Look, looks
from rewake.analysis.html.template import fill, tree
from rewake.analysis.simulated import NOTHING_TO_JUDGE, Check, Simulated
from rewake.analysis.table import MOST_COLUMNS

Dicts = list[dict[str, Any]]

MOST_WINDOWS = 5_000
"""Windows that a chart draws, over all policies; beyond that the ranges of the table stand for them."""


@dataclass(frozen=True)
class Figures:
    """Answers of the queries that the page draws, of the recorded kernel's column and the policies."""

    span_ns: int | None
    curve: Dicts
    windows: Dicts
    cpus: Dicts


def gather_simulated(con: duckdb.DuckDBPyConnection, span_ns: int | None) -> Figures:
    """Asks the queries on a connection that `simulated.build` has prepared."""

    def in_charge(query: str) -> Dicts:
        return [row for row in sql.run(con, query).dicts() if row["kind"] in ("factual", "policy")]

    cpus = sql.run(con, "topology/cpus").dicts()
    return Figures(span_ns, in_charge("simulate/curve"), in_charge("simulate/windows"), cpus)


def simulated_page(s: Simulated, f: Figures, vega: str, *, tool: str, recording: str | None) -> str:
    """The whole file. `vega` is the script that draws, `tool` its version, `recording` the recording's hash."""
    factual = s.factual["policy"] if s.factual is not None else None
    seen = looks([p["policy"] for p in s.in_charge], factual)
    drawn = _charts(s, f, seen)
    windows = sum(p["windows"] for p in s.in_charge)
    return fill(
        "simulated.html",
        vega,
        {"charts": drawn, "heats": []},
        r=s,
        f=f,
        looks=seen,
        shown=drawn,
        tiles=_tiles(s),
        checks=[_check(c) for c in s.checks],
        results=_results(s),
        apart=any(s.apart(p, figure) for p in s.in_charge for figure in ("p50_ns", "p99_ns", "cycles_per_s")),
        causes=[c[:2] for c in charts.CAUSES if any(p[f"{c[0]}_per_s"] for p in s.in_charge)],
        windows_left=windows if windows > MOST_WINDOWS else 0,
        notes=simulated_table.notes(s) if s.in_charge else [simulated_table.NONE_IN_CHARGE],
        settings=_settings(s),
        machine=tree(f.cpus),
        version=tool,
        recording=recording,
    )


def _charts(s: Simulated, f: Figures, seen: Mapping[str, Look]) -> dict[str, Any]:
    """What is drawn, by the id of its place in the page."""
    out: dict[str, Any] = {}
    if not s.in_charge:
        return out
    if f.curve:
        out["curves"] = charts.curves(f.curve, seen)
    few = len(f.windows) <= MOST_WINDOWS
    for name, field, title in (("windows-p50", "p50_ns", "median of each window, µs"),
                               ("windows-p99", "p99_ns", "p99 of each window, µs")):  # fmt: skip
        if few and (rows := [row for row in f.windows if row[field] is not None]):
            out[name] = charts.spread(rows, seen, field, title, micros=True)
    if any(p["wait_p50_ns"] is not None for p in s.in_charge):
        out["waits"] = charts.waits(s.in_charge, seen)
    out["queued"] = charts.bars(_only(s, "queued_pct"), seen, "queued_pct", "wakeups onto a busy CPU, %")
    out["causes"] = charts.causes(s.in_charge, list(seen))
    out["cycles"] = charts.bars(_only(s, "cycles_per_s"), seen, "cycles_per_s", "wake cycles per second")
    if few and (rows := [row for row in f.windows if row["cycles_per_s"] is not None]):
        out["windows-cycles"] = charts.spread(rows, seen, "cycles_per_s", "wake cycles per second, each window")
    for name, where in (("machine", "on the machine"), ("llc", "in the LLC")):
        field = f"{name}_idle_pct"
        out[f"idle-{name}"] = charts.bars(_only(s, field), seen, field, f"a CPU idle {where} while a task waits, %")
    return out


def _only(s: Simulated, field: str) -> Dicts:
    return [{"policy": p["policy"], field: p[field]} for p in s.in_charge]


def _tiles(s: Simulated) -> list[tuple[str, str, str, bool]]:
    """Value, name, what it is, whether it is bad."""
    out = []
    pinned, null, factual = (s.check(kind) for kind in ("pinned", "null", "factual"))
    for name, check, what in (
        ("V3 pinned", pinned, "recorded placement forced: the latencies that were recorded"),
        ("V4 factual", factual, "the recorded kernel's column in charge: its latencies and moves"),
    ):
        if check is None:
            out.append(("none", name, "not simulated: nothing says how well the model follows this kernel", True))
        elif not check.judged:
            out.append(("unknown", name, f"{what}; there was {NOTHING_TO_JUDGE}: no wakeup waited for a CPU", True))
        elif check.holds:
            out.append(("holds", name, what, False))
        else:
            out.append(("does not hold", name, f"{what}; missed: {', '.join(check.missed)}", True))
    if pinned is not None and null is not None and None not in (pinned.figures["ks"], null.figures["ks"]):
        better = pinned.figures["ks"] < null.figures["ks"]
        what = (
            f"KS distance from the record {grid.number(pinned.figures['ks'], 3)}, "
            f"of first come, first served {grid.number(null.figures['ks'], 3)}"
        )
        out.append(("beaten" if better else "not beaten", "null model", what, not better))
    broken = "all hold" if not s.broken else f"{grid.count(s.broken)} failed"
    out.append((broken, "conservation", "no task twice, no time backwards, no wakeup and no work lost", s.broken > 0))
    worst = max((p["diverged_pct"] or 0.0 for p in s.in_charge), default=None)
    over = f"; too many: {', '.join(p['policy'] for p in s.diverged)}" if s.diverged else ""
    what = f"windows that left the recording behind, of the policy with the most{over}"
    out.append((grid.percent(worst, 0), "diverged", what, bool(s.diverged)))
    return out


def _check(c: Check) -> dict[str, Any]:
    """One line of the validation table: simulated and recorded figure, how far apart they may be, and its mark."""

    def pair(name: str, unit: str) -> tuple[str, str, str, str]:
        form = grid.micros if unit == "ns" else lambda x: grid.number(x, 0)
        model, truth = form(c.figures[f"{name}_{unit}"]), form(c.figures[f"recorded_{name}_{unit}"])
        within = f"± {form(round(c.allowed[name]))}" if name in c.allowed and c.kind != "null" else ""
        return model, truth, within, "bad" if name in c.missed and c.kind != "null" else ""

    return {
        "name": simulated_table.NAMES[c.kind],
        "policy": c.policy,
        "pairs": [pair("p50", "ns"), pair("p90", "ns"), pair("p99", "ns"), pair("wait_p90", "ns"),
                  pair("moves", "per_s"), pair("cycles", "per_s")],
        "ks": grid.number(c.figures["ks"], 3),
        "ks_bad": "bad" if "ks" in c.missed and c.kind != "null" else "",
        "wait_ks": grid.number(c.figures["wait_ks"], 3),
    }  # fmt: skip


def _results(s: Simulated) -> dict[str, Any]:
    """The headline table as cells, the recorded kernel's column first."""
    policies = s.in_charge

    def compared(p: Mapping[str, Any], figure: str, text: str) -> tuple[str, str, str]:
        fewer = (p[f"{figure}_vs_factual_pct"] or 0.0) < 0
        good = fewer if figure.endswith("_ns") else not fewer
        mark = "" if not s.apart(p, figure) else "better" if good else "worse"
        return text, simulated_table.versus(p, figure), mark

    def latency(figure: str) -> list[tuple[str, str, str]]:
        return [compared(p, figure, grid.micros(p[figure])) for p in policies]

    def plain(texts: list[str]) -> list[tuple[str, str, str]]:
        return [(text, "", "") for text in texts]

    def rate(figure: str) -> list[tuple[str, str, str]]:
        return plain([grid.number(p[figure], 0) for p in policies])

    cycles = [compared(p, "cycles_per_s", grid.number(p["cycles_per_s"], 0)) for p in policies]
    diverged = {p["policy"] for p in s.diverged}
    return {
        "policies": policies,
        "factual": s.factual["policy"] if s.factual is not None else None,
        "as_columns": len(policies) <= MOST_COLUMNS + 1,
        "figures": [
            ("latency p50", "µs", latency("p50_ns")),
            ("latency p90", "µs", latency("p90_ns")),
            ("latency p99", "µs", latency("p99_ns")),
            ("p99, windows", "µs", plain([simulated_table.reach(p["p99_low_ns"], p["p99_high_ns"]) for p in policies])),
            ("latency p99.9", "µs", plain([grid.micros(p["p999_ns"]) for p in policies])),
            ("queue wait p99", "µs", plain([grid.micros(p["wait_p99_ns"]) for p in policies])),
            ("wake cycles", "per s", cycles),
            ("moves by wakeups", "per s", rate("wake_per_s")),
            ("moves, leave LLC", "per s", rate("cross_llc_per_s")),
            ("moves, leave node", "per s", rate("cross_node_per_s")),
            ("idle while waiting", "% of time", plain([grid.number(p["machine_idle_pct"]) for p in policies])),
            ("diverged", "% of windows", [
                (grid.number(p["diverged_pct"], 0), "", "over" if p["policy"] in diverged else "") for p in policies
            ]),
        ],
    }  # fmt: skip


_MEANING = (
    ("windows_ns", "windows of at most"), ("replicas", "replicas, each with other costs drawn"),
    ("balance", "balancing"), ("move_factor", "cost of running elsewhere, times 2, 20 and 50 µs"),
    ("scan_ns", "cost per CPU searched, ns"), ("smt", "speed beside a busy sibling"), ("timers", "timers"),
    ("sync", "WF_SYNC"), ("seed", "seed"),
)  # fmt: skip


_OF_POLICIES = ("windows_ns", "balance")
"""Not of the recorded placement, which is forced in short windows."""


def _settings(s: Simulated) -> list[tuple[str, str]]:
    """What the simulation was made with, in words."""
    given = {name: value for name, value in s.settings.items() if not (s.settings.get("pin") and name in _OF_POLICIES)}
    return [
        (meaning, f"{given[name] / 1e9:g} s" if name == "windows_ns" else str(given[name]))
        for name, meaning in _MEANING
        if name in given
    ]
