# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake trend`: where the histories of a store changed."""

from __future__ import annotations

import click

from rewake.cli import _answers, _runs
from rewake.cli._shared import format_option
from rewake.errors import EXIT_OK, EXIT_REGRESSION


@click.command(short_help="Find where the histories of a store changed; exit 3 on a regression.")
@_runs.store_option
@_runs.watch_options
@click.option("--since", metavar="WHEN", help="Only changes of that day or later end with exit code 3.")
@format_option("table", "json", "csv")
def command(
    store: str,
    suites: tuple[str, ...],
    policies: tuple[str, ...],
    metrics: tuple[str, ...],
    floor: float,
    since: str | None,
    format_: str,
) -> int:
    """Look for change points in every history (suite, machine class, policy, metric) of the store.

    Exit code 3 while a regression is open or still failing. A regression that was accepted is left behind with --since.
    """
    from rewake.analysis import store as keys
    from rewake.analysis import trendout

    after = keys.moment(since, "--since") if since is not None else ""
    found = _runs.watched(store, suites, policies, metrics, floor)
    _answers.show(
        format_,
        lambda: trendout.table(found),
        lambda: _runs.document("trend", found.plain()),
        trendout.rows(found),
    )
    failing = any(s.points[c.at].made >= after for s in found.regressed for c in s.regressed)
    return EXIT_REGRESSION if failing else EXIT_OK
