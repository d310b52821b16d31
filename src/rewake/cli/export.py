# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake export`: a run for other programs to show."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from rewake.cli import _answers
from rewake.cli._shared import format_option
from rewake.cli._window import Window, window_option
from rewake.errors import UsageError


@click.command(short_help="Write a run as a Perfetto timeline.")
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--perfetto", "file", metavar="FILE", required=True, type=click.Path(path_type=Path), help="Where to.")
@click.option("--policy", "asked", multiple=True, metavar="NAME", help="Instance of RUN; repeat it. Default: all.")
@window_option
@format_option("table", "json")
def command(run: Path, file: Path, asked: tuple[str, ...], window: Window | None, format_: str) -> None:
    """Write RUN to FILE, for ui.perfetto.dev or trace_processor: the recording, and each policy as its own machine.

    A policy's machine shows where it placed each wakee, not a re-run: it is one-step. Arrows lead from each recorded
    decision to those of the policies that differ.
    """
    from rewake import forms
    from rewake.analysis import jsonout, perfetto, report, sql, text
    from rewake.whole import whole

    opened = forms.Run(run)
    if opened.manifest.get("mode") == "closed":
        raise UsageError(f"{run}: a simulation, which has no one-step decisions to show: export a replay")
    for name in asked:
        if name not in opened.policies:
            raise UsageError(f"{run}: no policy {name}; it has {', '.join(opened.policies)}")
    manifest = opened.recording.manifest
    con = opened.connect()
    try:
        branches = report.branches_of(opened.manifest["policies"])
        sql.prepare(con, branches)
        bounds = None if window is None else perfetto.Window(*window.within(manifest))
        with whole(file) as out:
            found = perfetto.export(con, manifest, list(asked) or opened.policies, bounds, out, branches)
    finally:
        con.close()
    if format_ == "json":
        _answers.emit(jsonout.dumps(asdict(found)))
        return
    lines = [f"{text.terminal(str(file), None)}: {found.switches:,} switches, {found.wakings:,} wakings"]
    lines += [
        f"  {text.terminal(policy)}: {n:,} decisions, {found.differ[policy]:,} on another CPU than recorded"
        for policy, n in found.decisions.items()
    ]
    _answers.emit("\n".join(lines) + "\n")
