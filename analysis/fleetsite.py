# SPDX-License-Identifier: GPL-2.0-or-later
"""The dashboard of a fleet store: a page per study, and in it one per machine class, kernel, workload and month.

As the dashboard of histories: files only, no network, a page is written only where its bytes would change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import duckdb

from rewake.analysis import fleet, html
from rewake.analysis.dashboard import Written, write

LABELS = {"machine": "machine class", "kernel": "kernel", "workload": "workload", "month": "month"}
MOST_SINGLES = 50
"""Single recordings on a page."""


def build(
    connect: Callable[[], duckdb.DuckDBPyConnection], store: str, out: Path, title: str, vega: str, *, tool: str,
    policies: Sequence[str] = (), metrics: Sequence[str] = (), floor_pct: float = 2.0,
) -> Written:  # fmt: skip
    """Builds the site of a fleet store into `out`; `connect` is `FleetStore.connect`, `vega` is `html.bundle`'s text.

    One study is `index.html` itself; of several each has a folder, and the index lists them.
    """
    done = Written()
    with closing(connect()) as con:
        keys = [key for key, *_ in fleet.studies(con)]
    several = len(keys) > 1
    found = []
    for key in keys:
        with closing(connect()) as con:
            f = fleet.build(con, store, study=key, metrics=metrics, policies=policies, floor_pct=floor_pct,
                            most=MOST_SINGLES)  # fmt: skip
        folder = key[:8] if several else ""
        _study(f, out / folder, title, vega, tool, done, "../index.html" if several else None)
        found.append((f, f"{folder}/index.html"))
    if several:
        write(out / "index.html", html.studies_page(found, tool=tool, title=title), done)
    return done


def _study(f: fleet.Fleet, out: Path, title: str, vega: str, tool: str, done: Written, above: str | None) -> None:
    there = [facet for facet in fleet.FACETS if any(g["facet"] == facet for g in f.groups)]
    up = [(above, "all studies")] if above else []
    pages = [(f"{facet}.html", f"by {LABELS[facet]}") for facet in there]
    write(out / "index.html", html.fleet_page(f, vega, tool=tool, title=title, links=[*up, *pages]), done)
    for facet in there:
        links = [*up, ("index.html", "overview"), *(page for page in pages if page[0] != f"{facet}.html")]
        body = html.facet_page(f, facet, LABELS[facet], tool=tool, title=title, links=links)
        write(out / f"{facet}.html", body, done)
