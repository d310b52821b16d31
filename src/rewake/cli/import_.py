# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake import`: a trace becomes a recording."""

from __future__ import annotations

from pathlib import Path

import click

from rewake.analysis import text
from rewake.cli._shared import progress, redact_option, topology_option


@click.command("import", short_help="Turn a trace into a recording.")
@click.argument("trace", type=click.Path(path_type=Path))
@topology_option
@click.option(
    "--strict",
    is_flag=True,
    help="Refuse a trace with losses, damage, timestamps that step back, or CPUs recorded over different times.",
)
@redact_option
@click.option("-o", "--output", metavar="REC", type=click.Path(path_type=Path), help="Where to; default: the cache.")
def command(trace: Path, topology: str | None, strict: bool, redact: Path | None, output: Path | None) -> None:
    """Import TRACE and print the path of the recording.

    TRACE is a trace.dat, perf.data, ftrace text (tracefs, trace-cmd report, perf script, systrace, also HTML), a
    Perfetto trace or a capture tar, found by content, as it is or in gzip.

    The snapshot of the machine is taken from topology.tar.gz beside the trace unless --topology names another.
    """
    from rewake.importing import import_trace

    with progress() as show:
        recording = import_trace(trace, topology, output, strict, show, redact)
    click.echo(text.terminal(str(recording.path), None))
