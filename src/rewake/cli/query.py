# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake query`: the catalogue's questions, or any SQL, on a recording or a run."""

from __future__ import annotations

import re
from pathlib import Path

import click

from rewake.cli import _answers, _runs
from rewake.cli._shared import format_option, open_recording, topology_option
from rewake.errors import UsageError


class _TakesSql(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """SQL may begin with a comment, which is no option: those have no blank behind -- and no further line."""
        return super().parse_args(ctx, [f" {arg}" if re.match(r"--(?:\s|[^=\n]*\n)", arg) else arg for arg in args])


@click.command(cls=_TakesSql, short_help="Ask a recording or a run a question in SQL.")
@click.argument("source", metavar="[REC|RUN|STORE]", required=False, type=click.Path(path_type=Path))
@click.argument("question", metavar="[NAME|SQL]", required=False)
@topology_option
@click.option("--list", "list_", is_flag=True, help="List the questions of the catalogue, or what a NAME answers.")
@format_option("table", "markdown", "json", "csv", "parquet")
def command(source: Path | None, question: str | None, topology: str | None, list_: bool, format_: str) -> None:
    """Answer NAME, a question of the catalogue (--list), or SQL about REC, RUN or the fleet store STORE.

    Every table of the forms is a view: docs/columns.md. With --list and a NAME: its definition and its columns.
    """
    from rewake.analysis import jsonout, quality, report, sql, table
    from rewake.forms import Run
    from rewake.forms.directory import kind_of

    if list_:
        # `query REC --list` lists what may be asked of REC; `query --list NAME` explains NAME.
        named = question or (None if source is None or source.exists() else str(source))
        _list(named, format_)
        return
    if source is None or question is None:
        raise UsageError("a REC or RUN and a NAME or SQL are expected; `rewake query --list` shows the names")
    is_fleet = any(any(source.glob(f"{folder}/")) for folder in ("done", "failed", "suite=*"))
    is_run = kind_of(source) == "run"
    if topology is not None and (is_run or is_fleet):
        raise UsageError(f"{source}: was made with its topology: give --topology with the trace")
    if is_fleet:
        _fleet(source, question, format_)
        return
    if is_run:
        run = Run(source)
        recording, con = run.recording, run.connect()
        branches = report.branches_of(run.manifest.get("policies") or [])
    else:
        recording = open_recording(source, topology)
        con, branches = recording.connect(), {}
    try:
        sql.prepare(con, branches)
        answer = sql.run_text(con, question)
    finally:
        con.close()
    card = quality.assess(recording)
    _answers.show(
        format_,
        lambda: table.rows(answer),
        lambda: _answers.document("query", jsonout.rows(answer), recording, card.as_dict()),
        answer,
    )


def _fleet(store: Path, question: str, form: str) -> None:
    """The same of a fleet store, its fidelity gate as `rewake fleet report` has it by default."""
    from rewake.analysis import fleet, jsonout, sql, table
    from rewake.forms import FleetStore

    con = FleetStore(store).connect()
    try:
        fleet.prepare(con, str(store))
        answer = sql.run_text(con, question)
    finally:
        con.close()
    _answers.show(
        form, lambda: table.rows(answer), lambda: _runs.document("query", jsonout.rows(answer)), answer
    )  # fmt: skip


def _list(name: str | None, form: str) -> None:
    from rewake.analysis import jsonout, sql, table

    queries = [q for n, q in sql.catalogue().items() if name in (None, n)]
    if not queries:
        raise UsageError(f"no query named {name}; `rewake query --list` shows what exists")
    if form == "json":
        _answers.emit(jsonout.dumps([jsonout.query(q) for q in queries]))
        return
    listed = sql.Rows(("query", "question", "units"), [(q.name, q.question, q.units) for q in queries])
    _answers.show(form, lambda: table.contract(queries[0]) if name else table.catalogue(queries), dict, listed)
