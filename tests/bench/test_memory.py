# SPDX-License-Identifier: GPL-2.0-or-later
"""Row 8b of the closed loop: what simulate holds does not grow with the recording."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
import growth


@pytest.mark.slow
def test_simulate_holds_little_more_of_a_recording_four_times_as_long(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    row = growth.simulating(tmp_path, 2_000_000, 16, env)
    # The ceiling of the bench is row.must; the allocators' share differs beside other work.
    assert row.ratio <= 1.2, f"{row.a_seconds:.0f} MB, {row.b_seconds:.0f} MB"
