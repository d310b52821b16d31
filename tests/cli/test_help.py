# SPDX-License-Identifier: GPL-2.0-or-later
"""Every command's help as it is printed (golden/help-*.txt) and its examples as they would be typed.

After a change on purpose: REWAKE_WRITE_GOLDEN=1 pytest tests/cli/test_help.py, then read the difference.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from rewake.cli import _examples, cli, main
from rewake.errors import EXIT_USAGE

GOLDEN = Path(__file__).parent / "golden"


def commands() -> Iterator[tuple[str, click.Command]]:
    context = cli.make_context("rewake", [], resilient_parsing=True)
    for name in cli.list_commands(context):
        found = cli.get_command(context, name)
        assert found is not None
        yield name, found
        if isinstance(found, click.Group):
            yield from ((f"{name} {part}", inner) for part, inner in found.commands.items())


ALL = dict(commands())


@pytest.mark.parametrize("name", ["", *ALL])
def test_help_is_as_it_was(name: str) -> None:
    told = CliRunner().invoke(cli, [*name.split(), "--help"], prog_name="rewake", terminal_width=100)
    assert told.exit_code == 0
    assert all(len(line) <= 100 for line in told.output.splitlines())
    file = GOLDEN / f"help-{name.replace(' ', '-') or 'rewake'}.txt"
    if os.environ.get("REWAKE_WRITE_GOLDEN"):
        file.write_text(told.output)
    assert told.output == file.read_text()


@pytest.mark.parametrize("name", ["", *(n for n, c in ALL.items() if isinstance(c, click.Group))])
def test_a_group_without_a_command_shows_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(name.split()) == EXIT_USAGE
    told = capsys.readouterr()
    assert not told.out
    assert told.err.splitlines()[0] == f"Usage: {' '.join(['rewake', *name.split()])} [OPTIONS] COMMAND [ARGS]..."
    assert "\nCommands:\n" in told.err


@pytest.mark.parametrize("name", ALL)
def test_every_command_has_examples_that_parse(name: str) -> None:
    assert _examples.EXAMPLES.get(name), f"{name}: put examples into src/rewake/cli/_examples.py"
    for line, what in _examples.EXAMPLES[name]:
        assert what
        words = shlex.split(line.partition(" > ")[0])
        called = " ".join(words[1 : 1 + len(name.split())])
        assert words[0] == "rewake" and (called == name or isinstance(ALL[name], click.Group))
        inner = ALL[called] if called in ALL else ALL[" ".join(words[1:3])]
        rest = words[1 + len(called.split()) :]
        if isinstance(inner, click.Group):
            inner, rest = inner.commands[rest[0]], rest[1:]
        context = click.Context(inner, info_name=inner.name)
        inner.make_parser(context).parse_args(list(rest))


def test_no_example_is_left_of_a_command_that_is_gone() -> None:
    assert set(_examples.EXAMPLES) <= set(ALL)


@pytest.mark.parametrize(("shell", "sign"), [("bash", "complete -o"), ("zsh", "compdef"), ("fish", "complete --")])
def test_completions(shell: str, sign: str) -> None:
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    complete = found(cli, {}, "rewake", "_REWAKE_COMPLETE")
    assert sign in found.source_template
    assert "report" in {item.value for item in complete.get_completions([], "re")}
    assert "--html" in {item.value for item in complete.get_completions(["report"], "--h")}
