# SPDX-License-Identifier: GPL-2.0-or-later
"""The engine's instructions against the committed baseline: slower code fails here, a busy machine does not."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import instructions


def test_a_stage_is_judged_against_its_baseline() -> None:
    assert [instructions.verdict(x, 100.0) for x in (104.0, 102.0, 98.0, 96.0)] == [
        "SLOWER",
        "as before",
        "as before",
        "faster: --write",
    ]
    assert instructions.verdict(1.0, None) == "new"


def test_no_stage_takes_more_instructions_than_before() -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    baseline = json.loads(instructions.BASELINE.read_text(encoding="utf-8"))
    if baseline["compiler"] != instructions.compiler():
        pytest.skip(f"the baseline is of {baseline['compiler']}")
    found = instructions.count()
    assert list(found) == list(baseline["instructions"]), "./dev gate --write"
    slower = {n: (v, baseline["instructions"][n]) for n, v in found.items()
              if instructions.verdict(v, baseline["instructions"][n]) == "SLOWER"}  # fmt: skip
    assert not slower, "instructions counted, and before; if it has to be so: ./dev gate --write"
