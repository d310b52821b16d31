# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake store`: what stays of many runs, in a directory or an object store."""

from __future__ import annotations

from pathlib import Path

import click

from rewake import __version__
from rewake.cli import _answers, _runs
from rewake.cli._shared import force_option, format_option
from rewake.errors import UsageError


def _named(_: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """What a run is kept under. Nothing is what a variable of a script gives that is not set."""
    if value is not None and not value.strip():
        raise UsageError(f"{param.opts[0]}: a name expected, and not nothing; leave the option out for its default")
    return value


@click.group(short_help="Keep the figures of runs for trend and dashboard.")
def command() -> None:
    """An append-only store of the figures of runs: a directory, or a URL such as s3://bucket/prefix.

    Every run is one file that never changes, so any number of machines may add to a store at once.
    """


@command.command(short_help="Add runs.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@_runs.store_option
@click.option("--suite", metavar="NAME", callback=_named, help="What was run; default: the recording's name.")
@click.option(
    "--date",
    "date",
    metavar="WHEN",
    help="When: 2026-11-20, 2026-11-20T03:00:00+01:00 or @SECONDS. No recording tells it.  [required]",
)
@click.option("--commit", "revision", metavar="ID", callback=_named, help="Commit or build that was measured.")
@click.option(
    "--machine",
    metavar="CLASS",
    callback=_named,
    help="Machine class; default: CPUs, LLCs, cores and nodes as recorded.",
)
@force_option
@format_option("table", "json")
def add(
    runs: tuple[Path, ...],
    store: str,
    suite: str | None,
    date: str | None,
    revision: str | None,
    machine: str | None,
    force: bool,
    format_: str,
) -> None:
    """Add each RUN, a run or a directory of runs, to the store. To add a run again changes nothing.

    Killed at any point, the store holds the run or does not; it is never damaged.
    """
    from rewake.analysis import jsonout, text
    from rewake.analysis import store as rows_of
    from rewake.analysis.report import DEFAULT_MAX_EXPOSURE
    from rewake.forms import Store
    from rewake.runs import report_of

    if date is None:
        raise UsageError("--date is missing: a recording does not say when it was made, and a history needs an order")
    target = Store(store)
    told = []
    for run in [r for path in runs for r in _runs.runs_in(path)]:
        subject = _runs.subject_of(run, force)
        key = rows_of.Key(suite or subject.name, rows_of.moment(date), revision, machine)
        report = report_of(run, DEFAULT_MAX_EXPOSURE)
        con = run.connect()
        try:
            rows = rows_of.rows(con, subject, report, key, __version__)
        finally:
            con.close()
        name, new = target.add(rows)
        told.append({"run": subject.name, "suite": key.suite, "made": key.made, "shard": name, "added": new})
        if format_ == "table":
            state = "added" if new else "already there"
            click.echo(f"{text.terminal(subject.name)}: {state}, {text.terminal(name, None)}")
    if format_ == "json":
        _answers.emit(jsonout.dumps(_runs.document("store", {"added": told})))
