# SPDX-License-Identifier: GPL-2.0-or-later
"""How far the scheduler's clock is from those of the trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewake.collectors.snapshot.files import Files
from rewake.collectors.snapshot.tasks import read_ahead

DEBUG = "sys/kernel/debug/sched/debug"
TEXT = """Sched Debug Version: v0.11, 6.12.95 #1
ktime                                   : 3283.375387
sched_clk                               : 3093.318941
cpu_clk                                 : 3271.908944
jiffies                                 : 4294893117
"""


def files(root: Path, text: str) -> Files:
    (root / DEBUG).parent.mkdir(parents=True)
    (root / DEBUG).write_text(text)
    return Files(root)


def test_each_trace_clock(tmp_path: Path) -> None:
    assert read_ahead(files(tmp_path, TEXT)) == {"local": 178_590_003, "mono": -11_466_443, "global": 0, "perf": 0}


@pytest.mark.parametrize("text", ["", "sched_clk : 1.000000\n", "cpu_clk : none\n", "cpu_clk : 1.5\n"])
def test_without_the_clock_nothing_is_known(tmp_path: Path, text: str) -> None:
    assert read_ahead(files(tmp_path, text)) == {}
    assert read_ahead(Files(tmp_path / "nothing")) == {}
