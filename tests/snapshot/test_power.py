# SPDX-License-Identifier: GPL-2.0-or-later
"""Exit latencies of idle states, and whether the machine places by energy."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewake.collectors.snapshot.files import Files
from rewake.collectors.snapshot.power import read_energy_aware, read_exit_latency

CPU = "sys/devices/system/cpu"


def snapshot(root: Path, files: dict[str, str]) -> Files:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Files(root)


def test_exit_latency_of_cpus_that_have_all_states(tmp_path: Path) -> None:
    files = {f"{CPU}/cpu{c}/cpuidle/state{s}/latency": f"{us}\n" for c in (0, 1) for s, us in enumerate((0, 2, 133))}
    files |= {f"{CPU}/cpu2/cpuidle/state{s}/latency": f"{us}\n" for s, us in enumerate((0, 9))}
    files[f"{CPU}/cpu3/cpuidle/state0/latency"] = "never"
    files[f"{CPU}/cpu4/cpuidle/state1/latency"] = "1"
    found = read_exit_latency(snapshot(tmp_path, files), range(6))
    assert found == {"0": [0, 2, 133], "1": [0, 2, 133], "2": [0, 9]}


@pytest.mark.parametrize(
    ("model", "governors", "sysctl", "expected"),
    [
        (True, ("schedutil", "schedutil"), "1", True),
        (True, ("schedutil", "schedutil"), None, True),
        (True, ("schedutil", "performance"), "1", False),
        (True, ("schedutil", "schedutil"), "0", False),
        (False, ("schedutil", "schedutil"), "1", None),
        (True, (), None, None),
    ],
)
def test_energy_awareness(
    tmp_path: Path, model: bool, governors: tuple[str, ...], sysctl: str | None, expected: bool | None
) -> None:
    files = {f"{CPU}/cpufreq/policy{k}/scaling_governor": f"{g}\n" for k, g in enumerate(governors)}
    if model:
        files["sys/kernel/debug/energy_model/cpu0/cpus"] = "0-3"
    if sysctl is not None:
        files["proc/sys/kernel/sched_energy_aware"] = sysctl
    assert read_energy_aware(snapshot(tmp_path, files)) is expected
