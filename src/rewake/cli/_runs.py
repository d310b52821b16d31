# SPDX-License-Identifier: GPL-2.0-or-later
"""What the commands that look at many runs share: finding them, their figures, whole files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rewake import __version__, runs
from rewake.cli._shared import Number, open_recording
from rewake.errors import UsageError

if TYPE_CHECKING:
    from rewake.analysis.subjects import Subject, Unit
    from rewake.analysis.trend import Trend
    from rewake.forms import Recording, Run

_F = TypeVar("_F", bound=Callable[..., Any])


def runs_in(path: Path) -> list[Run]:
    """The run at `path`, or all runs right below it, by name."""
    from rewake.forms import Run
    from rewake.forms.directory import damaged, kind_of

    if kind_of(path) == "run":
        return [Run(path)]
    # To pass over one that was a run would change an answer, and nobody would know.
    found = sorted(p for p in path.iterdir() if kind_of(p) == "run" or damaged(p, ".run")) if path.is_dir() else []
    if not found:
        raise UsageError(f"{path}: neither a run nor a directory of runs (rewake replay -o makes one)")
    return [Run(p) for p in found]


def recordings_in(paths: Sequence[Path]) -> dict[str, Recording]:
    """Recordings by name; a directory that is none stands for those in it."""
    found: dict[str, Recording] = {}
    for path in paths:
        inside = [path]
        if path.is_dir() and not (path / "manifest.json").is_file():
            inside = sorted(p for p in path.iterdir() if (p / "manifest.json").is_file())
            if not inside:
                raise UsageError(f"{path}: a directory without recordings")
        for each in inside:
            name = runs.display_name(each)
            while name in found:
                name += "'"
            found[name] = open_recording(each)
    return found


def require_distinct(sides: Mapping[str, Mapping[str, Recording]]) -> None:
    """UsageError where a recording comes twice, on one side or on both: a repeat without any spread, a judge that was
    asked before. Slices of one recording may, where they do not overlap."""
    seen: list[tuple[object, int, float, str]] = []
    for side, recordings in sides.items():
        for name, recording in recordings.items():
            manifest = recording.manifest
            trace = (manifest.get("source") or {}).get("sha256") or manifest.get("id")
            first, last = (manifest.get("slice") or {}).get("events") or (0, math.inf)
            for other, other_first, other_last, told in seen:
                if other == trace and first <= other_last and other_first <= last:
                    raise UsageError(f"{name} of {side} is {told} again, or a part of it: give different recordings")
            seen.append((trace, first, last, f"{name} of {side}"))


def name_of(run: Run) -> str:
    return str(run.manifest.get("name") or runs.display_name(run.path))


def subject_of(run: Run, force: bool) -> Subject:
    """The figures of a run; QualityVeto where its recording cannot carry them."""
    from rewake.analysis import quality, subjects

    if run.manifest.get("mode") == "closed":
        raise UsageError(
            f"{run.path}: a simulation, and only replays have figures that can be compared or kept (rewake replay -o);"
            " rewake validate compares simulations"
        )
    recording = run.recording
    card = quality.assess(recording)
    card.enforce(force)
    con = run.connect()
    try:
        return subjects.subject(con, run.manifest, recording.manifest, name_of(run), card)
    finally:
        con.close()


def partners(sides: Sequence[Sequence[Run]]) -> tuple[Run, Run] | None:
    """The only two runs of one recording; None where there are more pairs, or none."""
    ids: list[dict[Any, Run]] = [{r.recording.manifest.get("id"): r for r in side} for side in sides]
    shared = [key for key in ids[0] if key in ids[1]]
    return (ids[0][shared[0]], ids[1][shared[0]]) if len(shared) == 1 else None


def blocks_of(pair: tuple[Run, Run]) -> Callable[[int], list[Unit]]:
    """Cuts a pair of runs of one recording into blocks of so many milliseconds."""
    from rewake.analysis import subjects

    def cut(ms: int) -> list[Unit]:
        found = []
        for run in pair:
            con = run.connect()
            try:
                found.append(subjects.blocks(con, run.manifest, ms))
            finally:
                con.close()
        return subjects.paired_blocks(*found)

    return cut


def document(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON envelope of what is about many recordings."""
    from rewake.analysis import jsonout

    return jsonout.document(kind, body, version=__version__, recording=None, quality=None)


def store_option(function: _F) -> _F:
    """--store, for commands that read or write one."""
    return click.option(
        "--store", required=True, envvar="REWAKE_STORE", metavar="DIR|URL",
        help="The store: a directory, or a URL such as s3://bucket/prefix; default: $REWAKE_STORE.",
    )(function)  # fmt: skip


floor_option = click.option(
    "--floor",
    type=Number(0),
    default=2.0,
    show_default=True,
    metavar="PERCENT",
    help="Smaller changes are no changes.",
)


def watch_options(function: _F) -> _F:
    """Which histories, and what is a change."""
    for option in reversed(
        (
            click.option("--suite", "suites", multiple=True, metavar="NAME", help="This suite only; repeat it."),
            click.option("--policy", "policies", multiple=True, metavar="NAME", help="This policy only; repeat it."),
            click.option("--metric", "metrics", multiple=True, metavar="NAME", help="This metric only; repeat it."),
            floor_option,
        )
    ):  # fmt: skip
        function = option(function)
    return function


def watched(store: str, suites: Sequence[str], policies: Sequence[str], metrics: Sequence[str], floor: float) -> Trend:
    """The histories of a store with their changes."""
    from rewake.analysis import measures, trend
    from rewake.forms import Store

    measures.named(metrics)
    con = Store(store).connect()
    try:
        series = trend.read(con, suites=suites, policies=policies, metrics=metrics)
    finally:
        con.close()
    if not series:
        raise UsageError(f"{store}: no history of that suite, policy and metric")
    return trend.watch(series, floor)
