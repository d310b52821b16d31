# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake doctor`: what can be recorded here, and what is missing."""

from __future__ import annotations

import click

from rewake.cli._shared import format_option, print_json, print_rows
from rewake.errors import EXIT_ERROR, EXIT_OK


@click.command(short_help="Say what this machine lets you record, and how to get the rest.")
@format_option("table", "json")
def command(format_: str) -> int:
    """Show what is installed, what tracing this kernel allows, what is missing and how to get it. Changes nothing.

    Exit code 1 when nothing can be recorded.
    """
    from rewake.collectors.capture import doctor

    found = doctor.examine()
    able = doctor.can_record(found)
    if format_ == "json":
        print_json({"can_record": able, "findings": [f.as_dict() for f in found]})
    else:
        rows: list[tuple[str, ...]] = []
        for f in found:
            rows.append((f.status, f.name, f.found))
            if f.remedy:
                rows.append(("", "", f"-> {f.remedy}"))
        print_rows(rows)
        click.echo(f"\nrewake record {'works here' if able else 'cannot record here'}")
    return EXIT_OK if able else EXIT_ERROR
