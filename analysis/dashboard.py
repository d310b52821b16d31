# SPDX-License-Identifier: GPL-2.0-or-later
"""The dashboard of a store: a static site. An index of all histories, most significant first, and one page per run.

No server and no network: `index.html` opens from a file, the scripts lie beside it, and a Content-Security-Policy lets
nothing else in. A page is written only where its bytes would change; a run's page depends on that run alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb

from rewake.analysis import charts, html, text
from rewake.analysis.grid import count, counted, percent, share
from rewake.analysis.measures import MEASURES, Measure
from rewake.analysis.stats import extra
from rewake.analysis.trend import (
    BAND,
    IMPROVED,
    LEAST_POINTS,
    MAX_Q,
    METHOD,
    ONE_END,
    OPEN,
    Change,
    Point,
    Series,
    Trend,
)
from rewake.analysis.trendout import day, effect, short, unit, value
from rewake.errors import RewakeError

CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
ASSETS = ("page.css", "charts.js", "index.js", "run.js")
MOST_POINTS = 400
"""Newest runs that a chart shows."""
_GAMMA = 1.01 / 0.99
"""Ratio of the edges of latency buckets (forms, table `bucket`)."""


@dataclass
class Written:
    """What a build did: files written, files that were as they should be."""

    written: int = 0
    unchanged: int = 0


_RUN_PAGE = re.compile(r"[0-9a-f]{32}\.html")


def build(con: duckdb.DuckDBPyConnection, trend: Trend, out: Path, title: str, vega: str) -> Written:
    """Builds the site of a store into `out`; `con` is `Store.connect()`'s, `vega` is `html.bundle`'s text."""
    done = Written()
    bundle = out / "assets" / f"vega-{html.bundle_version()}.js"
    write(bundle, vega, done)
    for name in ASSETS:
        write(out / "assets" / name, _site(name), done)
    scripts = f"assets/{bundle.name}"
    templates = _templates()
    page = templates.get_template("run.html")
    spec = _markup(text.json_in_script(charts.latency()))
    shards = _shards(con)
    kept = {f"{_stem(shard)}.html" for shard in shards}
    for shard in shards:
        told = _run_page(con, shard)
        write(out / "runs" / f"{_stem(shard)}.html", page.render(csp=CSP, bundle=scripts, spec=spec, **told), done)
    for page_of in (out / "runs").glob("*.html"):  # of runs that were taken out of the store
        if _RUN_PAGE.fullmatch(page_of.name) and page_of.name not in kept:
            page_of.unlink()
    index = templates.get_template("index.html").render(csp=CSP, bundle=scripts, **_index(trend, title))
    write(out / "index.html", index, done)
    return done


def _site(name: str) -> str:
    return files("rewake").joinpath("analysis", "site", name).read_text(encoding="utf-8")


def _templates() -> Any:
    jinja = extra("jinja2", "report", "a dashboard")
    return jinja.Environment(
        loader=jinja.FunctionLoader(_site),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # All text goes through analysis/text.py.
        finalize=lambda given: _markup(text.html(given)) if type(given) is str else given,
    )


def _markup(safe: str) -> Any:
    """What a function of analysis/text.py made safe for its place."""
    return extra("markupsafe", "report", "a dashboard").Markup(safe)


def write(path: Path, body: str, done: Written) -> None:
    """A file of a site, whole, and only where its bytes change."""
    data = body.encode("utf-8")
    try:
        if path.read_bytes() == data:
            done.unchanged += 1
            return
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    done.written += 1


def _stem(shard: str) -> str:
    """The hash in a shard's name."""
    return shard.rpartition("/")[2].removesuffix(".parquet")


# --- the index ---


def _index(trend: Trend, title: str) -> dict[str, Any]:
    newest = max(p.made for s in trend.series for p in s.points)
    runs = len({p.shard for s in trend.series for p in s.points})
    regressed = trend.regressed
    fresh = sum(any(c.state == OPEN for c in s.regressed) for s in regressed)
    of = counted(len(trend.series), "history", "histories")
    found = f"{count(len(regressed))} of {of} regressed ({fresh} of them new)"
    series = [_series(s) for s in trend.series]
    none = "No open regression" if trend.short < len(trend.series) else "Nothing judged yet"
    return {
        "title": title,
        "regressed": bool(regressed),
        "result": f"{found if regressed else none}; {counted(runs, 'run')}, the newest of {day(newest)}",
        "filters": _filters(trend.series),
        "cards": [_card(s) for s in trend.series],
        "notes": _notes(trend),
        "data": _markup(text.json_in_script(series)),
        "spec": _markup(text.json_in_script(charts.history())),
    }


def _notes(trend: Trend) -> list[str]:
    method = (
        f"Changes: {METHOD}; p times the places it was picked from, Benjamini-Hochberg over all histories "
        f"(q ≤ {MAX_Q:g}), at least {trend.floor_pct:g} %."
    )
    marks = (
        f"Shaded: noise band, median ± {BAND:g} robust standard deviations of the runs between two changes. Upright "
        "line: a change, solid where it got worse, dashed where it got better."
    )
    ends = (
        "Of every metric less is better. The latency of a policy is known as [lo, hi] where it did not choose what the "
        "kernel chose; both ends are histories of their own, and it changed only where both did: one end alone proves "
        "nothing."
    )
    notes = [method, marks, ends]
    if trend.short:
        notes.append(short(trend))
    if any(len(s.points) > MOST_POINTS for s in trend.series):
        notes.append(f"A chart shows the newest {MOST_POINTS} runs.")
    return notes


def _filters(series: Sequence[Series]) -> list[dict[str, Any]]:
    """Values to choose from, each kind in the order in which people look for them."""
    metrics = list(MEASURES)
    return [
        {"name": "metric", "label": "Metric", "options": sorted({s.measure.name for s in series}, key=metrics.index)},
        {"name": "policy", "label": "Policy", "options": sorted({s.policy for s in series})},
        {"name": "machine", "label": "Machine class", "options": sorted({s.machine for s in series})},
        {"name": "suite", "label": "Suite", "options": sorted({s.suite for s in series})},
    ]


def _title(s: Series) -> str:
    return f"{s.measure.label}{f', {s.side} end' if s.side else ''} ({unit(s.measure)})"


def _kind(c: Change) -> str:
    return {IMPROVED: "better", ONE_END: "none"}.get(c.state, "worse")


def _card(s: Series) -> dict[str, Any]:
    newest = s.points[-1]
    kind = "worse" if s.regressed else "better" if any(c.state == IMPROVED for c in s.changes) else ""
    return {
        "kind": kind,
        "suite": s.suite,
        "machine": s.machine,
        "policy": s.policy,
        "metric": s.measure.name,
        "title": _title(s),
        "alt": f"{_title(s)} of {s.policy} over {counted(len(s.points), 'run')}",
        "newest": day(newest.made),
        "unchanged": "no change" if len(s.known) >= LEAST_POINTS else f"{_runs(s)}, not judged",
        "value": value(s.measure, newest.value) if newest.value is not None else "unbounded",
        "href": f"runs/{_stem(newest.shard)}.html",
        "changed": any(c.state != ONE_END for c in s.changes),
        "changes": [_told(s, c) for c in s.changes],
    }


def _runs(s: Series) -> str:
    """How many there are, and of how many the figure is bounded where not of all."""
    of = counted(len(s.points), "run")
    return of if len(s.known) == len(s.points) else f"{count(len(s.known))} of {of} bounded"


def _told(s: Series, c: Change) -> dict[str, str]:
    point = s.points[c.at]
    revision = f" ({point.revision[:12]})" if point.revision else ""
    return {
        "kind": _kind(c),
        "state": c.state,
        "effect": effect(c),
        "levels": f"{value(s.measure, c.before)} → {value(s.measure, c.after)}",
        "since": day(point.made) + revision,
        "href": f"runs/{_stem(point.shard)}.html",
        "stat": f"q {c.q:.1g}, n {c.n_before}+{c.n_after}",
    }


def _series(s: Series) -> dict[str, Any]:
    """The data sets of one chart."""
    shown = s.points[-MOST_POINTS:]
    first = len(s.points) - len(shown)
    levels = []
    for level in s.levels:
        if level.last >= first and level.median == level.median:
            ends = s.points[max(level.first, first)].made, s.points[level.last].made
            sizes = (scaled(s.measure, x) for x in (level.median, level.low, level.high))
            levels.append(dict(zip(("first", "last", "median", "low", "high"), (*ends, *sizes), strict=True)))
    return {
        "points": [_point(s.measure, p) for p in shown] if s.known else [],
        "levels": levels,
    } | {
        kind: [{"made": s.points[c.at].made} for c in s.changes if c.at >= first and _kind(c) == kind]
        for kind in ("worse", "better")
    }


def _point(measure: Measure, p: Point) -> list[Any]:
    return [p.made, scaled(measure, p.value), text.terminal(p.run), p.revision, _stem(p.shard)]


def scaled(measure: Measure, x: float | None) -> float | None:
    """In the unit that is shown, with the digits that mean something."""
    if x is None:
        return None
    return float(f"{x / 1000 if measure.unit == 'ns' else x:.6g}")


# --- a run ---


def _shards(con: duckdb.DuckDBPyConnection) -> list[str]:
    return [row[0] for row in con.execute("SELECT DISTINCT shard FROM figure ORDER BY shard").fetchall()]


def _run_page(con: duckdb.DuckDBPyConnection, shard: str) -> dict[str, Any]:
    head = con.execute(
        "SELECT run, made, suite, machine, kernel, revision, recording, tool, max(report) AS report FROM figure"
        " WHERE shard = ? GROUP BY ALL",
        [shard],
    ).fetchall()
    if not head:
        raise RewakeError(f"{shard}: empty")
    # One key a file; the row with the report is among them.
    run, made, suite, machine, kernel, revision, recording, tool, report = head[0]
    told = _read(report)
    named = [
        ("suite", suite), ("machine class", machine), ("kernel", kernel), ("revision", revision),
        ("recording", recording), ("decisions", count(told.get("recording", {}).get("decisions"))),
        ("rewake", tool),
    ]  # fmt: skip
    heads, table = _table(con, shard)
    return {
        "run": run,
        "made": day(made),
        "facts": [(name, given) for name, given in named if given],
        "trust": _trust(told),
        "heads": heads,
        "table": table,
        "data": _markup(text.json_in_script(_curves(con, shard, told))),
    }


def _read(report: str | None) -> dict[str, Any]:
    try:
        told = json.loads(report or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _trust(told: dict[str, Any]) -> list[str]:
    """What qualifies the figures: the quality of the recording, and fidelity."""
    quality = told.get("quality") or {}
    failed = [str(c.get("name")) for c in quality.get("checks") or [] if c.get("passed") is False]
    lines = [f"Quality: refused by {', '.join(failed)} (added with --force)." if failed else "Quality: ok."]
    faithful = told.get("fidelity")
    if faithful:
        skill, llc = (None if x is None else f"{x:.2f}" for x in map(faithful.get, ("skill", "llc_skill")))
        assumed = (faithful.get("inputs_assumed_pct") or {}).get("any")
        lines.append(
            f"Fidelity of {faithful.get('policy')}: agreement {share(faithful.get('agreement'))}, skill over prev "
            f"{skill or '-'}{f' (LLC {llc})' if llc else ''}, decisions on assumed inputs {percent(assumed)}."
        )
    else:
        lines.append(f"Fidelity: none: {told.get('refusal') or 'the kernel column was not replayed'}.")
    limit = told.get("max_exposure_pct")
    over = [p for p in told.get("policies") or [] if limit is not None and (p.get("exposure_pct") or 0.0) > limit]
    if over:
        named = ", ".join(f"{p.get('policy')} ({percent(p.get('exposure_pct'))})" for p in over)
        lines.append(f"Exposure above {limit:g} %, so one-step figures hide herding: {named}.")
    return lines


def _table(con: duckdb.DuckDBPyConnection, shard: str) -> tuple[list[dict[str, str]], list[tuple[str, list[str]]]]:
    found: dict[str, dict[tuple[str, str], float | None]] = {}
    for policy, metric, side, figure in con.execute(
        "SELECT policy, metric, side, value FROM figure WHERE shard = ? AND metric NOT IN ('latency', 'report')",
        [shard],
    ).fetchall():
        found.setdefault(policy, {})[metric, side] = figure
    shown = [m for m in MEASURES.values() if any((m.name, "lo") in row for row in found.values())]
    order = con.execute(
        "SELECT policy FROM figure WHERE shard = ? AND policy <> '' GROUP BY policy"
        " ORDER BY policy <> 'recorded', policy", [shard],
    ).fetchall()  # fmt: skip
    heads = [{"label": m.label, "unit": unit(m)} for m in shown]
    return heads, [(p, [_cell(m, found[p]) for m in shown]) for (p,) in order if p in found]


def _cell(m: Measure, row: dict[tuple[str, str], float | None]) -> str:
    if (m.name, "lo") not in row:
        return "-"
    lo, hi = row[m.name, "lo"], row.get((m.name, "hi"), row[m.name, "lo"])
    if hi == lo:
        return value(m, lo)
    return f"[{value(m, lo)}, {'unbounded' if hi is None else value(m, hi)}]"


def _curves(con: duckdb.DuckDBPyConnection, shard: str, told: dict[str, Any]) -> list[dict[str, Any]]:
    """Share of decisions that waited longer, at the upper edge of every bucket; log axes show no zero. `told`: the
    report, which has how many were ranked. Those without any estimate, [0, unbounded), are in no bucket."""
    rows = con.execute(
        "SELECT policy, side, bucket, value FROM figure WHERE shard = ? AND metric = 'latency'"
        " ORDER BY policy <> 'recorded', policy, side DESC, bucket NULLS FIRST",
        [shard],
    ).fetchall()
    out: list[dict[str, Any]] = []
    by: dict[tuple[str, str], list[tuple[int | None, float]]] = {}
    for policy, side, bucket, n in rows:
        by.setdefault((policy, side), []).append((bucket, n))
    samples: dict[str, float] = {p["policy"]: float(p["n"]) for p in told.get("policies") or [] if p.get("n")}
    unknown = {p["policy"]: float(p.get("no_estimate") or 0) for p in told.get("policies") or []}
    for (policy, _), buckets in by.items():
        samples[policy] = max(samples.get(policy, 0.0), sum(n for _, n in buckets))
    for (policy, side), buckets in by.items():
        # Unbounded ones are in no bucket: they stay to the end. Of those without an estimate lo is 0.
        left = samples[policy] - (unknown.get(policy, 0.0) if side == "lo" else 0.0)
        drawn = 0.0
        for bucket, n in buckets:
            left -= n
            us = 0.0 if bucket is None else _GAMMA**bucket / 1000
            # A point for every twentieth of what is left is as smooth as the screen.
            if us >= 0.1 and 0 < left < samples[policy] and (not drawn or left <= 0.95 * drawn):
                drawn = left
                out.append(
                    {"policy": policy, "side": "hi" if side == "hi" else "lo", "us": float(f"{us:.4g}"),
                     "share": float(f"{left / samples[policy]:.4g}")}
                )  # fmt: skip
    return out
