# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake report`: the tables of a run again, without deciding anything anew."""

from __future__ import annotations

from pathlib import Path

import click

from rewake import runs
from rewake.cli import _answers
from rewake.cli._shared import force_option, format_option, only_form
from rewake.errors import UsageError


def _schema(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    from importlib.resources import files

    click.echo(files("rewake.analysis").joinpath("report.schema.json").read_text(encoding="utf-8"), nl=False)
    context.exit()


@click.command(short_help="Print a run again, or write it as a page.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--html", "page", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report with charts as one HTML file that needs no network, and print its name.",
)  # fmt: skip
@click.option(
    "--json-schema", is_flag=True, is_eager=True, expose_value=False, callback=_schema,
    help="Print the schema of --format json and leave.",
)  # fmt: skip
@_answers.exposure_option
@_answers.min_skill_option
@force_option
@format_option("table", "markdown", "json", "csv", "parquet")
def command(
    run: Path, page: Path | None, max_exposure: float, min_skill: float | None, force: bool, format_: str
) -> None:  # fmt: skip
    """Print the report of RUN, a directory that rewake replay or rewake simulate wrote."""
    from rewake.analysis import fidelity, simulated
    from rewake.forms import Run
    from rewake.whole import put

    if page is not None:
        only_form("--html")
    opened = Run(run)
    if opened.manifest.get("mode") == "closed":
        if min_skill is not None:
            raise UsageError(f"{run}: a simulation, which has no skill over prev: leave --min-skill out")
        simulation = runs.simulation_of(opened)
        if page is not None:
            put(page, runs.page_of_simulation(opened))
            click.echo(page)
        else:
            _answers.print_simulation(simulation, opened.recording, format_)
        simulation.quality.enforce(force)
        simulated.enforce(simulation, force)
        return
    if page is not None:
        text, found = runs.page_of(opened, max_exposure)
        put(page, text)
        click.echo(page)
    else:
        found = runs.report_of(opened, max_exposure)
        _answers.print_report(found, opened.recording, format_)
    found.quality.enforce(force)
    fidelity.enforce(found.fidelity, found.refusal, min_skill)
