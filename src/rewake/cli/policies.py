# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake policies`: which policies exist, what each is made of, and whether they pass the conformance vectors."""

from __future__ import annotations

from pathlib import Path

import click

from rewake.cli import _answers
from rewake.cli._shared import format_option
from rewake.errors import EXIT_ERROR, EXIT_OK


@click.group(short_help="List, show and check policies.")
def command() -> None:
    """List, show and check the policies that can be replayed."""


@command.command("list")
@format_option("table", "json", "csv")
def list_(format_: str) -> None:
    """List the policies that can be replayed."""
    from rewake.analysis import sql, table

    found = list(_answers.policies().values())
    answer = sql.Rows(
        ("policy", "kind", "vectors", "summary"),
        [
            (p["name"], table.kind(p), p["oracle_column"], p["summary"])
            for p in found
        ],
    )  # fmt: skip
    _answers.show(format_, lambda: table.policies(found), lambda: {"policies": found}, answer)


@command.command()
@click.argument("name", metavar="NAME[@COLUMN]")
@format_option("table", "json")
def show(name: str, format_: str) -> None:
    """Show what NAME is made of: source, parameters with defaults, steps in order, deviations.

    NAME@COLUMN is a seed's change put on another kernel, a hybrid.
    """
    from rewake.analysis import jsonout, table

    about = _answers.policy(name)
    _answers.emit(jsonout.dumps(about) if format_ == "json" else table.policy(about))


@command.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES...", type=click.Path(path_type=Path))
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Only this scope; repeat it.")
@click.option("--without", multiple=True, metavar="SCOPE/TOPOLOGY", help="Leave these vectors out; repeat it.")
@format_option("table", "json")
@click.pass_context
def check(
    ctx: click.Context, files: tuple[Path, ...], scopes: tuple[str, ...], without: tuple[str, ...], format_: str
) -> None:
    """Run the conformance vectors of FILES (.jsonl or .jsonl.zst) through the engine.

    Exit code 0 only if all pass; a column, scope or machine that no policy has is an error, never a skip.
    """
    from rewake.analysis import jsonout, table
    from rewake.replay import conformance

    outcome = conformance.check(list(files), scopes=scopes, without=without)
    if format_ == "json":
        _answers.emit(jsonout.dumps(outcome.to_json()))
    else:
        _answers.emit(table.conformance(outcome.to_json(), [conformance.explain(f) for f in outcome.failures]))
    ctx.exit(EXIT_OK if outcome.ok else EXIT_ERROR)
