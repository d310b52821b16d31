# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/validate-on-your-machine.sh: what it runs, in which state of the feature, and that the feature is put back."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs/validate-on-your-machine.sh"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A features file, and a rewake that notes how it was called and what the features said then."""
    (tmp_path / "features").write_text("GENTLE_FAIR_SLEEPERS SIS_UTIL NO_SIS_PROP\n")
    rewake = tmp_path / "rewake"
    rewake.write_text(f'#!/bin/sh\necho "$(cat {tmp_path}/features) | $*" >>{tmp_path}/calls\n[ "$1" != fail ]\n')
    rewake.chmod(0o755)
    return tmp_path


def call(machine: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "REWAKE": f"{machine}/rewake", "FEATURES_FILE": f"{machine}/features"}
    return subprocess.run(
        ["sh", SCRIPT, *arguments], cwd=machine, env=environment, capture_output=True, text=True, check=False
    )


def test_three_recordings_and_the_feature_put_back(machine: Path) -> None:
    done = call(machine, "NO_SIS_UTIL", "out", "load", "-x", "two words")
    assert done.returncode == 0, done.stderr
    calls = [line.split(" | ") for line in (machine / "calls").read_text().splitlines()]
    recorded = [(state, what) for state, what in calls if what.startswith("record")]
    as_it_was = "GENTLE_FAIR_SLEEPERS SIS_UTIL NO_SIS_PROP"
    assert recorded == [
        (as_it_was, "record -o out/A.rewake -- load -x two words"),
        (as_it_was, "record -o out/A2.rewake -- load -x two words"),
        ("NO_SIS_UTIL", "record -o out/B.rewake -- load -x two words"),
    ]
    assert (machine / "features").read_text() == "SIS_UTIL\n"
    assert calls[-1][1] == "validate out/A.rewake out/B.rewake --a out/A2.rewake --force"
    assert [what.split()[0] for _, what in calls[3:-1]] == ["check", "fidelity"] * 3 + ["query"] * 3


def test_put_back_when_recording_fails(machine: Path) -> None:
    rewake = machine / "rewake"
    rewake.write_text(rewake.read_text().replace('[ "$1" != fail ]', 'case "$*" in *B.rewake*) exit 4 ;; esac'))
    assert call(machine, "NO_SIS_UTIL", "out", "load").returncode == 4
    assert (machine / "features").read_text() == "SIS_UTIL\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("NO_SIS_UTIL", "out"), "usage"),
        (("SIS_UTIL", "out", "load"), "is already so"),
        (("NO_NOTHING", "out", "load"), "no such feature"),
        (("NO_SIS_UTIL", ".", "load"), "exists already"),
    ],
)
def test_refusals(machine: Path, arguments: tuple[str, ...], why: str) -> None:
    done = call(machine, *arguments)
    assert done.returncode == 1
    assert why in done.stderr
    assert not (machine / "calls").exists()
