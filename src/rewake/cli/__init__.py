# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line: one file per subcommand, each defining `command`; no numbers are computed here.

Subcommands are loaded when they are called, and their modules import the heavy rooms inside their functions: `--help`
and `--version` load neither numpy nor DuckDB. A module named `import_` is the command `import`, `a_b` is `a-b`.
"""

from __future__ import annotations

import importlib
import io
import os
import pkgutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from rewake import __version__
from rewake.analysis import text
from rewake.cli import _examples
from rewake.cli._shared import reader_left
from rewake.errors import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, NOT_UTF8, RewakeError

_SETTINGS: dict[str, object] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Commands(click.Group):
    """The subcommands whose modules exist in this package."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = (m.name for m in pkgutil.iter_modules(__path__))
        return sorted(n.rstrip("_").replace("_", "-") for n in names if not n.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = cmd_name.replace("-", "_")
        if not any(m.name == module for m in pkgutil.iter_modules(__path__)):
            module += "_"
        found = importlib.import_module(f"{__name__}.{module}").command
        assert isinstance(found, click.Command)
        _examples.add(found, cmd_name)
        found.context_settings = {**_SETTINGS, **found.context_settings}  # with or without a context above it
        return found


@click.group(
    cls=_Commands,
    context_settings=_SETTINGS,
    epilog="Exit codes: 0 ok, 1 error, 2 usage, 3 regression, 4 quality veto, 5 fidelity, 6 inconclusive, 130 Ctrl-C.",
)
@click.version_option(__version__, prog_name="rewake")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
def cli(debug: bool) -> None:
    """For every recorded wakeup: what each other placement policy would have chosen, and what that would have cost."""


def _complain(message: str) -> None:
    # One line whatever the message holds: names of files and events in it are not ours.
    print(f"rewake: error: {text.terminal(message.strip(), None)}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = arguments[:1] == ["--debug"]
    # Nothing here does linear algebra: keep numpy from starting a thread per CPU.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an encoding without arrows and Greek is no reason to fail
    with _interruptible() as interrupted:
        try:
            for argument in arguments:
                argument.encode()
            code = cli.main(args=arguments, prog_name="rewake", standalone_mode=False)
            sys.stdout.flush()
            return code if isinstance(code, int) else EXIT_OK
        except SystemExit:  # only click raises it here, as its answer to a broken pipe
            reader_left()
            return EXIT_OK
        except KeyboardInterrupt:
            return _interrupted()
        except Exception as error:
            if debug and not isinstance(error, _EXPECTED):
                raise
            return _interrupted() if interrupted() else _excused(error)


_EXPECTED = (click.exceptions.Exit, click.Abort, click.ClickException, RewakeError, OSError, MemoryError)


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Remembers a Ctrl-C: DuckDB makes a failed query of it, which may be taken for anything on the way here."""
    caught = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal caught
        caught = True
        signal.default_int_handler(number, frame)

    try:
        before = signal.signal(signal.SIGINT, note)
    except ValueError:  # not the main thread: nobody's Ctrl-C
        yield lambda: False
        return
    try:
        yield lambda: caught
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupted() -> int:
    print("rewake: interrupted", file=sys.stderr)
    return EXIT_INTERRUPTED


def _excused(error: Exception) -> int:
    """Says in one line what went wrong; returns its exit code."""
    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case click.Abort():
            return _interrupted()
        case click.exceptions.NoArgsIsHelpError():  # the whole help, not one line of complaint
            print(error.format_message(), file=sys.stderr)
            return error.exit_code
        case click.UsageError():
            hint = f" ({error.ctx.command_path} --help)" if error.ctx is not None else ""
            _complain(error.format_message() + hint)
            return error.exit_code
        case click.ClickException():
            _complain(error.format_message())
            return error.exit_code
        case RewakeError():
            _complain(str(error))
            return error.exit_code
        case BrokenPipeError():
            reader_left()
            return EXIT_OK
        case OSError():
            where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
            _complain(f"{where}{error.strerror or error}")
        case UnicodeEncodeError() if error.reason == "surrogates not allowed":
            _complain(f"{error.object}: {NOT_UTF8}")
            return EXIT_USAGE
        case MemoryError():
            _complain("out of memory")
        case _:
            from rewake.forms import unreadable

            bug = f"{type(error).__name__}: {error} (a bug in rewake: rewake --debug shows where)"
            _complain(unreadable(error) or bug)
    return EXIT_ERROR
