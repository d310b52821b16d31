# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake fleet`: thousands of recordings, here or on a cluster."""

from __future__ import annotations

import re
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rewake import __version__, quantity, runs
from rewake.cli import _answers, _runs
from rewake.cli._shared import AnyNumber, force_option, format_option, only_form, topology_option, typed
from rewake.errors import EXIT_ERROR, RewakeError, UsageError

if TYPE_CHECKING:
    from rewake.fleet.drive import Summary
    from rewake.fleet.engines import Engine
    from rewake.fleet.tasks import Study


@click.group(short_help="Replay thousands of recordings, here or on a cluster.")
def command() -> None:
    """Replay or simulate thousands of recordings into one store, and report where which policy wins.

    A task is one trace, or a window of it. What a task found is one file in the store, named by all that the task is
    made from: a run that was stopped anywhere goes on where it was.
    """


@command.command(short_help="Do what the store does not hold yet.")
@click.argument("sources", metavar="PATTERN|DIR|LIST...", nargs=-1, required=True)
@click.option("-o", "--output", "store", required=True, metavar="STORE", help="A directory, or s3://bucket/prefix.")
@click.option(
    "--policy", "asked", multiple=True, metavar="NAME[@COLUMN][:key=value,...]",
    help="As rewake replay has it; repeat it. Default: oracle-idle and every seed.",
)  # fmt: skip
@_answers.assume_option
@_answers.ignore_probes_option
@_answers.hints_option
@click.option("--cut", metavar="DURATION", help="Cut every trace into windows of this length, one task each.")
@click.option("--seed", "seeds", default="0", show_default=True, metavar="N|A..B", help="One task per seed.")
@topology_option
@click.option("--closed", is_flag=True, help="Simulate (rewake simulate) instead of replaying.")
@click.option("--windows", default="1s", show_default=True, metavar="DURATION", help="With --closed: its windows.")
@click.option(
    "--engine", "engine_name", type=click.Choice(("local", "inline", "dask", "ray")), default="local",
    show_default=True, help="local: processes of this machine; inline: this very process, without limits.",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 100_000), help="Of an engine of this machine. Default: one per CPU.")
@click.option("--address", metavar="ADDRESS", help="Of a running Dask scheduler (or its file) or Ray cluster.")
@click.option("--memory", default="2GB", show_default=True, metavar="SIZE", help="Most that a worker's task may take.")
@click.option("--timeout", default="1800s", show_default=True, metavar="DURATION", help="Longest that a task may take.")
@click.option("--max-failed", metavar="N|N%", help="More failed traces than that end the run, exit 1. Default: any.")
@click.option("--retry-failed", is_flag=True, help="Also do what is known to have failed.")
@format_option("table", "json")
def run(
    sources: tuple[str, ...], store: str, asked: tuple[str, ...], assume: tuple[str, ...], ignore_probes: bool,
    hints: Path | None, cut: str | None, seeds: str, topology: str | None, closed: bool, windows: str,
    engine_name: str, workers: int | None, address: str | None, memory: str, timeout: str, max_failed: str | None,
    retry_failed: bool, format_: str,
) -> int | None:  # fmt: skip
    """Replay every trace that PATTERN, DIR or LIST names, of any format, and keep in STORE what adds up.

    A LIST (*.txt, *.list) has a line per trace: its name, which may end in a window (mine.rewake@2s..5s), then labels
    if there are any: workload=web machine=prod-3 time=2026-11-20. A trace that cannot be replayed is kept as a failure
    with its reason and stops nothing.
    """
    from rewake.fleet import cell, drive, plan
    from rewake.forms import FleetStore

    if typed("windows") and not closed:
        raise UsageError("--windows is for --closed: --cut makes windows of a replay")
    cut_ns = None if cut is None else quantity.duration(cut)
    study = _study(asked, assume, ignore_probes, hints, closed, windows, cut)
    limits = cell.Limits(quantity.size(memory), quantity.duration(timeout) / 1e9)
    engine = _engine(engine_name, store, limits, workers, address)
    most = None if max_failed is None else drive.max_failed(max_failed)
    found = plan.find(sources)
    tasks = plan.tasks(
        found.sources, study, topology=topology, cut_ns=cut_ns,
        seeds=_seeds(seeds), progress=_answers.progress("hashing"),
    )  # fmt: skip
    show = _Progress()
    try:
        done = drive.run(
            tasks, FleetStore(store), engine, retry_failed=retry_failed, limit=most, show=show if show.on else None
        )
    finally:
        show.clear()
    _tell(done, store, study, len(found.sources), found.passed_over, format_)
    failed_all = done.tasks > 0 and done.tasks == done.failed + done.known_failures
    over = most is not None and done.failed + done.known_failures > most.limit(done.tasks)
    if done.left and done.why:
        are = "task is" if done.tasks == 1 else "tasks are"
        raise RewakeError(f"{done.left} of {done.tasks} {are} not done: {done.why}; run it again to go on")
    return EXIT_ERROR if over or failed_all or done.left else None


def _study(
    asked: tuple[str, ...], assume: tuple[str, ...], ignore_probes: bool, hints: Path | None, closed: bool,
    windows: str, cut: str | None,
) -> Study:  # fmt: skip
    """What all tasks share; a wrong policy or hint is told before anything runs."""
    from rewake.fleet.tasks import CLOSED, OPEN, Study, tool
    from rewake.replay import plugins

    specs = runs.parse_policies(asked)
    settings: dict[str, Any]
    if closed:
        if not [s for s in specs if s.name != "auto"]:
            raise UsageError("--closed needs --policy: what shall be in charge? (rewake policies list)")
        if assume or ignore_probes or hints:
            raise UsageError("--assume, --ignore-probes and --hints are for replays, not for --closed")
        settings = {"windows": windows}
        quantity.duration(windows)
    else:
        _answers.rules_of(hints)
        settings = {
            "sync": _answers.sync_of(assume), "probes": not ignore_probes,
            "hints": None if hints is None else hints.name,
            "hints_text": None if hints is None else hints.read_text(encoding="utf-8"),
        }  # fmt: skip
    objects = tuple(plugins.describe(s.name, plugins.DEFAULT_TIMEOUT).sha256 for s in specs if s.is_plugin)
    given = {k: v for k, v in settings.items() if v is not None}
    return Study(CLOSED if closed else OPEN, tuple(map(str, specs)), given, cut or "", objects, tool())


def _engine(name: str, store: str, limits: Any, workers: int | None, address: str | None) -> Engine:
    from rewake.fleet import engines

    if address is not None and name not in ("dask", "ray"):
        raise UsageError("--address is for --engine dask and ray")
    if address is not None and workers is not None:
        raise UsageError("--workers is for a cluster that this command starts; the one at --address has its own")
    match name:
        case "inline":
            return engines.inline(store)
        case "local":
            return engines.local(store, limits, workers)
        case "dask":
            return engines.dask(store, limits, workers, address)
        case _:
            return engines.ray(store, limits, workers, address)


def _seeds(text: str) -> range:
    from rewake.fleet.plan import require_few
    from rewake.replay.settings import WHOLE

    match = re.fullmatch(r"([0-9]{1,19})(?:\.\.([0-9]{1,19}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if last < first:
        raise UsageError(f"--seed {text}: a number or a range such as 0..9 expected")
    if last > WHOLE["seed"][1]:
        raise UsageError(f"--seed {text}: no seed is above {WHOLE['seed'][1]}")
    require_few(last + 1 - first)
    return range(first, last + 1)


class _Progress:
    """One line on a terminal: tasks, failures, rate, what is left."""

    def __init__(self) -> None:
        self.on = sys.stderr.isatty()
        self._last = 0.0

    def __call__(self, s: Summary, rate: float | None, left_s: float | None) -> None:
        if (now := time.monotonic()) - self._last < 0.2:
            return
        self._last = now
        told = f"{s.skipped + s.done + s.failed:,}/{s.tasks:,} tasks"
        told += f", {s.failed + s.known_failures:,} failed" if s.failed + s.known_failures else ""
        told += f", {rate:.1f}/s" if rate else ""
        told += f", about {_span(left_s)} left" if left_s is not None else ""
        print(f"\r\x1b[K{told}", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.on:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _tell(s: Summary, store: str, study: Study, traces: int, passed_over: int, format_: str) -> None:
    from rewake.analysis import grid, jsonout, text

    if format_ == "json":
        body = {"store": store, "sources": traces, "files_passed_over": passed_over, **s.plain()}
        _answers.emit(jsonout.dumps(_runs.document("fleet", body)))
        return
    files, are = grid.counted(passed_over, "file"), "is no trace" if passed_over == 1 else "are no traces"
    passed = f"; {files} of directories {are}" if passed_over else ""
    click.echo(f"{grid.counted(traces, 'trace')}, {grid.counted(s.tasks, 'task')}{passed}")
    click.echo(f"  {s.skipped:,} were in the store, {s.done:,} done now, {s.failed:,} failed now, {s.left:,} left")
    if s.kinds:
        click.echo("  failed: " + ", ".join(f"{n:,} {kind}" for kind, n in sorted(s.kinds.items())))
    if s.done:
        click.echo(
            f"  {_span(s.seconds)}, {s.done / s.seconds:.1f} tasks/s, {s.cpu_s / s.done:.2f} s cpu and "
            f"{s.written / s.done / 1000:.1f} kB a task"
        )
    shown = shlex.quote(store) if "://" in store else _answers.path_shown(Path(store))
    step = f"{_answers.program()} fleet report {shown} --study {study.key[:8]}"  # there may be others in the store
    click.echo(text.terminal(f"next: {step}", None))
    if s.failed + s.known_failures:
        click.echo("      --retry-failed does the failed ones again")


@command.command(short_help="Which policy wins where, and where it loses.")
@click.argument("store", metavar="STORE")
@click.option(
    "--versus",
    default="auto",
    show_default=True,
    metavar="POLICY",
    help="What policies are compared with; auto: each recording's own kernel.",
)
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="This policy only; repeat it.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Metric to compare; repeat it. Default: would_move, cross_llc_prev, idle_missed_llc, stacked, p99.",
)
@click.option(
    "--min-skill",
    type=AnyNumber(),
    default=0.5,
    show_default=True,
    help="Recordings that their own kernel's column reproduces with less skill do not count.",
)
@click.option("--any-skill", is_flag=True, help="No fidelity gate: also those without a column count.")
@_runs.floor_option
@click.option(
    "--html", "page", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report with charts as one HTML file that needs no network, and print its name.",
)  # fmt: skip
@click.option("--study", metavar="HASH", help="Which one, where a store has several.")
@force_option
@format_option("table", "markdown", "json", "csv", "parquet")
def report(
    store: str, versus: str, policies: tuple[str, ...], metrics: tuple[str, ...], min_skill: float, any_skill: bool,
    floor: float, page: Path | None, study: str | None, force: bool, format_: str,
) -> None:  # fmt: skip
    """Report what STORE holds: every policy against each recording's own kernel, over recordings, with intervals;
    machine classes, kernels and workloads where it loses, worst first; what was not counted, and why.
    """
    from rewake.analysis import fleet, fleetout, html, jsonout
    from rewake.forms import FleetStore
    from rewake.whole import put

    if page is not None:
        only_form("--html")
    con = FleetStore(store).connect()
    try:
        found = fleet.build(
            con, store, study=study, versus=versus, min_skill=None if any_skill else min_skill, force=force,
            metrics=metrics, policies=policies, floor_pct=floor,
        )  # fmt: skip
    finally:
        con.close()
    if page is not None:
        put(page, html.fleet_page(found, runs.vega(), tool=__version__))
        click.echo(page)
        return
    match format_:
        case "table":
            _answers.emit(fleetout.table(found))
        case "markdown":
            _answers.emit(fleetout.markdown(found))
        case "json":
            _answers.emit(jsonout.dumps(_runs.document("fleet-report", found.plain())))
        case _:
            rows = fleetout.rows(found)
            _answers.show(format_, str, dict, rows)
