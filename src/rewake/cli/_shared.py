# SPDX-License-Identifier: GPL-2.0-or-later
"""What the subcommands share: opening a recording or a raw trace, options, progress, tables and JSON."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from rewake.analysis import text
from rewake.errors import UsageError

if TYPE_CHECKING:
    from rewake.forms import Recording

_F = TypeVar("_F", bound=Callable[..., Any])


def recording_argument(function: _F) -> _F:
    """The argument of commands that take a recording or a raw trace."""
    return click.argument("recording", metavar="REC", type=click.Path(path_type=Path))(function)


def topology_option(function: _F) -> _F:
    """--topology, for commands that may import."""
    return click.option(
        "--topology",
        metavar="XML|TAR|DIR|SYNTHETIC",
        help="Machine that the trace was recorded on; without it, topology.tar.gz beside the trace.",
    )(function)


def redact_option(function: _F) -> _F:
    """--redact, for commands that write a recording."""
    return click.option(
        "--redact",
        metavar="KEYFILE",
        type=click.Path(path_type=Path),
        help="Replace names of tasks, cgroups, files and the host, and tids, by hashes under this key.",
    )(function)


class AnyNumber(click.types.FloatParamType):
    """A finite number: nan would pass every gate, as it is neither above nor below a limit."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number.", param, ctx)
        return number


class Number(click.FloatRange, AnyNumber):
    """A finite number of a range."""


def say(line: str, *, end: str = "\n") -> None:
    """Standard output. When its reader has seen enough (`| head`), the rest goes nowhere: the command's verdict counts
    all the same."""
    try:
        click.echo(line + end, nl=False)
        sys.stdout.flush()
    except BrokenPipeError:
        reader_left()


def reader_left() -> None:
    """Nobody reads standard output any more. Keeps the interpreter from failing again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def format_option(*formats: str) -> Callable[[_F], _F]:
    """--format; the first is the default."""
    return click.option(
        "--format", "format_", type=click.Choice(formats), default=formats[0], show_default=True, help="Output format."
    )


def typed(parameter: str) -> bool:
    """Whether the command that runs was given this parameter; False: it has its default."""
    return click.get_current_context().get_parameter_source(parameter) is not ParameterSource.DEFAULT


def only_form(option: str) -> None:
    """For options whose output has one form: UsageError where --format asks for another beside them."""
    if typed("format_"):
        raise UsageError(f"{option} and --format: what {option} gives has one form, leave --format out")


def force_option(function: _F) -> _F:
    """--force, for commands that the quality card may stop."""
    return click.option("--force", is_flag=True, help="Go on although the quality card refuses the recording.")(
        function
    )


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A line on stderr that replaces itself, on a terminal only; cleared at the end."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    last = 0.0

    def show(message: str) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= 0.1:
            last = now
            print(f"\r\x1b[K{text.terminal(message)}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def open_recording(path: Path, topology: str | None = None) -> Recording:
    """A recording as it is, or a raw trace imported through the cache."""
    from rewake.forms import Recording
    from rewake.importing import import_trace

    if (path / "manifest.json").is_file():
        if topology is not None:
            raise UsageError(f"{path}: a recording has its topology already: give --topology with the trace")
        return Recording(path)
    with progress() as show:
        return import_trace(path, topology, progress=show)


def print_json(data: Any) -> None:
    """One JSON document on stdout, ASCII only: names in it cannot reach the terminal as control characters."""
    say(json.dumps(data, indent=2, ensure_ascii=True, allow_nan=False))


def print_rows(rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Rows as aligned columns on stdout; the columns in `right` are set flush right. Every cell is made safe."""
    safe = [[text.terminal(cell) for cell in row] for row in rows]
    widths = [
        max((text.columns(row[i]) for row in safe if i < len(row)), default=0)
        for i in range(max(map(len, safe), default=0))
    ]
    lines = []
    for row in safe:
        cells = []
        for i, cell in enumerate(row):
            pad = " " * (widths[i] - text.columns(cell))
            cells.append(pad + cell if i in right else cell + pad)
        lines.append("  ".join(cells).rstrip())
    if lines:
        say("\n".join(lines))


def seconds(ns: int) -> str:
    return f"{ns / 1e9:.3f} s"
