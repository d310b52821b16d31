# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake replay`: what every policy would have chosen, one step at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rewake import runs
from rewake.cli import _answers
from rewake.cli._shared import force_option, format_option, open_recording, recording_argument, topology_option
from rewake.replay.settings import WHOLE

if TYPE_CHECKING:
    from rewake.analysis.metrics import PolicyFigures
    from rewake.analysis.report import Report


@click.command(short_help="Re-decide every wakeup under other policies.")
@recording_argument
@topology_option
@click.option(
    "--policy",
    "asked",
    multiple=True,
    metavar="NAME[@COLUMN][:key=value,...]",
    help="Policy to replay; repeat it. SEED@COLUMN puts a seed on another kernel, a NAME with a / is a plugin's path, "
    "key=a..b replays every value. Default: recorded, prev, auto, oracle-idle and every seed.",
)
@_answers.hints_option
@_answers.assume_option
@_answers.ignore_probes_option
@click.option("-o", "--output", metavar="RUN", type=click.Path(path_type=Path), help="Where to; default: the cache.")
@click.option("--seed", type=click.IntRange(*WHOLE["seed"]), default=0, show_default=True, help="For random policies.")
@_answers.exposure_option
@_answers.plugin_timeout_option
@_answers.min_skill_option
@force_option
@format_option("table", "json", "csv")
def command(
    recording: Path,
    topology: str | None,
    asked: tuple[str, ...],
    hints: Path | None,
    assume: tuple[str, ...],
    ignore_probes: bool,
    output: Path | None,
    seed: int,
    max_exposure: float,
    plugin_timeout: float,
    min_skill: float | None,
    force: bool,
    format_: str,
) -> None:
    """Re-decide every wakeup of REC, a recording or a raw trace, under each policy, against what the kernel saw.

    The record itself, the null policy prev and the column of the recorded kernel (auto) are always replayed: without
    them no figure of another policy can be judged.
    """
    from rewake.analysis import fidelity
    from rewake.analysis.quality import assess

    _answers.sync_of(assume)
    wanted = runs.parse_policies(asked, plugin_timeout)
    rules = _answers.rules_of(hints)
    opened = open_recording(recording, topology)
    card = assess(opened)
    card.enforce(force)
    own = runs.own_column(opened)
    run = runs.make_run(
        opened,
        runs.replayed(wanted, own.instance),
        name=runs.display_name(recording),
        out=output,
        seed=seed,
        sync=_answers.sync_of(assume, inferable=own.instance is not None),
        auto=own.instance,
        use_probes=not ignore_probes,
        hints=rules,
        refusal=own.refusal,
        notes=own.notes,
        plugin_timeout=plugin_timeout,
        progress=_answers.progress("replay"),
    )
    report = runs.report_of(run, max_exposure, runs.display_name(recording))
    shown, source = _answers.path_shown(run.path), _answers.again(recording, topology, not card.ok)
    me, past = _answers.program(), "" if card.ok else " --force"
    taken = [("--assume", text) for text in assume]
    judged = _answers.options(*taken, ("--ignore-probes", ignore_probes)) + (" --as COLUMN" if own.refusal else "")
    steps = [
        f"{me} fidelity {source}{judged}", f"{me} report {shown} --html report.html{past}",
        f"{me} query {shown} --list",
    ]  # fmt: skip
    if (charge := _in_charge(report, [str(s) for s in wanted])) is not None:
        followed = hints is not None and runs.policies().get(charge.base.partition("@")[0], {}).get("hints")
        same = [(name, text) for name, text in taken if text != "sync=causal"]  # nothing comes earlier in a simulation
        given = _answers.options(("--policy", charge.policy), ("--hints", hints if followed else None), *same)
        steps.insert(1, f"{me} simulate {source}{given}")
    _answers.print_report(report, opened, format_, steps)
    _answers.complain_of_plugins(run)
    fidelity.enforce(report.fidelity, report.refusal, min_skill)


def _in_charge(report: Report, asked: Sequence[str]) -> PolicyFigures | None:
    """What to simulate where one step hides too much, None where it does not: what was asked about, rather than the
    recorded kernel's column beside it."""
    over = [p for p in report.over_exposed() if not p.reference]
    mine = [p for p in over if p.policy in asked] or [
        p for p in report.policies if p.policy in asked and not p.reference
    ]
    return (mine or over)[0] if over else None
