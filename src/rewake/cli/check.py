# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake check`: the quality card."""

from __future__ import annotations

from pathlib import Path

import click

from rewake.cli._shared import (
    force_option,
    format_option,
    open_recording,
    print_json,
    print_rows,
    recording_argument,
    topology_option,
)


@click.command(short_help="Show the quality card; exit 4 when it refuses.")
@recording_argument
@topology_option
@format_option("table", "json")
@force_option
def command(recording: Path, topology: str | None, format_: str, force: bool) -> None:
    """Show the quality card of REC, a recording or a raw trace: every threshold with its value.

    Exit code 4 when a threshold is not met, unless --force.
    """
    from rewake.analysis.quality import assess
    from rewake.forms import SCHEMA_VERSION

    found = open_recording(recording, topology)
    card = assess(found)
    if format_ == "json":
        print_json({"schema_version": SCHEMA_VERSION, "id": found.manifest["id"], **card.as_dict()})
    else:
        words = {True: "ok", False: "REFUSED", None: "unknown"}
        rows = [("", "value", "", "limit", "", "")]
        for c in card.checks:
            value = "-" if c.value is None else f"{c.value:.6g}"
            rows.append((words[c.passed], value, c.relation, f"{c.limit:g}", c.unit, c.meaning))
        print_rows(rows, right=(1, 3))
        for note in card.notes:
            print_rows([("note", note)])
    card.enforce(force)
