# SPDX-License-Identifier: GPL-2.0-or-later
"""The charts as Vega-Lite: what the page's script draws. Rows come from the queries; nothing is counted here.

Colours are variables of style.css, so that a chart follows the theme and a printer without being drawn again. Every
chart of policies has the parameter `off`: the instances that the legend has switched off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewake.analysis.html.colours import Look

Rows = Sequence[Mapping[str, Any]]
Spec = dict[str, Any]

TARGETS = (
    ("prev", "previous CPU"), ("waker", "waker's CPU"), ("same_llc", "idle CPU, same LLC"),
    ("other_llc", "idle CPU, other LLC"), ("any_llc", "idle CPU, LLC unknown"), ("busy", "another, busy CPU"),
)  # fmt: skip
KERNEL_CHOSE = (
    ("agreed", "the same CPU"), ("recorded_prev", "the previous CPU"), ("recorded_waker", "the waker's CPU"),
    ("recorded_same_llc", "another, same LLC"), ("recorded_elsewhere", "another LLC"),
)  # fmt: skip
CAUSES = (
    ("wake", "wakeup", "same_llc"), ("newidle", "CPU that goes idle", "other_llc"),
    ("periodic", "periodic balancing", "busy"), ("fork", "fork", "waker"), ("exec", "exec", "prev"),
)  # fmt: skip
"""Causes of simulated migrations: column, label, colour."""
_FEW_PLACES = 8
"""A side of a heatmap up to which its cells carry their figures."""
MOST_CELLS = 70
"""CPUs, LLCs or nodes a side of a heatmap: 70 x 70 is as many as 5,000 marks allow."""

_DECADES_US = tuple(10.0**e for e in range(-3, 10))

_CONFIG: Spec = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "var(--soft)", "titleColor": "var(--soft)", "gridColor": "var(--line)",
        "domainColor": "var(--line)", "tickColor": "var(--line)", "labelFontSize": 12, "titleFontSize": 12,
        "titleFontWeight": "normal", "titlePadding": 8,
    },
}  # fmt: skip
_SHOWN = {"condition": {"test": "indexof(off, datum.policy) >= 0", "value": 0.08}, "value": 1}
_POLICY_AXIS = {"title": None, "labelLimit": 150, "labelPadding": 6, "ticks": False, "domain": False}


def _chart(name: str, rows: Rows, **spec: Any) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": "container",
        "autosize": {"type": "fit", "contains": "padding"},
        "params": [{"name": "off", "value": []}],
        "config": _CONFIG,
        "data": {"name": name, "values": list(rows)},
    } | spec


def _rows_high(n: int, step: int) -> int:
    """Height of a chart with `n` bars above each other, its axis included."""
    return n * step + 46


def _field(name: str, title: str, form: str | None = None) -> Spec:
    return {"field": name, "title": title} | ({"format": form} if form else {})


def _colour(looks: Mapping[str, Look]) -> Spec:
    scale = {"domain": list(looks), "range": [look.colour for look in looks.values()]}
    return {"field": "policy", "type": "nominal", "scale": scale, "legend": None}


def _dash(looks: Mapping[str, Look]) -> Spec:
    # An empty dasharray is none at all to Vega-Lite: a solid line is one dash and no gap.
    scale = {"domain": list(looks), "range": [list(look.dash) or [1, 0] for look in looks.values()]}
    return {"field": "policy", "type": "nominal", "scale": scale, "legend": None}


def flow(rows: Rows, policies: Sequence[str]) -> Spec:
    """Stacked bars: where each policy sends the wakees. `rows`: placement/flow."""
    order = [name for name, _ in TARGETS]
    labels = dict(TARGETS)
    values = [{**row, "rank": order.index(row["target"]), "to": labels[row["target"]]} for row in rows]
    return _chart(
        "flow",
        values,
        height=_rows_high(len(policies), 28),
        mark={"type": "bar", "height": {"band": 0.74}, "stroke": "var(--paper)", "strokeWidth": 1},
        encoding={
            "y": {"field": "policy", "type": "nominal", "sort": list(policies), "axis": _POLICY_AXIS},
            "x": {
                "field": "share_pct", "type": "quantitative", "stack": "zero", "scale": {"domain": [0, 100.0001]},
                "axis": {"title": "share of decisions, %", "values": [0, 25, 50, 75, 100]},
            },
            "color": {
                "field": "target", "type": "nominal", "legend": None,
                "scale": {"domain": order, "range": [f"var(--flow-{name})" for name in order]},
            },
            "order": {"field": "rank", "type": "quantitative"},
            "opacity": _SHOWN,
            "tooltip": [
                _field("policy", "policy"), _field("to", "to"), _field("decisions", "decisions", ","),
                _field("share_pct", "%", ".1f"),
            ],
        },
    )  # fmt: skip


_NINES = {"calculate": "-log(1 - datum.quantile) / LN10", "as": "nines"}
"""Percentiles by the nines that they have, so that the tail has room."""
_NINES_AXIS: Spec = {
    "field": "nines", "type": "quantitative",
    "axis": {
        "title": "percentile", "values": [0.30103, 1, 2, 3, 4, 5], "labelOverlap": "greedy",
        "labelExpr": "datum.value < 0.5 ? '50' : datum.value < 1.5 ? '90' : format(100 - pow(10, 2 - datum.value), "
        "'.' + (datum.value - 2) + 'f')",
    },
    "scale": {"nice": False, "zero": True},
}  # fmt: skip


def _latency_axis(low: float, high: float) -> Spec:
    """Axis of latencies from `low` to `high`, µs, by decades."""
    return {
        "title": None, "values": [us for us in _DECADES_US if low <= us <= high],
        "labelExpr": "datum.value >= 1e6 ? datum.value / 1e6 + ' s' : datum.value >= 1e3 ? "
        "datum.value / 1e3 + ' ms' : datum.value + ' µs'",
    }  # fmt: skip


def curve(rows: Rows, recorded: Rows, look: Look, span_ns: tuple[int, int]) -> Spec:
    """Latency over a percentile axis: the band between the lower and the upper bound of one policy, and the record.

    `rows`, `recorded`: latency/curve of each; `span_ns`: the latencies that the axis of every panel covers. It goes on
    above them: what is unbounded alone reaches its top.
    """
    low, high = (max(1, ns) / 1000 for ns in span_ns)
    high *= 1.5
    values = [{**row, "kind": "policy"} for row in rows] + [{**row, "kind": "recorded"} for row in recorded]
    y = {
        "type": "quantitative",
        "scale": {"type": "log", "domain": [low, high], "nice": False, "clamp": True},
        "axis": _latency_axis(low, high),
    }
    tooltip = [
        _field("quantile", "quantile"), _field("lo_us", "lo, µs", ",.1f"), _field("hi_shown", "hi, µs"),
    ]  # fmt: skip
    of_policy = {"filter": "datum.kind == 'policy'"}
    line = {"type": "line", "stroke": look.colour, "strokeWidth": 1.5, "clip": True}
    return _chart(
        "curve",
        values,
        height=190,
        transform=[
            _NINES,
            {"calculate": f"max(datum.lo_ns / 1000, {low!r})", "as": "lo_us"},
            {"calculate": f"datum.hi_ns === null ? {high!r} : max(datum.hi_ns / 1000, {low!r})", "as": "hi_us"},
            {"calculate": "datum.hi_ns === null ? 'unbounded' : format(datum.hi_ns / 1000, ',.1f')", "as": "hi_shown"},
        ],
        layer=[
            {
                "name": "band", "transform": [of_policy],
                "mark": {"type": "area", "fill": look.colour, "fillOpacity": 0.22, "clip": True, "tooltip": None},
                "encoding": {"y": {"field": "lo_us", **y}, "y2": {"field": "hi_us"}},
            },
            {
                "name": "hi", "mark": line | {"strokeWidth": 1},
                "transform": [of_policy, {"filter": "datum.hi_ns !== null"}],
                "encoding": {"y": {"field": "hi_us", **y}},
            },
            {"name": "lo", "transform": [of_policy], "mark": line, "encoding": {"y": {"field": "lo_us", **y}}},
            {
                "name": "recorded", "transform": [{"filter": "datum.kind == 'recorded'"}],
                "mark": {"type": "line", "stroke": "var(--p-recorded)", "strokeWidth": 1.5, "clip": True},
                "encoding": {"y": {"field": "lo_us", **y}},
            },
            {
                "name": "reach", "transform": [of_policy],
                "mark": {"type": "rule", "strokeWidth": 6, "stroke": "transparent", "clip": True},
                "encoding": {"y": {"field": "lo_us", **y}, "y2": {"field": "hi_us"}, "tooltip": tooltip},
            },
        ],
        encoding={"x": _NINES_AXIS},
    )  # fmt: skip


def curves(rows: Rows, looks: Mapping[str, Look]) -> Spec:
    """Modelled latency over a percentile axis, one line a policy. `rows`: simulate/curve."""
    ends = [max(1, row["latency_ns"]) / 1000 for row in rows]
    low, high = min(ends), max(ends)
    scale = {"type": "log", "domain": [low, high], "nice": False, "clamp": True}
    return _chart(
        "curves",
        rows,
        height=340,
        transform=[_NINES, {"calculate": f"max(datum.latency_ns / 1000, {low!r})", "as": "us"}],
        mark={"type": "line", "strokeWidth": 1.8, "point": {"size": 8, "strokeWidth": 0}},
        encoding={
            "x": _NINES_AXIS,
            "y": {"field": "us", "type": "quantitative", "scale": scale, "axis": _latency_axis(low, high)},
            "color": _colour(looks),
            "strokeDash": _dash(looks),
            "opacity": _SHOWN,
            "tooltip": [_field("policy", "policy"), _field("quantile", "quantile"), _field("us", "µs", ",.1f")],
        },
    )


def spread(rows: Rows, looks: Mapping[str, Look], field: str, title: str, *, micros: bool = False) -> Spec:
    """A stroke for each window, policies above each other. `rows`: simulate/windows; `micros`: the field is in ns."""
    y = {"field": "policy", "type": "nominal", "sort": list(looks), "scale": {"domain": list(looks)},
         "axis": _POLICY_AXIS}  # fmt: skip
    x = {"field": "shown", "type": "quantitative", "title": title, "scale": {"zero": False},
         "axis": {"tickCount": 5, "labelOverlap": "greedy", "labelSeparation": 6}}  # fmt: skip
    tooltip = [
        _field("policy", "policy"), _field("window_id", "window"), _field("replica", "replica"),
        _field("shown", title, ",.1f"), _field("n", "wakeups", ","), _field("diverged", "diverged"),
    ]  # fmt: skip
    marks = (
        ("strokes", False, {"type": "tick", "thickness": 2, "height": 16}),
        ("circles", True, {"type": "point", "filled": False, "size": 40}),
    )
    both = {"x": x, "y": y, "color": _colour(looks), "opacity": _SHOWN, "tooltip": tooltip}
    return _chart(
        field,
        rows,
        height=_rows_high(len(looks), 26),
        transform=[{"calculate": f"datum['{field}']" + (" / 1000" if micros else ""), "as": "shown"}],
        layer=[
            {"name": name, "transform": [{"filter": f"datum.diverged === {str(of).lower()}"}], "encoding": both,
             "mark": mark}
            for name, of, mark in marks if any(row["diverged"] is of for row in rows)
        ],
    )  # fmt: skip


def waits(rows: Rows, looks: Mapping[str, Look]) -> Spec:
    """Queue wait: a line from the median to p99, a point at each percentile. `rows`: figures of simulate/queue_wait."""
    names = {"p50": "median", "p90": "p90", "p99": "p99"}
    values = [
        {"policy": row["policy"], "quantile": label, "ns": row[f"wait_{name}_ns"], "queued": row["queued"]}
        for row in rows for name, label in names.items() if row[f"wait_{name}_ns"] is not None
    ]  # fmt: skip
    ends = [max(1, value["ns"]) / 1000 for value in values]
    low, high = min(ends), max(ends)
    axis = _latency_axis(low, high) | {"title": "median, p90 and p99"}
    x = {"field": "us", "type": "quantitative", "axis": axis,
         "scale": {"type": "log", "domain": [low, high], "nice": True}}  # fmt: skip
    y = {"field": "policy", "type": "nominal", "sort": list(looks), "scale": {"domain": list(looks)},
         "axis": _POLICY_AXIS}  # fmt: skip
    same = {"y": y, "color": _colour(looks), "opacity": _SHOWN}
    tooltip = [
        _field("policy", "policy"), _field("quantile", "of the wait"), _field("us", "µs", ",.1f"),
        _field("queued", "wakeups onto a busy CPU", ","),
    ]  # fmt: skip
    return _chart(
        "waits",
        values,
        height=_rows_high(len(looks), 26),
        transform=[{"calculate": "max(datum.ns, 1) / 1000", "as": "us"}],
        layer=[
            {"name": "lines", "mark": {"type": "line", "strokeWidth": 1.5}, "encoding": same | {"x": x}},
            {"name": "points", "mark": {"type": "point", "filled": True, "size": 55},
             "encoding": same | {
                 "x": x, "tooltip": tooltip,
                 "shape": {"field": "quantile", "type": "nominal", "legend": None,
                           "scale": {"domain": list(names.values()), "range": ["circle", "diamond", "triangle-right"]}},
             }},
        ],
    )  # fmt: skip


def causes(rows: Rows, policies: Sequence[str]) -> Spec:
    """Stacked bars: simulated migrations per second by cause. `rows`: figures of simulate/migrations."""
    order = [name for name, _, _ in CAUSES]
    values = [
        {"policy": row["policy"], "cause": name, "by": label, "rank": rank, "per_s": row[f"{name}_per_s"]}
        for row in rows for rank, (name, label, _) in enumerate(CAUSES) if row[f"{name}_per_s"]
    ]  # fmt: skip
    return _chart(
        "causes",
        values,
        height=_rows_high(len(policies), 28),
        mark={"type": "bar", "height": {"band": 0.74}, "stroke": "var(--paper)", "strokeWidth": 1},
        encoding={
            "y": {"field": "policy", "type": "nominal", "sort": list(policies), "scale": {"domain": list(policies)},
                  "axis": _POLICY_AXIS},
            "x": {"field": "per_s", "type": "quantitative", "stack": "zero", "title": "migrations per second",
                  "axis": {"tickCount": 6}},
            "color": {"field": "cause", "type": "nominal", "legend": None,
                      "scale": {"domain": order, "range": [f"var(--flow-{colour})" for _, _, colour in CAUSES]}},
            "order": {"field": "rank", "type": "quantitative"},
            "opacity": _SHOWN,
            "tooltip": [_field("policy", "policy"), _field("by", "cause"), _field("per_s", "per second", ",.0f")],
        },
    )  # fmt: skip


def over_time(rows: Rows, looks: Mapping[str, Look], field: str, title: str) -> Spec:
    """One line a policy over the recording. `rows`: time/disagreement."""
    return _chart(
        field,
        rows,
        height=240,
        transform=[{"calculate": "datum.from_ns / 1e9", "as": "at"}],
        mark={"type": "line", "strokeWidth": 1.6, "strokeCap": "round"},  # a window alone is a dot
        encoding={
            "x": {"field": "at", "type": "quantitative", "title": "time since the first decision, s",
                  "axis": {"grid": False, "tickCount": 6}, "scale": {"nice": False}},
            "y": {"field": field, "type": "quantitative", "title": title, "scale": {"zero": True},
                  "axis": {"tickCount": 5}},
            "color": _colour(looks),
            "strokeDash": _dash(looks),
            "opacity": _SHOWN,
            "tooltip": [
                _field("policy", "policy"), _field("at", "from, s", ".3f"), _field(field, "%", ".1f"),
                _field("decisions", "decisions", ","),
            ],
        },
    )  # fmt: skip


def bars(rows: Rows, looks: Mapping[str, Look], field: str, title: str, limit: float | None = None) -> Spec:
    """One bar a policy, and a line where a limit is. `rows`: stacking/stacked."""
    layers: list[Spec] = [
        {
            "name": "bars",
            "mark": {"type": "bar", "height": {"band": 0.62}},
            "encoding": {
                "y": {"field": "policy", "type": "nominal", "sort": list(looks), "axis": _POLICY_AXIS},
                "x": {"field": field, "type": "quantitative", "title": title, "axis": {"tickCount": 5}},
                "color": _colour(looks),
                "opacity": _SHOWN,
                "tooltip": [_field("policy", "policy"), _field(field, title, ".2f")],
            },
        }
    ]
    if limit is not None:
        rule = {"type": "rule", "stroke": "var(--warn)", "strokeDash": [4, 3], "strokeWidth": 1.5}
        layers.append({"name": "limit", "data": {"values": [{}]}, "mark": rule, "encoding": {"x": {"datum": limit}}})
    return _chart(field, rows, height=_rows_high(len(looks), 26), layer=layers)


RATIOS = (0.1, 10.0)
"""Ends of the axis of a change."""


def changes(name: str, rows: Rows, looks: Mapping[str, Look], by: str = "policy") -> Spec:
    """A line a policy: the ratio to the baseline, thick from its lower to its upper end, thin its interval. `by`: what
    stands beside a line, another field than the policy in the order of the rows; `\\n` in it breaks the line."""
    axis = {"title": "times the baseline", "values": [0.1, 0.2, 0.5, 1, 2, 5, 10], "format": "~g"}
    scale = {"type": "log", "domain": list(RATIOS), "nice": False}
    y: Spec = {"field": by, "type": "nominal", "sort": list(looks), "axis": _POLICY_AXIS}
    step = 26
    if by != "policy":
        lines = {"labelExpr": "split(datum.label, '\\n')", "labelLimit": 190, "labelFontSize": 11}
        y |= {"sort": [row[by] for row in rows], "axis": _POLICY_AXIS | lines}
        step = 38
    # Drawn no farther than the axis goes, told as they are. Of two fields of one title Vega-Lite tells the first alone.
    at: list[Spec] = []
    for field in ("from", "to", "low", "high"):
        value, (least, most) = f"datum['{field}']", RATIOS
        at += [
            {"calculate": f"{value} === null ? null : clamp({value}, {least}, {most})", "as": f"{field}_at"},
            {"calculate": f"{value} === null ? 'unbounded' : format({value}, ',.4~r')", "as": f"{field}_told"},
        ]
    tip = [_field("policy", "policy"), _field("from_told", "from"), _field("to_told", "to"),
           _field("low_told", "interval from"), _field("high_told", "interval to"), _field("n", "recordings"),
           _field("verdict", "verdict")]  # fmt: skip
    shared = {"color": _colour(looks), "opacity": _SHOWN, "tooltip": tip, "y": y}
    x = {"type": "quantitative", "scale": scale, "axis": axis}
    layers: list[Spec] = [
        {"name": "one", "data": {"values": [{}]}, "encoding": {"x": {"datum": 1, "type": "quantitative"}},
         "mark": {"type": "rule", "stroke": "var(--soft)", "strokeWidth": 1}},
        {"name": "interval", "mark": {"type": "rule", "strokeWidth": 1.5},
         "transform": [*at, {"filter": "datum.low !== null"}],
         "encoding": shared | {"x": {"field": "low_at"} | x, "x2": {"field": "high_at"}}},
        {"name": "effect", "mark": {"type": "rule", "strokeWidth": 6}, "transform": at,
         "encoding": shared | {"x": {"field": "from_at"} | x, "x2": {"field": "to_at"}}},
        {"name": "point", "mark": {"type": "point", "filled": True, "size": 45}, "transform": at,
         "encoding": shared | {"x": {"field": "from_at"} | x}},
    ]  # fmt: skip
    return _chart(name, rows, height=_rows_high(len(rows), step), layer=layers)


def branches(rows: Rows) -> Spec:
    """Stacked bars: what the kernel did where each rule of its own column decided. `rows`: fidelity/branches."""
    order = [name for name, _ in KERNEL_CHOSE]
    labels = dict(KERNEL_CHOSE)
    values = [
        {"branch": row["branch"], "decisions": row["decisions"], "kernel": name, "chose": labels[name],
         "n": row[name], "rank": rank}
        for row in rows for rank, name in enumerate(order) if row[name]
    ]  # fmt: skip
    return _chart(
        "branches",
        values,
        height=_rows_high(len(rows), 28),
        mark={"type": "bar", "height": {"band": 0.74}, "stroke": "var(--paper)", "strokeWidth": 1},
        encoding={
            "y": {"field": "branch", "type": "nominal", "sort": [row["branch"] for row in rows],
                  "axis": _POLICY_AXIS},
            "x": {"field": "n", "type": "quantitative", "stack": "normalize",
                  "axis": {"title": "the kernel chose, share of the rule's decisions", "format": "%",
                           "values": [0, 0.25, 0.5, 0.75, 1]}},
            "color": {"field": "kernel", "type": "nominal", "legend": None,
                      "scale": {"domain": order, "range": [f"var(--kernel-{name})" for name in order]}},
            "order": {"field": "rank", "type": "quantitative"},
            "tooltip": [_field("branch", "rule"), _field("chose", "the kernel chose"), _field("n", "decisions", ",")],
        },
    )  # fmt: skip


def heat(kind: str, names: Sequence[int], breaks: Sequence[int]) -> Spec:
    """An empty heatmap: the page's script fills `cells` (from, to, n, difference by position) for one policy.

    `names`: what stands at each position; `breaks`: positions where another LLC begins.
    """
    n = len(names)
    marked = list(range(n)) if n <= 16 else [0, *breaks]
    if n > 16 and len(marked) < 3:
        marked = sorted({*marked, *range(0, n, 4)})

    def axis(title: str, **more: Any) -> Spec:
        return {
            "title": title, "values": [p + 0.5 for p in marked], "grid": False, "ticks": False, "domain": False,
            "labelOverlap": "greedy", "labelExpr": "names[floor(datum.value)]",
        } | more  # fmt: skip

    def place(field: str, title: str, reverse: bool = False, **more: Any) -> Spec:
        scale = {"domain": [0, n], "nice": False, "reverse": reverse}
        return {"field": field, "type": "quantitative", "scale": scale, "axis": axis(title, **more)}

    grid = {"type": "rule", "stroke": "var(--rule)", "strokeWidth": 1}
    middle = [{"calculate": f"datum.{field} + 0.5", "as": f"{field}_middle"} for field in ("from", "to")]
    labels = [
        {
            "name": "numbers", "mark": {"type": "text", "fontSize": 13, "fill": "var(--ink)"}, "transform": middle,
            "encoding": {
                "x": place("to_middle", f"to {kind}", orient="top"),
                "y": place("from_middle", f"from {kind}", reverse=True),
                "text": {"field": "label"},
            },
        }
    ] if n <= _FEW_PLACES else []  # fmt: skip
    tooltip = [
        _field("from_name", f"from {kind}"), _field("to_name", f"to {kind}"), _field("n", "policy moves", ","),
        _field("recorded", "kernel moves", ","), _field("difference", "difference", "+,"),
    ]  # fmt: skip
    return _chart(
        "cells",
        [],
        height="container",
        params=[{"name": "names", "value": list(names)}, {"name": "top", "value": 1}],
        layer=[
            {
                "name": "cells", "mark": {"type": "rect", "strokeWidth": 0},
                "encoding": {
                    "x": place("to", f"to {kind}", orient="top"), "x2": {"field": "to2"},
                    "y": place("from", f"from {kind}", reverse=True), "y2": {"field": "from2"},
                    "fill": {"field": "sign", "type": "nominal", "legend": None,
                             "scale": {"domain": ["n", "more", "fewer"],
                                       "range": ["var(--heat)", "var(--more)", "var(--fewer)"]}},
                    "opacity": {"field": "size", "type": "quantitative", "legend": None,
                                "scale": {"domain": [0, {"expr": "top"}], "range": [0.06, 0.6 if labels else 1],
                                          "clamp": True}},
                    "tooltip": tooltip,
                },
            },
            *labels,
            {"name": "columns", "data": {"values": [{"at": p} for p in (*breaks, n)]}, "mark": grid,
             "encoding": {"x": {"field": "at", "type": "quantitative"}}},
            {"name": "lines", "data": {"values": [{"at": p} for p in (*breaks, n)]}, "mark": grid,
             "encoding": {"y": {"field": "at", "type": "quantitative"}}},
        ],
    )  # fmt: skip
