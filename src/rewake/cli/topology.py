# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake topology`: what is known of a machine's shape."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rewake.cli._shared import format_option, open_recording, print_json, print_rows
from rewake.errors import TraceError

if TYPE_CHECKING:
    from rewake.forms import Columns


@click.group(short_help="Show the machine of a recording or of a topology file.")
def command() -> None:
    """What is known of a machine: nodes, packages, last-level caches, cores, CPUs."""


@command.command(short_help="Show a machine as a tree.")
@click.argument("source", metavar="REC|TRACE|XML|TAR|DIR|SYNTHETIC")
@format_option("table", "json")
def show(source: str, format_: str) -> None:
    """Show a machine as a tree: node, package, LLC, core, CPU.

    From a recording or trace, an lstopo XML, a snapshot or hwloc-gather-topology archive, a directory with copies of
    /sys and /proc, or a synthetic description such as 'pack:2 l3:8 core:8 pu:2'.
    """
    from rewake.analysis import topology

    cpu, state, notes = _machine(source)
    cpus = topology.cpus_of(cpu, state)
    if format_ == "json":
        print_json({**topology.document(cpus), "notes": notes})
        return
    print_rows([(line,) for line in topology.lines(cpus)])


def _machine(source: str) -> tuple[Columns, Columns, list[str]]:
    """The tables `cpu` and `cpu_state`, and what their making has to say."""
    from rewake.collectors import snapshot
    from rewake.identify import identify

    path = Path(source)
    if os.path.isfile(path / "manifest.json"):  # no error where a description is longer than a name may be
        found = open_recording(path)
    elif os.path.isfile(path):
        try:
            is_trace = not identify(path).holds_snapshot
        except TraceError:
            is_trace = False
        if not is_trace:
            machine = snapshot.load(path)
            return machine.cpu, machine.cpu_state, machine.notes
        found = open_recording(path)
    else:
        machine = snapshot.load(source)
        return machine.cpu, machine.cpu_state, machine.notes
    if not found.manifest.get("topology"):
        raise TraceError(f"{path}: no topology was recorded: import it with --topology")
    return found.read("cpu"), found.read("cpu_state"), []
