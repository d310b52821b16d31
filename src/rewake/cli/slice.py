# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake slice`: a window of a recording, or a redacted copy, as a recording of its own."""

from __future__ import annotations

from pathlib import Path

import click

from rewake.analysis import text
from rewake.cli._shared import (
    open_recording,
    progress,
    recording_argument,
    redact_option,
    topology_option,
)
from rewake.cli._window import Window, window_option
from rewake.errors import UsageError


@click.command(short_help="Keep a window of a recording, or take its names out.")
@recording_argument
@topology_option
@window_option
@redact_option
@click.option("-o", "--output", metavar="REC", type=click.Path(path_type=Path), required=True, help="Where to.")
def command(recording: Path, topology: str | None, window: Window | None, redact: Path | None, output: Path) -> None:
    """Write the part of REC within --window, or with names redacted, and print the path.

    Numbers of events, tasks and decisions stay those of REC, and so do the decisions. A replay starts anew at the
    window: what it infers from earlier events is not there.
    """
    from rewake.slicing import slice_recording

    if window is None and redact is None:
        raise UsageError("nothing to do: give --window, --redact or both")
    found = open_recording(recording, topology)
    with progress() as show:
        written = slice_recording(found, output, window or (None, None), redact, show)
    click.echo(text.terminal(str(written.path), None))
