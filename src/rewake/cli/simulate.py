# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake simulate`: what the machine would have done with another policy in charge."""

from __future__ import annotations

from pathlib import Path

import click

from rewake import quantity, runs
from rewake.cli import _answers
from rewake.cli._shared import (
    Number,
    force_option,
    format_option,
    open_recording,
    recording_argument,
    topology_option,
)
from rewake.errors import UsageError
from rewake.replay.settings import CHOICES, MOST_THREADS, RANGES, WHOLE, Settings


@click.command(short_help="Re-run the machine with other policies in charge (modelled).")
@recording_argument
@topology_option
@click.option(
    "--policy",
    "asked",
    multiple=True,
    metavar="NAME[@COLUMN][:key=value,...]",
    help="Policy to put in charge; repeat it. A NAME with a / is a plugin's path. The recorded kernel's column (auto) "
    "is always simulated, too.",
)
@_answers.hints_option
@click.option("--pin", is_flag=True, help="Only force what was recorded: does the machine model reproduce it?")
@click.option(
    "--windows",
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="Length of the windows, each begun on the recorded machine; at most a quarter of the recording.",
)
@click.option(
    "--replicas",
    type=click.IntRange(*WHOLE["replicas"]),
    default=1,
    show_default=True,
    help="Times that each window is run; all but the first draw their costs anew.",
)
@_answers.balance_option("Load balancing: by rule, as often as the recorded kernel, none.")
@_answers.move_cost_option("Times the cost of running elsewhere (2 µs in the LLC, 20 in the node, 50 beyond).")
@click.option(
    "--scan-cost",
    type=click.IntRange(*WHOLE["scan_ns"]),
    default=0,
    show_default=True,
    metavar="NS",
    help="Charged to the waker per CPU that its idle search looked at.",
)
@click.option(
    "--smt",
    type=Number(*RANGES["smt"]),
    default=1.0,
    show_default=True,
    help="Speed of a CPU whose sibling is busy.",
)
@click.option(
    "--timers",
    type=click.Choice(CHOICES["timers"]),
    default="relative",
    show_default=True,
    help="Timers fire so long after their sleep began, or when they were recorded.",
)
@click.option(
    "--assume",
    multiple=True,
    metavar="sync=0|1|auto",
    help="WF_SYNC, which no event carries: auto infers it from the recording (default), 0 and 1 take it as clear or "
    "set wherever a task wakes another.",
)
@click.option("--seed", type=click.IntRange(*WHOLE["seed"]), default=0, show_default=True, help="For what is drawn.")
@click.option(
    "--threads",
    type=click.IntRange(1, MOST_THREADS),
    default=1,
    show_default=True,
    help="Policies simulated at the same time; the answer is the same.",
)
@_answers.plugin_timeout_option
@click.option("-o", "--output", metavar="RUN", type=click.Path(path_type=Path), help="Where to; default: the cache.")
@force_option
@format_option("table", "json")
def command(
    recording: Path,
    topology: str | None,
    asked: tuple[str, ...],
    hints: Path | None,
    pin: bool,
    windows: str,
    replicas: int,
    balance: str,
    move_cost: float,
    scan_cost: int,
    smt: float,
    timers: str,
    assume: tuple[str, ...],
    seed: int,
    threads: int,
    plugin_timeout: float,
    output: Path | None,
    force: bool,
    format_: str,
) -> None:  # fmt: skip
    """Re-run REC, a recording or a raw trace, as a simulation with each policy in charge. Modelled throughout.

    Above the table stands how well the same model reproduces what was recorded. Policies are compared with the
    simulated run of the recorded kernel, never with the recording.
    """
    from rewake.analysis import simulated
    from rewake.analysis.quality import assess

    settings = Settings(
        windows_ns=quantity.duration(windows), replicas=replicas, seed=seed, balance=balance, move_factor=move_cost,
        scan_ns=scan_cost, smt=smt, timers=timers, pin=pin, sync=_answers.sync_of(assume, causal=False),
    )  # fmt: skip
    for option, given in (("--hints", hints is not None), ("--policy", bool(asked))):
        if given and pin:
            raise UsageError(f"{option} says nothing with --pin: what was recorded is forced")
    if not asked and not pin:
        raise UsageError("--policy is missing: what shall be in charge? (rewake policies list)")
    wanted = runs.parse_policies(asked, plugin_timeout)
    rules = _answers.rules_of(hints)
    opened = open_recording(recording, topology)
    card = assess(opened)
    card.enforce(force)
    auto, specs = runs.simulated_specs(opened, wanted)
    name = runs.display_name(recording)
    run = runs.make_simulation(
        opened,
        specs,
        settings,
        name=name,
        out=output,
        auto=auto,
        threads=threads,
        hints=rules,
        plugin_timeout=plugin_timeout,
        progress=_answers.progress("simulate"),
    )
    found = runs.simulation_of(run, name)
    shown, me, past = _answers.path_shown(run.path), _answers.program(), "" if card.ok else " --force"
    same = _answers.options(*(("--policy", p) for p in asked), ("--hints", hints), *(("--assume", a) for a in assume))
    steps = [
        f"{me} report {shown} --html report.html{past}",
        f"{me} query {shown} simulate/latency",
        f"{me} replay {_answers.again(recording, topology, not card.ok)}{same}",
    ]
    _answers.print_simulation(found, opened, format_, steps)
    _answers.complain_of_plugins(run)
    simulated.enforce(found, force)
