# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that the pages tell people to type: those of the walks run, all others parse; links lead somewhere."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path

import click
import pytest

from rewake.cli import cli, main
from rewake.errors import EXIT_OK

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WALKS = ("quick-start.md", "perfetto.md")
"""Pages whose commands run one after the other beside a trace.dat."""


def commands(page: Path) -> Iterator[list[str]]:
    """Words of each call of rewake in the page's shell blocks."""
    for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            while words and (words[0] == "sudo" or "=" in words[0]):
                words.pop(0)
            if words and Path(words[0]).name == "rewake":
                yield [w for w in words[1:] if not w.startswith(">")]


@pytest.mark.parametrize("name", WALKS)
def test_walks(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: None) -> None:
    for file in ("trace.dat", "topology.tar.gz"):
        shutil.copy(ROOT / "fixtures/demo-split-llc-schbench" / file, tmp_path)
    monkeypatch.chdir(tmp_path)
    typed = list(commands(ROOT / "docs" / name))
    assert len(typed) >= 2
    for words in typed:
        assert main(words) == EXIT_OK, words


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_parse(page: Path) -> None:
    for words in commands(page):
        found = cli.get_command(click.Context(cli), words[0])
        assert found is not None, words
        try:
            found.make_context(words[0], words[1:])
        except click.exceptions.Exit as done:  # --help
            assert done.exit_code == 0
        except click.UsageError as error:
            if not isinstance(found, click.Group):
                raise AssertionError(f"{page.name}: {' '.join(words)}: {error.format_message()}") from error


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, hash_, anchor in re.findall(r"\]\(([^)#:]*)(#?)([^):]*)\)", page.read_text()):
        led = page.parent / target if target else page
        assert led.exists(), target
        assert not hash_ or anchor in anchors(led.read_text()), f"{target}#{anchor}"


def anchors(text: str) -> set[str]:
    """Of the headings, as forges make them: lower case, without punctuation, numbered where one is there already."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w -]", "", plain.strip().lower()).replace(" ", "-")
        found.add(next(n for n in chain([name], (f"{name}-{k}" for k in count(1))) if n not in found))
    return found


def test_anchors_are_those_of_headings() -> None:
    text = "# A `b_c`: d, [e](f.md)!\n```sh\n# no heading\n```\n## Twice\n## Twice\n"
    assert anchors(text) == {"a-b_c-d-e", "twice", "twice-1"}
