# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake policies`: which policies exist, what each is made of, and whether they pass the conformance vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rewake import runs
from rewake.cli import _answers
from rewake.cli._shared import format_option
from rewake.errors import EXIT_ERROR, EXIT_OK, UsageError


@click.group(short_help="List, show and check policies.")
def command() -> None:
    """List, show and check the policies that can be replayed."""


@command.command("list")
@format_option("table", "json", "csv")
def list_(format_: str) -> None:
    """List the policies that can be replayed: mainline kernels, seeds (postings) and reference policies."""
    from rewake.analysis import policies, sql

    found = [policies.described(p) for p in runs.policies().values()]
    columns = ("policy", "kind", "base", "date", "vectors", "summary")
    answer = sql.Rows(
        columns, [(p["name"], p["kind"], p["base"], p["date"], p["oracle_column"], p["summary"]) for p in found]
    )
    _answers.show(format_, lambda: policies.listing(found), lambda: {"policies": found}, answer)


@command.command()
@click.argument("name", metavar="NAME[@COLUMN]")
@click.option(
    "--vectors",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="Conformance vectors to run, files or directories; repeat it. Default: those of the source tree.",
)
@format_option("table", "json")
def show(name: str, vectors: tuple[Path, ...], format_: str) -> None:
    """Show what NAME is: origin, parameters, steps in order, inputs, quirks, deviations and conformance.

    NAME@COLUMN is a seed's change put on another kernel, a hybrid; a NAME with a / is the path of a plugin.
    """
    from rewake.analysis import jsonout, policies
    from rewake.replay import conformance, plugins

    found = policies.described(plugins.describe(name).info() if "/" in name else runs.policy(name))
    column = found["oracle_column"]
    given = list(vectors) or conformance.bundled(column)
    found["conformance"] = None
    if column is not None and given:
        files = conformance.files(given)
        outcome = conformance.check(files, columns=[column]).to_json()
        found["conformance"] = policies.conformance(outcome, list(map(str, vectors)))
    _answers.emit(jsonout.dumps(found) if format_ == "json" else policies.card(found))


@command.command()
@click.argument("name")
@click.option("-o", "--output", metavar="DIR", type=click.Path(path_type=Path), help="Where to; default: ./NAME.")
def new(name: str, output: Path | None) -> None:
    """Write a policy of your own to start from: NAME.c, which decides what linux-6.1 decides, and the header it needs.

    The printed commands compile it and replay with it. Existing files are never overwritten.
    """
    from rewake.analysis import text
    from rewake.replay import plugins

    source = plugins.scaffold(name, output or Path(name))[0]
    shown, built = (_answers.path_shown(source.with_suffix(suffix)) for suffix in (".c", ".so"))
    built = built if built.startswith(("/", "~", "'/")) else f"./{built}"  # a policy with a / is a plugin
    _answers.emit(
        f"{text.terminal(shown, None)}\n"
        f"{text.terminal(f'next: cc -std=c99 -O2 -Wall -shared -fPIC -o {built} {shown}', None)}\n"
        f"{text.terminal(f'      {_answers.program()} replay TRACE --policy {built}', None)}\n"
    )


@command.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES...", type=click.Path(path_type=Path))
@click.option("--scope", "scopes", multiple=True, metavar="SCOPE", help="Only this scope; repeat it.")
@click.option("--without", multiple=True, metavar="SCOPE/TOPOLOGY", help="Leave these vectors out; repeat it.")
@click.option("--policy", metavar="PLUGIN[:key=value,...]", help="Check this plugin; with --as.")
@click.option("--as", "column", metavar="NAME", help="Policy whose vectors the plugin has to pass.")
@_answers.plugin_timeout_option
@format_option("table", "json")
@click.pass_context
def check(
    ctx: click.Context,
    files: tuple[Path, ...],
    scopes: tuple[str, ...],
    without: tuple[str, ...],
    policy: str | None,
    column: str | None,
    plugin_timeout: float,
    format_: str,
) -> None:
    """Run the conformance vectors of FILES (.jsonl or .jsonl.zst) through the engine.

    Exit code 0 only if all pass; a column, scope or machine that no policy has is an error, never a skip. A plugin is
    asked for whole decisions (scopes wake and fork_exec) only; the rest is counted as left out.
    """
    from rewake.analysis import jsonout, table
    from rewake.replay import conformance

    if (policy is None) != (column is None):
        raise UsageError("--policy and --as belong together")
    if policy is None or column is None:
        outcome = conformance.check(list(files), scopes=scopes, without=without)
        found, explained = outcome.to_json(), [conformance.explain(f) for f in outcome.failures]
    else:
        found, explained = _check_plugin(policy, column, files, scopes, without, plugin_timeout)
    _answers.emit(jsonout.dumps(found) if format_ == "json" else table.conformance(found, explained))
    ctx.exit(EXIT_OK if found["ok"] else EXIT_ERROR)


def _check_plugin(
    policy: str, column: str, files: tuple[Path, ...], scopes: tuple[str, ...], without: tuple[str, ...], timeout: float
) -> tuple[dict[str, Any], list[str]]:
    from rewake.replay import conformance

    specs = runs.parse_policies([policy], timeout)
    known = {name: p["oracle_column"] for name, p in runs.policies().items() if p["oracle_column"]}
    if len(specs) != 1 or not specs[0].is_plugin:
        raise UsageError(f"--policy {policy}: the path of one plugin expected (with a /)")
    if column not in known:
        raise UsageError(f"--as {column}: one of {', '.join(known)} expected")
    return conformance.check_plugin(
        specs[0], known[column], list(files), scopes=scopes, without=without, timeout=timeout
    )
