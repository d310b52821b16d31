# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake fidelity`: whether the recorded kernel's own column reproduces what the kernel chose."""

from __future__ import annotations

from pathlib import Path

import click

from rewake.cli import _accounts, _answers
from rewake.cli._shared import force_option, format_option, open_recording, recording_argument, topology_option
from rewake.errors import FidelityError, UsageError


@click.command(short_help="Compare the recorded kernel's column with what it chose.")
@recording_argument
@topology_option
@click.option("--min-skill", type=float, help="Exit 5 when the skill over prev is below this.")
@click.option("--as", "column", metavar="COLUMN", help="Judge this policy instead of the recorded kernel's column.")
@click.option("--inputs", is_flag=True, help="Audit: what the engine reads against what placement probes recorded.")
@click.option("--budget", is_flag=True, help="What the misses are due to.")
@_answers.assume_option
@_answers.ignore_probes_option
@force_option
@format_option("table", "json", "csv")
def command(
    recording: Path,
    topology: str | None,
    min_skill: float | None,
    column: str | None,
    inputs: bool,
    budget: bool,
    assume: tuple[str, ...],
    ignore_probes: bool,
    force: bool,
    format_: str,
) -> None:
    """Replay the recorded kernel's own column over REC, a recording or a raw trace, and compare it with the record.

    Skill is agreement beyond the null policy prev: (A - A_prev) / (1 - A_prev). Refuses (exit 5) when no column stands
    for the recorded kernel or sched_ext placed tasks; --as overrides, and every figure then says so. In CSV the rows of
    --inputs or --budget take the place of the branches.
    """
    from rewake.analysis import fidelity, quality, report, sql, table
    from rewake.replay.spec import PolicySpec, parse

    sync = _answers.sync_of(assume)
    opened = open_recording(recording, topology)
    card = quality.assess(opened)
    card.enforce(force)
    notes: tuple[str, ...] = ()
    if column is None:
        found = _answers.recorded_column(opened, _answers.policies())
        instance, notes = found.instance, found.notes
    else:
        chosen = _answers.parse_policies([column])
        if len(chosen) != 1 or chosen[0].name == "auto":
            raise UsageError(f"--as {column}: one policy instance expected")
        instance = str(chosen[0])
    judged = parse(instance)[0]
    more = [_accounts.inputs(opened, judged)] if inputs else []
    if budget:
        more.append(_accounts.budget(opened, judged, sync=sync, use_probes=not ignore_probes))
    name = _answers.display_name(recording)
    specs = {str(s): s for s in (PolicySpec("recorded"), PolicySpec("prev"), *parse(instance))}
    run = _answers.make_run(
        opened,
        list(specs.values()),
        name=name,
        out=None,
        seed=0,
        sync=sync,
        auto=instance,
        use_probes=not ignore_probes,
    )
    con = run.connect()
    try:
        sql.prepare(con, report.branches_of(run.manifest["policies"]))
        sql.settle(con)
        measured = fidelity.measure(con, instance, asked=column is not None, notes=notes)
        machine = report.machine_of(con, name, opened.manifest.get("kernel"))
        branches = sql.Rows(
            tuple(sql.catalogue()["fidelity/branches"].columns),
            [(instance, *vars(b).values()) for b in measured.branches],
        )
    finally:
        con.close()
    _answers.show(
        format_,
        lambda: "\n".join([table.fidelity(machine, card, measured), *(section.table for section in more)]),
        lambda: _answers.document(
            "fidelity", measured.plain() | {section.name: section.plain for section in more}, opened, card.as_dict()
        ),
        more[-1].rows if more else branches,
    )
    if min_skill is not None and (measured.skill is None or measured.skill < min_skill):
        figure = "not defined (the kernel moved nothing)" if measured.skill is None else f"{measured.skill:.3f}"
        raise FidelityError(f"{instance}: skill {figure}, at least {min_skill:g} was asked for")
