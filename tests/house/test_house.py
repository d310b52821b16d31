# SPDX-License-Identifier: GPL-2.0-or-later
"""Rules of the house that no compiler checks."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import rewake.cli

ROOT = Path(__file__).parents[2]
ROOMS = ("collectors", "replay", "analysis")
SKIPPED = {"build", "dist", "__pycache__", "fixtures", "LICENSES"}
TAG = "SPDX-License-Identifier: GPL-2.0-or-later"
MIT = {"rewake_policy.h"}
"""What users compile into their own policies."""


def files(*suffixes: str) -> Iterator[Path]:
    for folder, subfolders, names in os.walk(ROOT):
        here = Path(folder)
        subfolders[:] = [
            s for s in subfolders if s not in SKIPPED and not s.startswith(".") and not (here / s).is_symlink()
        ]
        yield from (here / n for n in names if n.endswith(suffixes))


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{a.name}" for a in node.names)


@pytest.mark.parametrize("room", [*ROOMS, "src/rewake/forms"])
def test_rooms_import_forms_and_errors_only(room: str) -> None:
    own = "rewake.forms" if room.endswith("forms") else f"rewake.{room}"
    for path in (ROOT / room).rglob("*.py"):
        ours = {m for m in imported(path) if m == "rewake" or m.startswith("rewake.")}
        assert all(m.startswith((own, "rewake.errors", "rewake.forms")) for m in ours), f"{path}: {ours}"


def test_spdx_line_and_size() -> None:
    sources = list(files(".py", ".cpp", ".hpp", ".c", ".h", ".sql", ".sh", ".toml", "CMakeLists.txt"))
    sources += [ROOT / "dev", ROOT / ".ci/run"]
    assert len(sources) > 40
    for path in files(".md"):
        assert TAG in path.read_text().partition("\n")[0], path
    for path in sources:
        lines = path.read_text().splitlines()
        tag = TAG.replace("GPL-2.0-or-later", "MIT") if path.name in MIT else TAG
        assert any(tag in line for line in lines[:2]), path
        assert len(lines) <= 700, path


def test_locks_are_pinned_and_name_no_address() -> None:
    for name in ("requirements.txt", "requirements-dev.txt"):
        text = (ROOT / name).read_text()
        assert "://" not in text and "index-url" not in text
        entries = re.split(r"\n(?=\S)", text.strip())
        assert all(re.match(r"[a-z0-9-]+==\S+ \\\n +--hash=sha256:", e) for e in entries)


def test_the_smaller_lock_is_part_of_the_bigger() -> None:
    small, big = ((ROOT / n).read_text() for n in ("requirements.txt", "requirements-dev.txt"))
    assert set(small.splitlines()) <= set(big.splitlines())


def test_commands_of_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text()
    named = set(re.findall(r"rewake ([a-z]+)", " ".join(re.findall(r"`rewake [^`]*`|\n\.venv/bin/rewake .*", text))))
    assert named >= {"replay", "info", "check", "fidelity", "policies", "query", "report"}
    group = rewake.cli.cli
    assert named <= set(group.list_commands(group.make_context("rewake", ["--help"], resilient_parsing=True)))
    assert set(re.findall(r"\./dev ([a-z]+)", text)) <= {"demo", "test", "lint", "bench"}


def test_dev_without_a_command_is_a_usage_error() -> None:
    result = subprocess.run([ROOT / "dev", "nonsense"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert "usage: ./dev demo" in result.stderr


def test_dev_without_rights_prints_the_line_to_run(tmp_path: Path) -> None:
    """As a user who may not install: every package is missing, nobody has sudo."""
    for name, body in (("dpkg-query", "exit 1"), ("id", "echo 1000"), ("sudo", "exit 1"), ("apt-get", "exit 99")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    copy = tmp_path / "clone"
    copy.mkdir()
    (copy / "dev").write_bytes((ROOT / "dev").read_bytes())
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    result = subprocess.run(["sh", copy / "dev", "demo"], env=env, capture_output=True, text=True, check=False,
                            stdin=subprocess.DEVNULL)  # fmt: skip
    assert result.returncode == 2, result.stderr
    assert "\napt-get install -y --no-install-recommends g++ cmake ninja-build" in result.stderr
    assert "trace-cmd" not in result.stderr


def test_every_fixture_says_where_it_comes_from() -> None:
    for trace in (ROOT / "fixtures").glob("*/trace.dat"):
        text = trace.with_name("README.md").read_text()
        assert "Provenance:" in text and "CC0" in text, trace
    size = sum(f.stat().st_size for f in (ROOT / "fixtures").rglob("*") if f.is_file())
    assert size < 15 << 20


def test_the_wheel_names_the_licences_of_what_is_in_it() -> None:
    """Tags of files that are packaged, and nanobind, which is linked in; each with its text."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = set(told["project"]["license"].split(" AND "))
    tagged = {"BSD-3-Clause"}
    for folder in told["tool"]["scikit-build"]["wheel"]["packages"].values():
        for path in (p for p in (ROOT / folder).rglob("*") if p.is_file()):
            with path.open("rb") as file:
                first = file.read(200)
            tagged |= {m.decode() for m in re.findall(rb"SPDX-License-Identifier: ([\w.-]+)", first)}
    assert tagged == named
    texts = {p.name for p in (ROOT / "LICENSES").iterdir()}
    assert all(any(t.startswith(name) for t in texts) for name in named - {"GPL-2.0-or-later"})
