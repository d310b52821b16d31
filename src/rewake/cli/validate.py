# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake validate`: is B what the simulation of A says that it should be?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rewake import runs
from rewake.cli import _answers
from rewake.cli._runs import recordings_in, require_distinct
from rewake.cli._shared import force_option, format_option
from rewake.errors import UsageError
from rewake.replay.settings import WHOLE, Settings

if TYPE_CHECKING:
    from rewake.forms import Recording


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
    from rewake.analysis import jsonout, simulated, validation, validation_table
    from rewake.analysis.quality import assess
    from rewake.analysis.summary import machine_line
    from rewake.replay import fair
    from rewake.replay.spec import parse

    settings = Settings(windows_ns=runs.duration(windows), seed=seed, balance=balance, move_factor=move_cost)
    before, after = recordings_in([a, *more_a]), recordings_in([b, *more_b])
    require_distinct({"A": before, "B": after})
    machines = {machine_line(r.manifest["machine"]) for r in (*before.values(), *after.values())}
    if len(machines) > 1 and not force:
        raise UsageError(f"A and B are of different machines ({'; '.join(sorted(machines))}): --force overrides")
    for recording in (*before.values(), *after.values()):
        assess(recording).enforce(force)
    policy_a, policy_b = (runs.shared_column(r.values()) for r in (before, after))
    wakes = {(r.manifest.get("features") or {}).get("TTWU_QUEUE", True) for r in after.values()}
    if len(wakes) > 1:
        raise UsageError("the recordings of B differ in TTWU_QUEUE")
    diverged = 0.0
    ratios: dict[str, dict[str, float | None]] = {}
    steps: dict[str, dict[str, float | None]] = {}
    errors: dict[str, dict[str, float | None]] = {}
    for name, recording in before.items():
        spec_a, spec_b = parse(policy_a)[0], parse(policy_b)[0]
        run = runs.make_simulation(
            recording, [spec_b], settings, name=name, out=None, auto=spec_a, queues_wakeups=wakes.copy().pop()
        )
        found = runs.simulation_of(run, name)
        simulated.enforce(found, force)
        diverged = max(diverged, *(p["diverged_pct"] or 0.0 for p in found.policies))
        by_kind = {p["kind"]: p for p in found.policies}
        base = by_kind["factual"]
        changed = by_kind.get("policy", base)  # the same column: the model says no change
        keys = {f: "wake_per_s" if f == "moves_per_s" else f for f in validation.FIGURES}
        ratios[name] = {f: validation.ratio(changed[k], base[k]) for f, k in keys.items()}
        check = found.check("factual")
        errors[name] = {} if check is None else validation.misses(check.figures)
        steps[name] = _one_step(recording, name, policy_a, policy_b, seed)
    kernel_a, kernel_b = (next(iter(of.values())).manifest.get("kernel") for of in (before, after))
    stays = fair.placement_only(kernel_a, {policy_b: kernel_b}, "A's kernel")
    result = validation.build(
        {name: validation.measured(r) for name, r in before.items()},
        {name: validation.measured(r) for name, r in after.items()},
        ratios, steps, errors, policy_a, policy_b, diverged, () if stays is None else (stays,),
    )  # fmt: skip
    if format_ == "table":
        _answers.emit(validation_table.table(result))
    else:
        first = next(iter(before.values()))
        card = assess(first).as_dict()
        _answers.emit(jsonout.dumps(_answers.document("validation", result.plain(), first, card)))


def _one_step(recording: Recording, name: str, policy_a: str, policy_b: str, seed: int) -> dict[str, float | None]:
    """Ratio of what one step of replay says under both columns: moves, and p99 of the lower bound of the latency."""
    from rewake.analysis import validation
    from rewake.replay.spec import parse

    if policy_a == policy_b:
        return {}
    specs = [parse("recorded")[0], parse("prev")[0], parse(policy_a)[0], parse(policy_b)[0]]
    run = runs.make_run(recording, specs, name=name, out=None, seed=seed, sync="auto", auto=policy_a)
    figures = {p.policy: p.figures for p in runs.report_of(run, 100.0, name).policies}
    one, other = figures[policy_a], figures[policy_b]
    return {
        "moves_per_s": validation.ratio(other["would_move_per_1k"], one["would_move_per_1k"]),
        "p99_ns": validation.ratio(other["p99_lo_ns"], one["p99_lo_ns"]),
    }
