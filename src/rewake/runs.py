# SPDX-License-Identifier: GPL-2.0-or-later
"""From a recording and the names of policies to a run, and from a run to its report: what the commands and the Python
interface share."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rewake import __version__
from rewake.errors import FidelityError, RewakeError, UsageError

if TYPE_CHECKING:
    import duckdb

    from rewake.analysis.columns import Column
    from rewake.analysis.report import Report
    from rewake.analysis.simulated import Simulated
    from rewake.forms import Columns, Recording, Run
    from rewake.replay.hints import Rules
    from rewake.replay.settings import Settings
    from rewake.replay.spec import PolicySpec

Progress = Callable[[int, int], None]
"""Called with the parts done and all parts."""

GENERIC_NAMES = ("trace", "recording")
"""File names that say nothing; the directory's name stands for them."""


def display_name(given: Path) -> str:
    """What a recording is called in a table: the file's name, or its directory's where that says more."""
    path = given.resolve()
    return legible(path.parent.name if path.stem in GENERIC_NAMES and path.parent.name else path.stem)


def legible(name: str) -> str:
    r"""The name of a file with the bytes in it that are no UTF-8 as `\xNN`: no table, column or stream takes them."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def policies() -> dict[str, dict[str, Any]]:
    """The policies that exist, by name, in the engine's order."""
    from rewake.replay import _engine

    return {p["name"]: p for p in _engine.policies()}


def policy(name: str) -> dict[str, Any]:
    """One of them, or SEED@COLUMN. UsageError when there is none, or the seed has no meaning on that column."""
    from rewake.replay import _engine

    try:
        found: dict[str, Any] = _engine.policy(name)
    except ValueError as error:
        raise UsageError(f"{error} (rewake policies list)") from error
    return found


def parse_policies(given: Sequence[str], plugin_timeout: float = 10.0) -> list[PolicySpec]:
    """The instances that policy grammar names, `auto` left as it is. Loads plugins, to see whether they are any."""
    from rewake.replay import plugins
    from rewake.replay.spec import parse

    out = []
    for text in given:
        for spec in parse(text):
            if spec.is_plugin:
                plugins.describe(spec.name, plugin_timeout).values(spec)
            elif spec.name != "auto":
                policy(spec.policy)
            if spec.name == "auto" and (spec.params or spec.column):
                raise UsageError(f"policy {text}: auto takes no column and no parameters")
            out.append(spec)
    return out


def recorded_column(recording: Recording, known: Mapping[str, Mapping[str, Any]]) -> Column:
    """The column that stands for the recorded kernel; FidelityError when there is none."""
    from rewake.analysis.columns import column_of

    manifest = recording.manifest
    parameters = parameters_of(known)
    return column_of(
        manifest.get("kernel"), manifest.get("features") or {}, parameters, sched_ext=placed_by_ext(recording)
    )


class Own(NamedTuple):
    """The column of the recorded kernel as a policy instance, or why there is none."""

    instance: str | None
    notes: tuple[str, ...] = ()
    refusal: str | None = None


def own_column(recording: Recording) -> Own:
    """The same, for who goes on without."""
    try:
        column = recorded_column(recording, policies())
    except FidelityError as error:
        return Own(None, refusal=str(error))
    return Own(column.instance, column.notes)


def shared_column(recordings: Iterable[Recording]) -> str:
    """The column of all of them; UsageError where they differ."""
    known = policies()
    columns = {recorded_column(r, known).instance for r in recordings}
    if len(columns) != 1:
        raise UsageError(f"not repeats of one arm: their kernels or features differ ({', '.join(sorted(columns))})")
    return columns.pop()


def part_of(recording: Recording, from_ns: int, until_ns: int) -> Recording:
    """A window of a recording, as a recording in the cache; ns after its start."""
    from rewake import cache
    from rewake.forms import Recording
    from rewake.slicing import slice_recording

    parts = ["slice", str(recording.path.resolve()), str(recording.manifest.get("id")), str(from_ns), str(until_ns)]
    key = hashlib.sha256("\0".join([*parts, __version__]).encode()).hexdigest()[:32]
    build = lambda out: slice_recording(recording, out, (from_ns, until_ns))  # noqa: E731
    return Recording(cache.fetch(f"{key}.rewake", build, lambda found: Recording(found).check())[0])


def parameters_of(known: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Policy -> {parameter: default}."""
    return {name: {q["name"]: q["value"] for q in p["params"]} for name, p in known.items()}


def placed_by_ext(recording: Recording) -> bool:
    """Whether a sched_ext scheduler was placing tasks."""
    from rewake.forms import ENUMS

    if recording.manifest.get("sched_ext"):
        return True
    con = recording.connect(("decision",))
    try:
        code = ENUMS["decision_class"].index("ext")
        return bool(con.execute("SELECT count(*) FROM decision WHERE class = ?", [code]).fetchall()[0][0])
    finally:
        con.close()


def replayed(wanted: Sequence[PolicySpec], auto: str | None) -> list[PolicySpec]:
    """What to replay: the record, the null, the recorded kernel's column, then what was asked for, each once."""
    from rewake.analysis.columns import COLUMNS
    from rewake.replay.spec import PolicySpec, parse

    specs = [PolicySpec("recorded"), PolicySpec("prev"), *(parse(auto) if auto else [])]
    if wanted:
        specs += [s for s in wanted if s.name != "auto"]
    else:
        seeds = [n for n, p in policies().items() if not p["reference"] and n not in COLUMNS]
        specs += [PolicySpec("oracle-idle"), *map(PolicySpec, seeds)]
    return list({str(s): s for s in specs}.values())


def make_run(
    recording: Recording,
    specs: Sequence[PolicySpec],
    *,
    name: str,
    out: Path | None,
    seed: int,
    sync: str,
    auto: str | None,
    use_probes: bool = True,
    hints: Rules | None = None,
    refusal: str | None = None,
    notes: Sequence[str] = (),
    plugin_timeout: float = 10.0,
    progress: Progress | None = None,
) -> Run:
    """Replays into `out`, or into the cache, where an earlier run of the same is found again."""
    from rewake.forms import Run, RunWriter
    from rewake.replay import driver
    from rewake.replay.spec import parse

    recent: dict[str, Columns] = {}

    def build(target: Path) -> None:
        with RunWriter(target, recording) as writer:
            writer.manifest |= {
                "tool": {"name": "rewake", "version": __version__},
                "name": name,
                "assume": {"sync": sync, "probes": use_probes},
                "refusals": {"auto": refusal} if refusal else {},
                "auto_notes": list(notes),
            }
            column = None if auto is None else parse(auto)[0]
            driver.replay(
                recording,
                specs,
                writer,
                seed=seed,
                sync=sync,
                auto=column,
                use_probes=use_probes,
                hints=hints,
                plugin_timeout=plugin_timeout,
                progress=progress,
            )
            writer.commit()
            recent.update(writer.recent)

    if out is not None:
        build(out)
        return Run(out, recent=recent)
    made_from = [
        str(seed), sync, str(use_probes), _hints_key(hints), str(auto), *map(str, specs),
        *_objects(specs, plugin_timeout),
    ]  # fmt: skip
    return _cached(recording, made_from, build, recent)


def _objects(specs: Sequence[PolicySpec], plugin_timeout: float) -> list[str]:
    """Which code the plugins among them are."""
    from rewake.replay import plugins

    return [plugins.describe(s.name, plugin_timeout).sha256 for s in specs if s.is_plugin]


def plugin_problems(run: Run) -> list[str]:
    """What went wrong with the plugins of a run."""
    entries = [*run.manifest["policies"], *run.manifest.get("plugins", ())]
    return [f"{p['name']}: {text}" for p in entries for text in p.get("problems", ())]


def simulated_specs(recording: Recording, wanted: Sequence[PolicySpec]) -> tuple[PolicySpec | None, list[PolicySpec]]:
    """The recorded kernel's column, None where it has none, and what to put in charge. FidelityError where `auto` was
    asked for and there is none."""
    from rewake.replay.spec import parse

    own = own_column(recording)
    if own.refusal is not None and any(s.name == "auto" for s in wanted):
        raise FidelityError(own.refusal)
    auto = None if own.instance is None else parse(own.instance)[0]
    return auto, [s for s in wanted if s.name != "auto"]


def make_simulation(
    recording: Recording,
    specs: Sequence[PolicySpec],
    settings: Settings,
    *,
    name: str,
    out: Path | None,
    auto: PolicySpec | None,
    threads: int = 1,
    queues_wakeups: bool | None = None,
    hints: Rules | None = None,
    plugin_timeout: float = 10.0,
    progress: Progress | None = None,
) -> Run:
    """Simulates into `out`, or into the cache, where an earlier run of the same is found again."""
    from rewake.forms import Run, RunWriter
    from rewake.replay import _engine
    from rewake.replay.simulate import simulate

    def build(target: Path) -> None:
        with RunWriter(target, recording) as writer:
            writer.manifest |= {"tool": {"name": "rewake", "version": __version__}, "name": name}
            simulate(
                recording, specs, writer, settings,
                auto=auto, threads=threads, queues_wakeups=queues_wakeups, hints=hints, progress=progress,
                plugin_timeout=plugin_timeout,
            )  # fmt: skip
            writer.commit()
        _engine.give_back()

    if out is not None:
        build(out)
        return Run(out)
    made_from = [
        "simulate", repr(settings), str(auto), str(queues_wakeups), _hints_key(hints), *map(str, specs),
        *_objects(specs, plugin_timeout),
    ]  # fmt: skip
    return _cached(recording, made_from, build)


def simulation_of(run: Run, name: str | None = None) -> Simulated:
    """The figures of a closed-loop run and of the recording that it was made from."""
    from rewake.forms import sparingly

    def figures() -> Simulated:
        with _simulating(run, name) as (found, _):
            return found

    return sparingly(figures)


def page_of_simulation(run: Run) -> str:
    """A closed-loop run as one HTML file."""
    from rewake.analysis import html

    script = vega()
    manifest = run.recording.manifest
    with _simulating(run) as (found, con):
        figures = html.gather_simulated(con, manifest.get("span_ns"))
    return html.simulated_page(found, figures, script, tool=__version__, recording=manifest.get("id"))


@contextmanager
def _simulating(run: Run, name: str | None = None) -> Iterator[tuple[Simulated, duckdb.DuckDBPyConnection]]:
    """The figures, and the connection that they were made on."""
    from rewake.analysis import quality, simulated

    recording = run.recording
    con = run.connect()
    try:
        found = simulated.build(
            con,
            run.manifest,
            name=name or str(run.manifest.get("name") or display_name(recording.path)),
            kernel=recording.manifest.get("kernel"),
            quality=quality.assess(recording),
        )
        yield found, con
    finally:
        con.close()


def make_trial(recording: Recording, specs: Sequence[PolicySpec], name: str, progress: Progress | None = None) -> Run:
    """Counts how often each of many candidates agrees with the record (replay/trial.py), through the cache."""
    from rewake.forms import RunWriter
    from rewake.replay import trial

    def build(target: Path) -> None:
        with RunWriter(target, recording) as writer:
            writer.manifest |= {"tool": {"name": "rewake", "version": __version__}, "name": name}
            trial.run(recording, specs, writer, progress)
            writer.commit()

    return _cached(recording, ["trial", *map(str, specs)], build)


def _cached(
    recording: Recording, made_from: Sequence[str], build: Callable[[Path], None],
    recent: Mapping[str, Columns] | None = None,
) -> Run:  # fmt: skip
    """A run kept in the cache under the recording, the code that decides and what else it is made from. `recent`: of
    `build`, for Run."""
    from rewake import cache
    from rewake.forms import Run

    def check(path: Path) -> None:
        found = Run(path)
        found.check()
        if problems := plugin_problems(found):  # may have been the machine's fault: not taken for granted
            raise RewakeError(problems[0])
        found.recording  # noqa: B018

    parts = [str(recording.path.resolve()), str(recording.manifest.get("id")), engine_digest(), *made_from]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return Run(cache.fetch(f"{key}.run", build, check)[0], recent=recent)


def _hints_key(hints: Rules | None) -> str:
    return "" if hints is None else f"{hints.name} {hints.digest}"


def engine_digest() -> str:
    """Changes with the code that decides."""
    import rewake.replay
    from rewake.replay import _engine

    digest = hashlib.sha256(Path(str(_engine.__file__)).read_bytes())
    for file in sorted(Path(rewake.replay.__path__[0]).glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def report_of(run: Run, max_exposure: float, name: str | None = None) -> Report:
    """The report of a run and of the recording that it was made from, called `name` or as the run says."""
    with _reporting(run, max_exposure, name) as (found, _):
        return found


def page_of(run: Run, max_exposure: float) -> tuple[str, Report]:
    """The report as one HTML file, and as figures."""
    from rewake.analysis import html

    script = vega()
    manifest = run.recording.manifest
    with _reporting(run, max_exposure) as (found, con):
        figures = html.gather(con, run.manifest, manifest.get("span_ns"))
    return html.page(found, figures, script, tool=__version__, recording=manifest.get("id")), found


def vega() -> str:
    """The script of the pages, through the cache."""
    from rewake import cache
    from rewake.analysis import html

    return cache.text(f"vega-{html.bundle_version()}.js", html.bundle)


@contextmanager
def _reporting(
    run: Run, max_exposure: float, name: str | None = None
) -> Iterator[tuple[Report, duckdb.DuckDBPyConnection]]:
    """The report, and the connection that it was made on."""
    from rewake.analysis import quality, report

    recording = run.recording
    con = run.connect()
    try:
        found = report.build(
            con,
            run.manifest,
            name=name or str(run.manifest.get("name") or display_name(recording.path)),
            kernel=recording.manifest.get("kernel"),
            quality=quality.assess(recording),
            max_exposure=max_exposure,
        )
        yield found, con
    finally:
        con.close()
