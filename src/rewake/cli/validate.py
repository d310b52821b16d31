# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake validate`: is B what the simulation of A says that it should be?"""

from __future__ import annotations

from pathlib import Path

import click

from rewake import quantity
from rewake.cli import _answers
from rewake.cli._runs import recordings_in, require_distinct
from rewake.cli._shared import force_option, format_option
from rewake.errors import UsageError
from rewake.replay.settings import WHOLE, Settings


@click.command(short_help="Predict one recording from another, and compare with what was measured.")
@click.argument("a", metavar="A", type=click.Path(path_type=Path))
@click.argument("b", metavar="B", type=click.Path(path_type=Path))
@click.option("--a", "more_a", multiple=True, type=click.Path(path_type=Path), help="A further repeat of A.")
@click.option("--b", "more_b", multiple=True, type=click.Path(path_type=Path), help="A further repeat of B.")
@click.option("--windows", default="1s", show_default=True, metavar="DURATION", help="As of simulate.")
@_answers.balance_option()
@_answers.move_cost_option()
@click.option("--seed", type=click.IntRange(*WHOLE["seed"]), default=0, show_default=True, help="For what is drawn.")
@force_option
@format_option("table", "json")
def command(
    a: Path,
    b: Path,
    more_a: tuple[Path, ...],
    more_b: tuple[Path, ...],
    windows: str,
    balance: str,
    move_cost: float,
    seed: int,
    force: bool,
    format_: str,
) -> None:  # fmt: skip
    """Predict what B measured from A alone: recordings of the same load under two kernels or sets of features.

    A and B are recordings, raw traces, or directories of recordings (repeats). Of B only its kernel and features are
    looked at before the prediction stands. Beside it: "no change", and the ratio that one step of replay gives.
    """
    from rewake.analysis import jsonout, validation_table
    from rewake.analysis.quality import assess
    from rewake.analysis.summary import machine_line
    from rewake.validating import validate

    settings = Settings(windows_ns=quantity.duration(windows), seed=seed, balance=balance, move_factor=move_cost)
    before, after = recordings_in([a, *more_a]), recordings_in([b, *more_b])
    require_distinct({"A": before, "B": after})
    machines = {machine_line(r.manifest["machine"]) for r in (*before.values(), *after.values())}
    if len(machines) > 1 and not force:
        raise UsageError(f"A and B are of different machines ({'; '.join(sorted(machines))}): --force overrides")
    for recording in (*before.values(), *after.values()):
        assess(recording).enforce(force)
    result = validate(before, after, settings, force)
    if format_ == "table":
        _answers.emit(validation_table.table(result))
    else:
        first = next(iter(before.values()))
        card = assess(first).as_dict()
        _answers.emit(jsonout.dumps(_answers.document("validation", result.plain(), first, card)))
