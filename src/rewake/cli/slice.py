# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake slice`: a window of a recording, or a redacted copy, as a recording of its own."""

from __future__ import annotations

import re
from pathlib import Path

import click

from rewake.analysis import text
from rewake.cli._shared import (
    open_recording,
    progress,
    recording_argument,
    redact_option,
    seconds_of,
    topology_option,
)
from rewake.errors import UsageError


@click.command(short_help="Keep a window of a recording, or take its names out.")
@recording_argument
@topology_option
@click.option("--window", metavar="FROM..TO", help="Times after the first event: 2s..5s, 500ms.., ..1m.")
@redact_option
@click.option("-o", "--output", metavar="REC", type=click.Path(path_type=Path), required=True, help="Where to.")
def command(recording: Path, topology: str | None, window: str | None, redact: Path | None, output: Path) -> None:
    """Write the part of REC within --window, or with names redacted, and print the path.

    Numbers of events, tasks and decisions stay those of REC, and so do the decisions. A replay starts anew at the
    window: what it infers from earlier events is not there.
    """
    from rewake.slicing import slice_recording

    if window is None and redact is None:
        raise UsageError("nothing to do: give --window, --redact or both")
    wanted = (None, None) if window is None else _window(window)
    found = open_recording(recording, topology)
    with progress() as show:
        written = slice_recording(found, output, wanted, redact, show)
    click.echo(text.terminal(str(written.path), None))


def _window(given: str) -> tuple[int | None, int | None]:
    first, dots, last = given.partition("..")
    if not dots or not (first or last):
        raise UsageError(f"--window {given[:40]!r}: give two times, such as 2s..5s, 500ms.. or ..1m")
    begin, end = (_time(edge) if edge else None for edge in (first, last))
    if begin is not None and end is not None and begin >= end:
        raise UsageError(f"--window {given[:40]!r}: it ends before it begins")
    return begin, end


def _time(value: str) -> int:
    return 0 if re.fullmatch(r"0(ns|us|ms|s|m|h)?", value) else round(seconds_of(value) * 1e9)
