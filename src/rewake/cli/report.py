# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake report`: the tables of a run again, without deciding anything anew."""

from __future__ import annotations

from pathlib import Path

import click

from rewake.cli import _answers
from rewake.cli._shared import format_option
from rewake.errors import UsageError


@click.command(short_help="Print a run as a table, JSON or CSV.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@_answers.exposure_option
@_answers.min_skill_option
@format_option("table", "json", "csv")
def command(run: Path, max_exposure: float, min_skill: float | None, format_: str) -> None:
    """Print the report of RUN, a directory that rewake replay or rewake simulate wrote."""
    from rewake.analysis import fidelity
    from rewake.forms import Run

    opened = Run(run)
    if opened.manifest.get("mode") == "closed":
        if format_ == "csv":
            raise UsageError(f"{run}: a simulation, which has no CSV; rewake query {run} simulate/latency --format csv")
        _answers.print_simulation(_answers.simulation_of(opened), opened.recording, format_)
        return
    found = _answers.report_of(opened, max_exposure)
    _answers.print_report(found, opened.recording, format_)
    fidelity.enforce(found.fidelity, found.refusal, min_skill)
