# SPDX-License-Identifier: GPL-2.0-or-later
"""B predicted from A alone: what the simulation and one step of replay say that B's policy changes on recordings of A,
held against what B measured (analysis/validation.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rewake import runs
from rewake.analysis import simulated, validation
from rewake.errors import UsageError
from rewake.replay import fair
from rewake.replay.spec import parse

if TYPE_CHECKING:
    from rewake.forms import Recording
    from rewake.replay.settings import Settings

Figures = dict[str, float | None]
"""By name of validation.FIGURES; None: not known."""


def validate(
    a: Mapping[str, Recording], b: Mapping[str, Recording], settings: Settings, force: bool
) -> validation.Validation:
    """`a`, `b`: repeats of the same load under two kernels or sets of features, by name. Of B only its kernel and
    features are looked at before the prediction stands.

    UsageError where the repeats of one side differ in what decides, FidelityError where no column stands for their
    kernel, QualityVeto where too many simulated windows diverge, unless `force`.
    """
    policy_a, policy_b = (runs.shared_column(r.values()) for r in (a, b))
    queues = {(r.manifest.get("features") or {}).get("TTWU_QUEUE", True) for r in b.values()}
    if len(queues) > 1:
        raise UsageError("the recordings of B differ in TTWU_QUEUE")
    (queues_wakeups,) = queues
    diverged = 0.0
    ratios: dict[str, Figures] = {}
    steps: dict[str, Figures] = {}
    errors: dict[str, Figures] = {}
    for name, recording in a.items():
        run = runs.make_simulation(
            recording, [parse(policy_b)[0]], settings, name=name, out=None, auto=parse(policy_a)[0],
            queues_wakeups=queues_wakeups,
        )  # fmt: skip
        found = runs.simulation_of(run, name)
        simulated.enforce(found, force)
        diverged = max(diverged, *(p["diverged_pct"] or 0.0 for p in found.policies))
        ratios[name] = _changed(found)
        check = found.check("factual")
        errors[name] = {} if check is None else validation.misses(check.figures)
        steps[name] = _one_step(recording, name, policy_a, policy_b, settings.seed)
    kernel_a, kernel_b = (next(iter(of.values())).manifest.get("kernel") for of in (a, b))
    stays = fair.placement_only(kernel_a, {policy_b: kernel_b}, "A's kernel")
    return validation.build(
        {name: validation.measured(r) for name, r in a.items()},
        {name: validation.measured(r) for name, r in b.items()},
        ratios, steps, errors, policy_a, policy_b, diverged, () if stays is None else (stays,),
    )  # fmt: skip


def _changed(found: simulated.Simulated) -> Figures:
    """Ratio of B's policy in charge to A's."""
    by_kind = {p["kind"]: p for p in found.policies}
    base = by_kind["factual"]
    changed = by_kind.get("policy", base)  # the same column: the model says no change
    keys = {f: "wake_per_s" if f == "moves_per_s" else f for f in validation.FIGURES}
    return {f: validation.ratio(changed[k], base[k]) for f, k in keys.items()}


def _one_step(recording: Recording, name: str, policy_a: str, policy_b: str, seed: int) -> Figures:
    """Ratio of what one step of replay says under both columns: moves, and p99 of the lower bound of the latency."""
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
