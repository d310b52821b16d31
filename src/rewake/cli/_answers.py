# SPDX-License-Identifier: GPL-2.0-or-later
"""What the commands that answer questions share: resolving policies, making a run, printing."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rewake import __version__, runs
from rewake.cli._shared import AnyNumber, Number, reader_left, say
from rewake.errors import PluginError, UsageError
from rewake.replay.settings import CHOICES, RANGES

if TYPE_CHECKING:
    from rewake.analysis.report import Report
    from rewake.analysis.simulated import Simulated
    from rewake.analysis.sql import Rows
    from rewake.forms import Recording, Run
    from rewake.replay.hints import Rules

_F = TypeVar("_F", bound=Callable[..., Any])


def exposure_option(function: _F) -> _F:
    """--max-exposure, for commands that print the report."""
    return click.option(
        "--max-exposure",
        type=Number(0, 100),
        default=20.0,
        show_default=True,
        help="Per cent of decisions above which the table says: use simulate.",
    )(function)


min_skill_option = click.option(
    "--min-skill",
    type=AnyNumber(),
    help="Exit 5 when the recorded kernel's column has less skill over prev than this.",
)


def progress(what: str) -> Callable[[int, int], None] | None:
    """Progress by parts on stderr with the time that is left, on a terminal only."""
    if not sys.stderr.isatty():
        return None
    began = time.monotonic()

    def show(done: int, of: int) -> None:
        left = (time.monotonic() - began) / done * (of - done) if done else 0.0
        told = f"{what} {done}/{of}" + (f", about {left:.0f} s left" if left >= 2 else "")
        print(f"\r\x1b[K{told}" + ("\r\x1b[K" if done >= of else ""), end="", file=sys.stderr, flush=True)

    return show


def program() -> str:
    """How to call this program again: as it was called, where a shell would not find it by name."""
    called = Path(sys.argv[0])
    if called.name != "rewake" or shutil.which("rewake"):
        return "rewake"
    return str(path_shown(called))


assume_option = click.option(
    "--assume",
    multiple=True,
    metavar="sync=0|1|auto|causal",
    help="What no event carries: auto infers it from other wakeups (default), causal from earlier ones, 0 and 1 take "
    "WF_SYNC as clear or set.",
)


plugin_timeout_option = click.option(
    "--plugin-timeout",
    type=Number(0.1),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long one call of a plugin may take.",
)

ignore_probes_option = click.option(
    "--ignore-probes", is_flag=True, help="Reconstruct and infer also what placement probes recorded."
)


def balance_option(text: str = "As of simulate.") -> Callable[[_F], _F]:
    """--balance, for commands that simulate."""
    return click.option(
        "--balance",
        type=click.Choice(CHOICES["balance"]),
        default="recorded-rate",
        show_default=True,
        help=text,
    )


def move_cost_option(text: str = "As of simulate.") -> Callable[[_F], _F]:
    """--move-cost, for commands that simulate."""
    return click.option("--move-cost", type=Number(*RANGES["move_factor"]), default=1.0, show_default=True, help=text)


def sync_of(assume: tuple[str, ...], *, inferable: bool = True, causal: bool = True) -> str:
    """What --assume says of WF_SYNC; the last one counts. Without it: auto where that is possible (it takes the
    recorded kernel's own column)."""
    sync = "auto" if inferable else "0"
    for text in assume:
        name, _, sync = text.partition("=")
        if name != "sync" or sync not in ("0", "1", "auto", *(("causal",) if causal else ())):
            raise UsageError(
                f"--assume {text}: sync=0, sync=1{', sync=auto or sync=causal' if causal else ' or sync=auto'} expected"
            )
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


def print_simulation(found: Simulated, recording: Recording, form: str, next_steps: Sequence[str] = ()) -> None:
    """Prints a closed-loop run in the form that was asked for."""
    from rewake.analysis import csvout, jsonout, markdownout, parquetout, simulated_table
    from rewake.analysis.simulated import per_policy

    match form:
        case "table":
            emit(simulated_table.table(found, next_steps))
        case "markdown":
            emit(markdownout.simulation(found))
        case "csv":
            emit(csvout.rows(per_policy(found)))
        case "parquet":
            emit_bytes(parquetout.rows(per_policy(found)))
        case _:
            emit(jsonout.dumps(document("simulation", found.plain(), recording, found.quality.as_dict())))


def complain_of_plugins(run: Run) -> None:
    """After the answer: PluginError when a plugin of the run failed."""
    if problems := runs.plugin_problems(run):
        raise PluginError("; ".join(f"plugin {text}" for text in problems))


def print_report(found: Report, recording: Recording, form: str, next_steps: Sequence[str] = ()) -> None:
    """Prints a report in the form that was asked for."""
    from rewake.analysis import csvout, jsonout, markdownout, parquetout, table
    from rewake.analysis.report import per_policy

    match form:
        case "table":
            emit(table.report(found, next_steps))
        case "markdown":
            emit(markdownout.report(found))
        case "csv":
            emit(csvout.report(found))
        case "parquet":
            emit_bytes(parquetout.rows(per_policy(found)))
        case _:
            emit(jsonout.dumps(document("report", found.plain(), recording, found.quality.as_dict())))


def show(form: str, as_table: Callable[[], str], as_json: Callable[[], Mapping[str, Any]], as_csv: Rows) -> None:
    """Prints one answer in the form that was asked for."""
    from rewake.analysis import csvout, jsonout, markdownout, parquetout

    match form:
        case "table":
            emit(as_table())
        case "markdown":
            emit(markdownout.rows(as_csv))
        case "csv":
            emit(csvout.rows(as_csv))
        case "parquet":
            emit_bytes(parquetout.rows(as_csv))
        case _:
            emit(jsonout.dumps(as_json()))


def document(kind: str, body: Mapping[str, Any], recording: Recording, card: Mapping[str, Any]) -> dict[str, Any]:
    from rewake.analysis import jsonout

    return jsonout.document(kind, body, version=__version__, recording=recording.manifest.get("id"), quality=card)


def emit(text: str) -> None:
    say(text, end="")


def emit_bytes(data: bytes) -> None:
    """Standard output, but not a terminal: it would only beep."""
    if sys.stdout.isatty():
        raise UsageError("Parquet is not for a terminal: send it into a file (> FILE)")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        reader_left()


def again(recording: Path, topology: str | None, forced: bool) -> str:
    """REC as another command has to be given it to see what this one saw: on the same machine, past the same veto."""
    return path_shown(recording) + options(("--topology", topology), ("--force", forced))


def path_shown(path: Path) -> str:
    """A path as short as the user can type it, quoted for a shell: relative to here, or with ~. A link stays one: the
    topology beside it is another than that beside what it leads to."""
    try:
        here, home = Path.cwd(), Path.home()
        full = path.resolve() if ".." in path.parts else path.absolute()
    except (OSError, RuntimeError):  # no working directory any more, or no home
        return shlex.quote(str(path))
    if full.is_relative_to(here):
        shown = str(full.relative_to(here))
        return shlex.quote(f"./{shown}" if shown.startswith("-") else shown)  # else it were an option
    if full.is_relative_to(home):
        return "~/" + shlex.quote(str(full.relative_to(home)))
    return shlex.quote(str(full))


def options(*pairs: tuple[str, object]) -> str:
    """Options as a shell takes them, each behind a blank: a flag that is True, and what has a value."""
    shown = []
    for name, value in pairs:
        if value is True:
            shown.append(f" {name}")
        elif value is not None and value is not False:
            shown.append(f" {name} {path_shown(value) if isinstance(value, Path) else shlex.quote(str(value))}")
    return "".join(shown)
