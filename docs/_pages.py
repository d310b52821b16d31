# SPDX-License-Identifier: GPL-2.0-or-later
"""What the generated pages share: asking rewake, reading the lab's job lists, writing Markdown.

A page's generator is a script in a directory of its own, docs/NAME/make.py, and writes docs/NAME.md.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

NOTHING = "-"
SIMULATED = ("--move-cost", "0", "--force", "--format", "json")
"""How the pages have the closed loop run: their machines have no caches; what diverged is said."""


class Missing(Exception):
    """Something that the page needs is not there."""


class Refused(Missing):
    """rewake did not answer: its own message, and `code`, its exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def printed(*words: str | Path) -> str:
    """What a rewake command prints; Refused when it fails, Missing when that is a bug."""
    command = [sys.executable, "-m", "rewake.cli", *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        message = f"{shlex.join(['rewake', *map(str, words[:2])])}: {result.stderr.strip()}"
        if "(a bug in rewake" in message or "Traceback" in message:  # no property of the recording: there is no page
            raise Missing(message)
        raise Refused(message, result.returncode)
    return result.stdout


def rewake(*words: str | Path) -> Any:
    """What a rewake command prints as JSON."""
    return json.loads(printed(*words))


def asked(run: Path, query: Path) -> list[dict[str, Any]]:
    """The rows that a file of SQL answers about a run."""
    answer = rewake("query", "--format", "json", "--", run, query.read_text(encoding="utf-8"))
    return [dict(zip(answer["columns"], values, strict=True)) for values in answer["rows"]]


def jobs(path: Path) -> dict[str, str]:
    """The lab's job line of every recording of a list, by name."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {line.split("|")[0].strip(): line for line in lines}


def meta_of(place: Path) -> dict[str, Any]:
    """meta.json of a recording's directory; empty when it has none."""
    file = place / "meta.json"
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(cell, line)) + " |" for line in lines] + [""]


def pct(x: float | None, digits: int = 1) -> str:
    return NOTHING if x is None else f"{100 * x:.{digits}f} %"


def num(x: float | None, digits: int = 3) -> str:
    return NOTHING if x is None else f"{x:.{digits}f}"


def micros(ns: float | None) -> str:
    return NOTHING if ns is None else f"{ns / 1000:,.1f}" if ns < 99_950 else f"{ns / 1000:,.0f}"


def latency_or_rate(figure: str, value: float | None) -> str:
    """A figure of the closed loop, by its name: µs, or a number per second."""
    if value is None:
        return NOTHING
    return micros(value) if figure.endswith("_ns") else f"{value:,.0f}"


def head(name: str, title: str, intro: str) -> list[str]:
    """The first lines of docs/NAME.md."""
    return [
        "<!-- SPDX-License-Identifier: GPL-2.0-or-later -->",
        f"<!-- Written by docs/{name}/make.py from docs/{name}/ and replays: do not edit. -->",
        f"# {title}", "", intro.strip(), "",
    ]  # fmt: skip


def section(about: dict[str, str], lines: Iterable[str]) -> list[str]:
    """A section of a page: title and text as its page.toml has them, and what was measured."""
    return [f"## {about['title']}", "", about["text"].strip(), "", *lines]


def main(name: str, about: str | None, make: Callable[..., str], **more: str) -> int:
    """The command line of a generator: directories of recordings, and where the page goes. `more`: options, each with
    its help, for directories of other recordings, which `make` gets by the option's name."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="RECORDINGS")
    parser.add_argument("-o", "--output", type=Path, help="default: standard output")
    for option, text in more.items():
        parser.add_argument(f"--{option}", action="append", type=Path, default=[], metavar="DIR", help=text)
    given = parser.parse_args()
    try:
        text = make(given.folders, **{option: getattr(given, option) for option in more})
    except Missing as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0
