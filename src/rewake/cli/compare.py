# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake compare`: two runs, or two sets of them, as a regression gate."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rewake.cli import _answers, _runs
from rewake.cli._shared import force_option, format_option
from rewake.errors import EXIT_INCONCLUSIVE, EXIT_OK, EXIT_REGRESSION

if TYPE_CHECKING:
    from rewake.analysis.compare import Comparison


@click.command(short_help="Compare two sets of runs; exit 3 on a regression.")
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--fail-on",
    "fail_on",
    multiple=True,
    metavar="METRIC+N%",
    help="Exit 3 only where this metric grew (-N%: fell) by more than N %; repeat it. Default: any regression.",
)
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Compare this metric only; repeat it.")
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="Compare this policy only; repeat it.")
@_runs.floor_option
@click.option(
    "--unpaired", is_flag=True, help="BASE and NEW are repeats of one load, not replays of the same recordings."
)
@click.option("--all", "everything", is_flag=True, help="Show also what did not change.")
@click.option("--strict", is_flag=True, help="Exit 6 when nothing failed but something is inconclusive.")
@click.option("--junit-xml", type=click.Path(path_type=Path), metavar="FILE", help="Also write JUnit XML.")
@click.option("--github", is_flag=True, help="Also print ::error:: lines and append to $GITHUB_STEP_SUMMARY.")
@force_option
@format_option("table", "markdown", "json", "csv")
def command(
    base: Path,
    new: Path,
    fail_on: tuple[str, ...],
    metrics: tuple[str, ...],
    policies: tuple[str, ...],
    floor: float,
    unpaired: bool,
    everything: bool,
    strict: bool,
    junit_xml: Path | None,
    github: bool,
    force: bool,
    format_: str,
) -> int:
    """Compare the runs NEW with the runs BASE: each a run, or a directory of runs.

    Runs of the same recording are compared with each other; the unit of the statistics is the recording, never the
    wakeup. A single pair is cut into blocks of time, and what is found then holds within that recording only.
    """
    from rewake.analysis import compare, compareout, measures
    from rewake.whole import put

    gates = [measures.gate(text) for text in fail_on]
    sides = [_runs.runs_in(path) for path in (base, new)]
    subjects = [[_runs.subject_of(run, force) for run in side] for side in sides]
    single = [_runs.partners(sides)] if not unpaired else [None]
    found = compare.compare(
        *subjects,
        blocks=None if single[0] is None else _runs.blocks_of(single[0]),
        unpaired=unpaired,
        metrics=metrics,
        policies=policies,
        gates=gates,
        floor_pct=floor,
    )
    if format_ == "markdown":
        _answers.emit(compareout.markdown(found, everything))
    else:
        _answers.show(
            format_,
            lambda: compareout.table(found, everything),
            lambda: _runs.document("compare", found.plain()),
            compareout.rows(found, everything),
        )
    # After the answer, which is there also where these cannot be written.
    if junit_xml is not None:
        put(junit_xml, compareout.junit(found))
    if github:
        _tell_github(found)
    if found.failed:
        return EXIT_REGRESSION
    return EXIT_INCONCLUSIVE if strict and (found.inconclusive or not found.findings) else EXIT_OK


def _tell_github(found: Comparison) -> None:
    from rewake.analysis import compareout

    click.echo(compareout.error_lines(found), nl=False, err=True)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8") as file:
            file.write(compareout.markdown(found, everything=False))
