# SPDX-License-Identifier: GPL-2.0-or-later
"""The charts of the dashboard as Vega-Lite specifications, made by Altair.

A specification names its data sets; the page fills them. The style of a mark names a colour of the page, which
analysis/site/charts.js puts in, so that a chart follows light and dark; what they mean is also said by shape and text.
"""

from __future__ import annotations

from typing import Any

from rewake.analysis.stats import extra

_MINUTE, _DAY = 60_000, 86_400_000
_SPANS = ((300 * _DAY, "%b %Y"), (4 * _DAY, "%d %b"), (10 * _MINUTE, "%d %b %H:%M"), (1, "%H:%M:%S"), (0, "%d %b"))
"""How five ticks over more than so many ms are told apart; over none there is one."""


def _moments() -> str:
    """Vega's expression for the label of a tick of a history."""
    span, said = "(domain('x')[1] - domain('x')[0])", ""
    for least, form in _SPANS:
        said += f"{span} >= {least} ? utcFormat(datum.value, '{form}') : "
    return said + "''"


def history() -> dict[str, Any]:
    """One history: points over time that lead to their runs, the noise band of each level, the changes.

    Data sets: `points` (made, value, run, revision, href), `levels` (first, last, median, low, high), `worse` and
    `better` (made).
    """
    alt = extra("altair", "report", "a dashboard")
    utc = alt.Scale(type="utc")  # as the text has it, wherever the reader is
    x = alt.X(
        "made:T",
        title=None,
        scale=utc,
        axis=alt.Axis(
            format="%d %b", labelExpr=_moments(), labelOverlap=True, labelSeparation=12, grid=False, tickCount=5
        ),
    )
    y = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False, nice=True),
              axis=alt.Axis(tickCount=4, format=",.4~r"))  # fmt: skip
    band = (
        alt.Chart(alt.NamedData("levels"))
        .mark_rect(style="series", opacity=0.16)
        .encode(x=alt.X("first:T", scale=utc), x2="last:T", y=alt.Y("low:Q", scale=alt.Scale(zero=False)), y2="high:Q")
    )
    level = (
        alt.Chart(alt.NamedData("levels"))
        .mark_rule(style="soft", strokeDash=[2, 2])
        .encode(x=alt.X("first:T", scale=utc), x2="last:T", y="median:Q")
    )
    points = alt.Chart(alt.NamedData("points"))
    line = points.mark_line(style="series", strokeWidth=1.2, opacity=0.6).encode(x=x, y=y)
    tooltip = [
        alt.Tooltip("run:N"),
        alt.Tooltip("made:T", timeUnit="utcyearmonthdatehoursminutes", title="made", format="%Y-%m-%d %H:%M"),
        alt.Tooltip("revision:N"),
        alt.Tooltip("value:Q", format=",.4~r"),
    ]
    dots = points.mark_circle(style="series", size=26, opacity=1, cursor="pointer").encode(
        x=x, y=y, href="href:N", tooltip=tooltip
    )
    rules = [
        alt.Chart(alt.NamedData(kind))
        .mark_rule(style=name, strokeWidth=2, strokeDash=dash)
        .encode(x=alt.X("made:T", scale=utc))
        for kind, name, dash in (("worse", "bad", [1, 0]), ("better", "good", [6, 3]))
    ]
    return _plain(alt.layer(band, level, line, *rules, dots).properties(width="container", height=120))


def latency() -> dict[str, Any]:
    """Share of decisions above a latency, both axes logarithmic. Data set `curve`: policy, side, us, share."""
    alt = extra("altair", "report", "a dashboard")
    # The record, which comes first, is grey; a replay of all seeds has nine policies.
    palette = ["#888888", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#9467bd",
               "#8c564b", "#bcbd22", "#17becf"]  # fmt: skip
    chart = (
        alt.Chart(alt.NamedData("curve"))
        .mark_line(interpolate="step-after", strokeWidth=1.8)
        .encode(
            x=alt.X("us:Q", title="wakeup latency, µs", scale=alt.Scale(type="log"),
                    axis=alt.Axis(format=",~r", grid=False)),
            y=alt.Y("share:Q", title="share that waited longer", scale=alt.Scale(type="log"),
                    axis=alt.Axis(format="~p", values=[1, 0.1, 0.01, 0.001, 0.0001])),
            color=alt.Color("policy:N", title=None, sort=None, scale=alt.Scale(range=palette),
                            legend=alt.Legend(orient="top", columns=2, labelLimit=240)),
            strokeDash=alt.StrokeDash("side:N", legend=None,
                                      scale=alt.Scale(domain=["lo", "hi"], range=[[1, 0], [5, 3]])),
            detail="side:N",
        )
        .properties(width="container", height=280)
    )  # fmt: skip
    return _plain(chart)


def _plain(chart: Any) -> dict[str, Any]:
    """As a dictionary; the config of Altair's theme goes, the page has its own."""
    spec: dict[str, Any] = chart.to_dict(validate=True)
    spec.pop("config", None)
    return spec
