# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake dashboard`: the histories of a store, or a fleet, as a static site."""

from __future__ import annotations

from pathlib import Path

import click

from rewake import __version__
from rewake.cli import _answers, _runs
from rewake.cli._shared import format_option
from rewake.errors import UsageError


@click.command(short_help="Build a static site from a store.")
@_runs.store_option
@click.option("-o", "--output", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Where to.")
@click.option("--title", default="rewake", show_default=True, help="Heading of the site.")
@_runs.watch_options
@format_option("table", "json")
def command(
    store: str,
    output: Path,
    title: str,
    suites: tuple[str, ...],
    policies: tuple[str, ...],
    metrics: tuple[str, ...],
    floor: float,
    format_: str,
) -> None:
    """Build the dashboard of the store into DIR: open DIR/index.html, or publish DIR with any web server.

    Of what `store add` filled: the histories and where they changed. Of a fleet store: which policy wins where, with
    intervals over recordings, and where it loses, worst first. A page whose content is as before is not written again.
    """
    from rewake.analysis import dashboard, fleetsite, grid, jsonout, text
    from rewake.forms import FleetStore, Store
    from rewake.runs import vega

    fleet = FleetStore(store)
    if any(fleet.tasks()):
        if suites:
            raise UsageError("--suite: a fleet store has none")
        done = fleetsite.build(
            fleet.connect, store, output, title, vega(), tool=__version__, policies=policies, metrics=metrics,
            floor_pct=floor,
        )  # fmt: skip
    else:
        found = _runs.watched(store, suites, policies, metrics, floor)
        con = Store(store).connect()
        try:
            done = dashboard.build(con, found, output, title, vega())
        finally:
            con.close()
    if format_ == "json":
        _answers.emit(jsonout.dumps(_runs.document("dashboard", {"index": str(output / "index.html"), **vars(done)})))
    else:
        page = text.terminal(_answers.path_shown(output / "index.html"), None)
        click.echo(f"{page}: {grid.counted(done.written, 'file')} written, {done.unchanged} unchanged")
