# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake info`: what is in a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rewake.cli._shared import (
    format_option,
    open_recording,
    print_json,
    print_rows,
    recording_argument,
    seconds,
    topology_option,
)


@click.command(short_help="Show what is in a recording or a trace.")
@recording_argument
@topology_option
@format_option("table", "json")
def command(recording: Path, topology: str | None, format_: str) -> None:
    """Show kernel, machine, events, losses, tasks and decisions of REC, a recording or a raw trace."""
    from rewake.analysis.summary import summarize

    opened = open_recording(recording, topology)
    opened.check()
    summary = summarize(opened)
    if format_ == "json":
        print_json(summary)
        return
    source = summary["source"]
    head = [
        ("trace", f"{source['name']}  {_format(source)}"),
        ("kernel", summary["kernel"] or "unknown"),
        ("machine", summary["topology"]),
        ("span", f"{seconds(summary['span_ns'])}  clock {summary['clock'] or 'unknown'}"),
        ("events", f"{summary['events_total']:,}  lost {summary['lost']:,}"),
        ("tasks", f"{summary['tasks']:,}"),
        ("decisions", f"{sum(summary['decisions'].values()):,}"),
    ]
    print_rows(head)
    for title, counts in (("events", summary["events"]), ("decisions", summary["decisions"])):
        click.echo(f"\n{title}")
        print_rows([("", name, f"{n:,}") for name, n in counts.items() if n], right=(2,))
    for title, notes in (
        ("not in the trace", summary["missing"]),
        ("notes", summary["problems"] + summary["notes"]),
        ("in the recording that this is a slice of, here or elsewhere", summary["damage_of_whole"]),
    ):
        if notes:
            click.echo(f"\n{title}")
            for note in notes:
                print_rows([("", note)])


def _format(source: dict[str, Any]) -> str:
    """`trace.dat v7 zstd`, `text, trace-cmd report, in gzip`: what is known of the file's format."""
    version = str(source["version"] or "")
    version = f" v{version}" if version[:1].isdigit() else f", {version}" if version else ""
    compression = f" {source['compression']}" if source["compression"] else ""
    return f"{source['format']}{version}{compression}" + (f", in {source['packed']}" if source.get("packed") else "")
