# SPDX-License-Identifier: GPL-2.0-or-later
"""What the commands that answer questions share: resolving policies, making a run, printing."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rewake import __version__
from rewake.errors import PluginError, RewakeError, UsageError

if TYPE_CHECKING:
    from rewake.analysis.columns import Column
    from rewake.analysis.report import Report
    from rewake.analysis.simulated import Simulated
    from rewake.analysis.sql import Rows
    from rewake.forms import Recording, Run
    from rewake.replay.hints import Rules
    from rewake.replay.simulate import Settings
    from rewake.replay.spec import PolicySpec

_F = TypeVar("_F", bound=Callable[..., Any])

GENERIC_NAMES = ("trace", "recording")
"""File names that say nothing; the directory's name stands for them."""


def exposure_option(function: _F) -> _F:
    """--max-exposure, for commands that print the report."""
    return click.option(
        "--max-exposure",
        type=click.FloatRange(0, 100),
        default=20.0,
        show_default=True,
        help="Per cent of decisions above which the table says: use simulate.",
    )(function)


min_skill_option = click.option(
    "--min-skill", type=float, help="Exit 5 when the recorded kernel's column has less skill over prev than this."
)


def progress(what: str) -> Callable[[int, int], None] | None:
    """Progress by parts on stderr, on a terminal only."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, of: int) -> None:
        end = "\r\x1b[K" if done >= of else ""
        print(f"\r\x1b[K{what} {done}/{of}{end}", end="", file=sys.stderr, flush=True)

    return show


def display_name(given: Path) -> str:
    """What a recording is called in a table: the file's name, or its directory's where that says more."""
    path = given.resolve()
    return path.parent.name if path.stem in GENERIC_NAMES and path.parent.name else path.stem


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


def recorded_column(recording: Recording, known: Mapping[str, Mapping[str, Any]]) -> Column:
    """The column that stands for the recorded kernel; FidelityError when there is none."""
    from rewake.analysis.columns import column_of

    manifest = recording.manifest
    parameters = parameters_of(known)
    return column_of(
        manifest.get("kernel"), manifest.get("features") or {}, parameters, sched_ext=placed_by_ext(recording)
    )


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


def program() -> str:
    """How to call this program again: as it was called, where a shell would not find it by name."""
    called = Path(sys.argv[0])
    if called.name != "rewake" or shutil.which("rewake"):
        return "rewake"
    return str(path_shown(called))


assume_option = click.option(
    "--assume",
    multiple=True,
    metavar="sync=0|1|auto",
    help="What no event carries: auto infers it from other wakeups (default), 0 and 1 take WF_SYNC as clear or set.",
)


plugin_timeout_option = click.option(
    "--plugin-timeout",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long one call of a plugin may take.",
)

ignore_probes_option = click.option(
    "--ignore-probes", is_flag=True, help="Reconstruct and infer also what placement probes recorded."
)


def sync_of(assume: tuple[str, ...], *, inferable: bool = True) -> str:
    """What --assume says of WF_SYNC; the last one counts. Without it: auto where that is possible (it takes the
    recorded kernel's own column)."""
    sync = "auto" if inferable else "0"
    for text in assume:
        name, _, sync = text.partition("=")
        if name != "sync" or sync not in ("0", "1", "auto"):
            raise UsageError(f"--assume {text}: sync=0, sync=1 or sync=auto expected")
    return sync


hints_option = click.option(
    "--hints",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Rules (TOML) that give tasks the hints which userspace-hints follows.",
)


def rules_of(file: Path | None) -> Rules | None:
    """The rules of --hints."""
    from rewake.replay.hints import load

    return None if file is None else load(file)


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
) -> Run:
    """Replays into `out`, or into the cache, where an earlier run of the same is found again."""
    from rewake.forms import Run, RunWriter
    from rewake.replay import driver, plugins
    from rewake.replay.spec import parse

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
                progress=progress("replay"),
            )
            writer.commit()

    if out is not None:
        build(out)
        return Run(out)
    given = "" if hints is None else f"{hints.name} {hints.digest}"
    objects = [plugins.describe(s.name, plugin_timeout).sha256 for s in specs if s.is_plugin]
    return _cached(recording, [str(seed), sync, str(use_probes), given, str(auto), *map(str, specs), *objects], build)


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
) -> Run:
    """Simulates into `out`, or into the cache, where an earlier run of the same is found again."""
    from rewake.forms import Run, RunWriter
    from rewake.replay.simulate import simulate

    def build(target: Path) -> None:
        with RunWriter(target, recording) as writer:
            writer.manifest |= {"tool": {"name": "rewake", "version": __version__}, "name": name}
            simulate(
                recording, specs, writer, settings,
                auto=auto, threads=threads, queues_wakeups=queues_wakeups, progress=progress("simulate"),
            )  # fmt: skip
            writer.commit()

    if out is not None:
        build(out)
        return Run(out)
    return _cached(recording, ["simulate", repr(settings), str(auto), str(queues_wakeups), *map(str, specs)], build)


def simulation_of(run: Run, name: str | None = None) -> Simulated:
    """The figures of a closed-loop run and of the recording that it was made from."""
    from rewake.analysis import quality, simulated

    recording = run.recording
    con = run.connect()
    try:
        return simulated.build(
            con,
            run.manifest,
            name=name or str(run.manifest.get("name") or display_name(recording.path)),
            kernel=recording.manifest.get("kernel"),
            quality=quality.assess(recording),
        )
    finally:
        con.close()


def print_simulation(found: Simulated, recording: Recording, form: str, next_steps: Sequence[str] = ()) -> None:
    """Prints a closed-loop run as table or JSON."""
    from rewake.analysis import jsonout, simulated_table

    if form == "table":
        emit(simulated_table.table(found, next_steps))
    else:
        emit(jsonout.dumps(document("simulation", found.plain(), recording, found.quality.as_dict())))


def plugin_problems(run: Run) -> list[str]:
    """What went wrong with the plugins of a run."""
    return [f"{p['name']}: {text}" for p in run.manifest["policies"] for text in p.get("problems", ())]


def complain_of_plugins(run: Run) -> None:
    """After the answer: PluginError when a plugin of the run failed."""
    if problems := plugin_problems(run):
        raise PluginError("; ".join(f"plugin {text}" for text in problems))


def make_trial(recording: Recording, specs: Sequence[PolicySpec], name: str) -> Run:
    """Counts how often each of many candidates agrees with the record (replay/trial.py), through the cache."""
    from rewake.forms import RunWriter
    from rewake.replay import trial

    def build(target: Path) -> None:
        with RunWriter(target, recording) as writer:
            writer.manifest |= {"tool": {"name": "rewake", "version": __version__}, "name": name}
            trial.run(recording, specs, writer, progress("identify"))
            writer.commit()

    return _cached(recording, ["trial", *map(str, specs)], build)


def _cached(recording: Recording, made_from: Sequence[str], build: Callable[[Path], None]) -> Run:
    """A run kept in the cache under the recording, the code that decides and what else it is made from."""
    from rewake import cache
    from rewake.forms import Run

    def check(path: Path) -> None:
        found = Run(path)
        if problems := plugin_problems(found):  # may have been the machine's fault: not taken for granted
            raise RewakeError(problems[0])
        found.recording  # noqa: B018

    parts = [str(recording.path.resolve()), str(recording.manifest.get("id")), _engine_digest(), *made_from]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return Run(cache.fetch(f"{key}.run", build, check)[0])


def _engine_digest() -> str:
    """Changes with the code that decides."""
    import rewake.replay
    from rewake.replay import _engine

    digest = hashlib.sha256(Path(str(_engine.__file__)).read_bytes())
    for file in sorted(Path(rewake.replay.__path__[0]).glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def report_of(run: Run, max_exposure: float, name: str | None = None) -> Report:
    """The report of a run and of the recording that it was made from, called `name` or as the run says."""
    from rewake.analysis import quality, report

    recording = run.recording
    con = run.connect()
    try:
        return report.build(
            con,
            run.manifest,
            name=name or str(run.manifest.get("name") or display_name(recording.path)),
            kernel=recording.manifest.get("kernel"),
            quality=quality.assess(recording),
            max_exposure=max_exposure,
        )
    finally:
        con.close()


def print_report(found: Report, recording: Recording, form: str, next_steps: Sequence[str] = ()) -> None:
    """Prints a report as table, JSON or CSV."""
    from rewake.analysis import csvout, jsonout, table

    if form == "table":
        emit(table.report(found, next_steps))
    elif form == "csv":
        emit(csvout.report(found))
    else:
        emit(jsonout.dumps(document("report", found.plain(), recording, found.quality.as_dict())))


def show(form: str, as_table: Callable[[], str], as_json: Callable[[], Mapping[str, Any]], as_csv: Rows) -> None:
    """Prints one answer in the form that was asked for."""
    from rewake.analysis import csvout, jsonout

    if form == "table":
        emit(as_table())
    elif form == "csv":
        emit(csvout.rows(as_csv))
    else:
        emit(jsonout.dumps(as_json()))


def document(kind: str, body: Mapping[str, Any], recording: Recording, card: Mapping[str, Any]) -> dict[str, Any]:
    from rewake.analysis import jsonout

    return jsonout.document(kind, body, version=__version__, recording=recording.manifest.get("id"), quality=card)


def emit(text: str) -> None:
    click.echo(text, nl=False)


def parse_policies(given: Sequence[str], plugin_timeout: float = 10.0) -> list[PolicySpec]:
    """The instances of all --policy options, `auto` left as it is. Loads plugins, to see whether they are any."""
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
                raise UsageError(f"--policy {text}: auto takes no column and no parameters")
            out.append(spec)
    return out


def path_shown(path: Path) -> str:
    """A path as short as the user can type it: relative to here, or with ~."""
    here, home = Path.cwd(), Path.home()
    resolved = path.resolve()
    if resolved.is_relative_to(here):
        return str(resolved.relative_to(here))
    return f"~/{resolved.relative_to(home)}" if resolved.is_relative_to(home) else str(resolved)
