# SPDX-License-Identifier: GPL-2.0-or-later
"""What the snapshot says of idle states and of energy-aware scheduling."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rewake.collectors.snapshot.files import Files

_CPU_DIR = "sys/devices/system/cpu"
_STATE = re.compile(r"state([0-9]|[1-5][0-9])")


def read_exit_latency(files: Files, online: Iterable[int]) -> dict[str, list[int]]:
    """By CPU number, in decimal: exit latency in us of each cpuidle state, in order. Unknown: no key."""
    known: dict[str, list[int]] = {}
    for cpu in online:
        folder = f"{_CPU_DIR}/cpu{cpu}/cpuidle"
        states = [m for name in files.children(folder, directories=True) if (m := _STATE.fullmatch(name))]
        states.sort(key=lambda m: int(m[1]))
        found = [files.number(f"{folder}/{m[0]}/latency") for m in states]
        whole = [int(m[1]) for m in states] == list(range(len(states)))
        if found and whole and None not in found:
            known[str(cpu)] = [min(n, 2**31 - 1) for n in found if n is not None]
    return known


def read_energy_aware(files: Files) -> bool | None:
    """Whether wakeups may be placed by energy (policies.md A9); None: the snapshot does not say.

    It takes an energy model, the schedutil governor on every CPU, and kernel.sched_energy_aware not 0.
    """
    policies = files.children("sys/devices/system/cpu/cpufreq", directories=True)
    governors = {files.line(f"sys/devices/system/cpu/cpufreq/{p}/scaling_governor") for p in policies} - {None}
    if files.number("proc/sys/kernel/sched_energy_aware") == 0 or (governors and governors != {"schedutil"}):
        return False
    models = files.children("sys/kernel/debug/energy_model", directories=True)
    return True if models and governors else None
