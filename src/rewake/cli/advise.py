# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake advise`: which hints, or which setting, would the machine be better off with?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rewake import quantity, runs
from rewake.cli import _answers, _runs
from rewake.cli._shared import force_option, format_option
from rewake.cli._window import Window, window_option
from rewake.errors import EXIT_INCONCLUSIVE, EXIT_OK, UsageError
from rewake.replay.settings import MOST_THREADS, Settings

if TYPE_CHECKING:
    from rewake.forms import Recording
    from rewake.replay.spec import PolicySpec

FEATURES = "features"
"""What --sweep takes for the small grid."""


@click.command(short_help="Search hints and settings in the closed loop; say what is worth it (modelled).")
@click.argument("recordings", metavar="REC...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--judge",
    "judges",
    multiple=True,
    metavar="REC",
    type=click.Path(path_type=Path),
    help="A recording to judge the best setting on; repeat it. Without: the later half of REC..., or of the only one.",
)
@click.option(
    "--objective",
    default="p99",
    show_default=True,
    metavar="METRIC",
    help="What to improve: p50, p90, p99, queue-wait, migrations, cross-llc, cross-node or throughput.",
)
@click.option(
    "--guard",
    "guards",
    multiple=True,
    metavar="METRIC+N%",
    help="What must not get worse by more; repeat it. Without: p99+10%, migrations+10%, throughput-5%.",
)
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME:key=a,b|features",
    help="Also put these policies in charge; features: each scheduler feature the other way. Repeat it.",
)
@click.option(
    "--trials",
    type=click.IntRange(0, 10_000),
    default=60,
    show_default=True,
    help="Assignments of hints to task names that are tried, at most; 0: none.",
)
@window_option
@click.option("--windows", default="50ms", show_default=True, metavar="DURATION", help="As of simulate.")
@click.option("--replicas", type=click.IntRange(1, 100), default=3, show_default=True, help="As of simulate.")
@_answers.balance_option()
@_answers.move_cost_option()
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="For the order of the search and for what is drawn.",
)
@click.option("--threads", type=click.IntRange(1, MOST_THREADS), default=1, show_default=True, help="As of simulate.")
@click.option("--strict", is_flag=True, help="Exit 6 where nothing is recommended.")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(path_type=Path), help="Rules file to write, for --hints."
)
@force_option
@format_option("table", "markdown", "json")
@click.pass_context
def command(
    ctx: click.Context,
    recordings: tuple[Path, ...],
    judges: tuple[Path, ...],
    objective: str,
    guards: tuple[str, ...],
    sweep: tuple[str, ...],
    trials: int,
    window: Window | None,
    windows: str,
    replicas: int,
    balance: str,
    move_cost: float,
    seed: int,
    threads: int,
    strict: bool,
    output: Path | None,
    force: bool,
    format_: str,
) -> None:  # fmt: skip
    """Search the hints of userspace-hints, task name by task name, and settings of policies, for one that improves the
    objective without breaking a guard, and judge the best on recordings that the search did not see.

    REC are recordings or raw traces of one load on one machine, or directories of recordings. Modelled throughout, and
    compared with the simulated run of the recorded kernel. Where no setting can be told from no hint, nothing is
    recommended and no file is written.
    """
    from rewake import advising
    from rewake.analysis import advice, advice_table, jsonout, markdownout
    from rewake.analysis.quality import assess
    from rewake.whole import put

    about = advice.objective(objective)
    kept = advice.guards(guards, about)
    settings = Settings(
        windows_ns=quantity.duration(windows), replicas=replicas, balance=balance, move_factor=move_cost
    )
    asked = [spec for text in sweep if text != FEATURES for spec in _instances(text)]
    if not trials and not sweep:
        raise UsageError("nothing to try: --trials 0 and no --sweep")
    if output is not None and not trials:
        raise UsageError("-o takes the rules of hints, and --trials 0 looks for none")
    if output is not None and not output.parent.is_dir():
        raise UsageError(f"{output.parent}: no such directory")
    search, judged, halves, last = _sides(recordings, judges, window)
    for recording in (*search.values(), *judged.values()):
        assess(recording).enforce(force)
    if FEATURES in sweep:
        asked += advising.feature_flips([*search.values(), *judged.values()])
    candidates = tuple(map(advising.Candidate, asked))
    options = advising.Options(about, kept, candidates, trials, seed, threads, force)
    found, best = advising.advise(
        search, judged, settings, options, halves=halves, progress=_answers.progress("advise")
    )
    if found.rules is not None and output is not None:
        put(output, advice_table.preface(found) + found.rules)
    steps = []
    if best is not None and found.rules is not None and output is None:
        steps.append("the same with -o rules.toml, for the rules file")
    elif best is not None:
        shown = _answers.again(last.given, None, force)
        rules = output if found.rules is not None else None
        given = _answers.options(("--policy", best.spec), ("--hints", rules))
        steps.append(f"{_answers.program()} simulate {shown}{given}")
    match format_:
        case "table":
            _answers.emit(advice_table.table(found, steps))
        case "markdown":
            _answers.emit(markdownout.advice(found))
        case _:
            _answers.emit(jsonout.dumps(_runs.document("advice", found.plain())))
    ctx.exit(EXIT_INCONCLUSIVE if strict and best is None else EXIT_OK)


def _instances(text: str) -> list[PolicySpec]:
    from rewake.replay.spec import parse_sweep

    found = parse_sweep(text)
    runs.parse_policies(list(map(str, found)))  # they exist
    return found


def _sides(
    recordings: tuple[Path, ...], judges: tuple[Path, ...], window: Window | None
) -> tuple[dict[str, Recording], dict[str, Recording], bool, Recording]:
    """Recordings to search on, those to judge on, whether the latter are halves of the former, and one that was judged
    on, whole."""
    found = _runs.recordings_in([*recordings, *judges])
    _runs.require_distinct({"REC": found})
    n = len(_runs.recordings_in(recordings)) if judges else len(found) - len(found) // 2
    halves = len(found) == 1
    sides: list[dict[str, Recording]] = [{}, {}]
    for i, (name, recording) in enumerate(found.items()):
        first, last = (0, int(recording.manifest.get("span_ns") or 0) + 1)
        if window is not None:
            start, end = window.within(recording.manifest)
            first, last = (x - int(recording.manifest.get("first_ns") or 0) for x in (start, end))
        if halves:
            middle = (first + last) // 2
            for side, (what, a, b) in enumerate((("first", first, middle), ("second", middle, last))):
                sides[side][f"{name} ({what} half)"] = runs.part_of(recording, a, b)
        else:
            sides[i >= n][name] = recording if window is None else runs.part_of(recording, first, last)
    return sides[0], sides[1], halves, list(found.values())[n if judges else -1]
