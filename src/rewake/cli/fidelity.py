# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake fidelity`: whether the recorded kernel's own column reproduces what the kernel chose, or which one does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rewake import runs
from rewake.cli import _accounts, _answers
from rewake.cli._shared import force_option, format_option, open_recording, recording_argument, topology_option
from rewake.errors import FidelityError, UsageError

if TYPE_CHECKING:
    from rewake.analysis.quality import QualityCard
    from rewake.forms import Recording


@click.command(short_help="Compare the recorded kernel's column with what it chose.")
@recording_argument
@topology_option
@_answers.min_skill_option
@click.option("--as", "column", metavar="COLUMN", help="Judge this policy instead of the recorded kernel's column.")
@click.option("--inputs", is_flag=True, help="Audit: what the engine reads against what placement probes recorded.")
@click.option("--budget", is_flag=True, help="What the misses are due to.")
@_answers.hints_option
@click.option("--identify", is_flag=True, help="Rank all kernel columns and their features by what was recorded.")
@_answers.assume_option
@_answers.plugin_timeout_option
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
    hints: Path | None,
    identify: bool,
    assume: tuple[str, ...],
    plugin_timeout: float,
    ignore_probes: bool,
    force: bool,
    format_: str,
) -> None:
    """Replay the recorded kernel's own column over REC, a recording or a raw trace, and compare it with the record.

    Skill is agreement beyond the null policy prev: (A - A_prev) / (1 - A_prev). Refuses (exit 5) when no column stands
    for the recorded kernel or sched_ext placed tasks; --as overrides, and every figure then says so. In CSV the rows of
    --inputs or --budget take the place of the branches.

    --identify does not ask which kernel was recorded: it tries every column and every placement feature, ranks them by
    agreement on moved wakeups and says which cannot be told apart. WF_SYNC is then inferred for each candidate unless
    --assume says otherwise.
    """
    from rewake.analysis import fidelity, quality, report, sql, table, text
    from rewake.replay.spec import PolicySpec, parse

    if identify and (column is not None or min_skill is not None or inputs or budget or hints or ignore_probes):
        raise UsageError(
            "--identify judges all columns: it goes with none of --as, --min-skill, --inputs, --budget, --hints and"
            " --ignore-probes"
        )
    sync = _answers.sync_of(assume)
    if identify and sync == "causal":
        raise UsageError("--identify goes with --assume sync=0, 1 or auto")
    rules = _answers.rules_of(hints)
    opened = open_recording(recording, topology)
    card = quality.assess(opened)
    card.enforce(force)
    if identify:
        _identify(opened, runs.display_name(recording), card, sync, format_)
        return
    notes: tuple[str, ...] = ()
    if column is None:
        try:
            found = runs.recorded_column(opened, runs.policies())
        except FidelityError as error:
            raise FidelityError(f"{error} (--as COLUMN)") from None
        instance, notes = found.instance, found.notes
    else:
        chosen = runs.parse_policies([column], plugin_timeout)
        if len(chosen) != 1 or chosen[0].name == "auto":
            raise UsageError(f"--as {column}: one policy instance expected")
        instance = str(chosen[0])
    judged = parse(instance)[0]
    if judged.is_plugin and (inputs or budget):
        raise UsageError("--inputs and --budget know the built-in policies only, and no plugins")
    sync = _answers.sync_of(assume, inferable=not judged.is_plugin)
    more = [_accounts.inputs(opened, judged)] if inputs else []
    if budget:
        more.append(_accounts.budget(opened, judged, sync=sync, use_probes=not ignore_probes, hints=rules))
    name = runs.display_name(recording)
    specs = {str(s): s for s in (PolicySpec("recorded"), PolicySpec("prev"), *parse(instance))}
    run = runs.make_run(
        opened,
        list(specs.values()),
        name=name,
        out=None,
        seed=0,
        sync=sync,
        auto=instance,
        use_probes=not ignore_probes,
        hints=rules,
        plugin_timeout=plugin_timeout,
        progress=_answers.progress("replay"),
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
    problems = runs.plugin_problems(run)
    told = [f"{text.terminal(problem, None)}.\n" for problem in problems]
    _answers.show(
        format_,
        lambda: "\n".join([table.fidelity(machine, card, measured), *told, *(section.table for section in more)]),
        lambda: _answers.document(
            "fidelity",
            measured.plain() | {"problems": problems} | {section.name: section.plain for section in more},
            opened,
            card.as_dict(),
        ),
        more[-1].rows if more else branches,
    )
    _answers.complain_of_plugins(run)
    fidelity.enforce(measured, None, min_skill)


def _identify(opened: Recording, name: str, card: QualityCard, sync: str, format_: str) -> None:
    """Ranks the candidates. The recorded kernel is looked up in the result, and takes no part in it."""
    from rewake.analysis import identify, report, sql, table
    from rewake.replay.spec import parse

    if runs.placed_by_ext(opened):
        raise FidelityError("a sched_ext scheduler was placing tasks in this recording: no kernel column decided it")
    specs = [spec for text in identify.candidates(runs.parameters_of(runs.policies())) for spec in parse(text)]
    run = runs.make_trial(opened, specs, name, _answers.progress("identify"))
    own = runs.own_column(opened)
    notes = own.notes if own.refusal is None else (own.refusal,)
    con = run.connect()
    try:
        sql.prepare(con)
        found = identify.measure(con, run.manifest, sync, own.instance, notes)
        machine = report.machine_of(con, name, opened.manifest.get("kernel"))
    finally:
        con.close()
    _answers.show(
        format_,
        lambda: table.identification(machine, card, found),
        lambda: _answers.document("identify", found.plain(), opened, card.as_dict()),
        found.rows(),
    )
