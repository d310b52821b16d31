# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the recorded machine was a guest, and how much time its host took from it while the trace ran."""

from __future__ import annotations

import re

from rewake.collectors.snapshot.files import Files


def read(files: Files) -> tuple[bool | None, float | None]:
    """(is a guest, per cent of CPU time stolen); None: the snapshot does not say."""
    return (
        _is_guest(files.text("proc/cpuinfo")),
        _steal_pct(files.text("before/proc/stat"), files.text("after/proc/stat")),
    )


def _is_guest(cpuinfo: str | None) -> bool | None:
    """x86 hypervisors set a CPUID bit that the kernel shows as a flag; other architectures do not say."""
    flags = next((line for line in (cpuinfo or "").splitlines() if line.startswith("flags")), None)
    return None if flags is None else "hypervisor" in flags.split()


def _steal_pct(before: str | None, after: str | None) -> float | None:
    first, last = _times(before), _times(after)
    if first is None or last is None:
        return None
    spent = [b - a for a, b in zip(first, last, strict=True)]
    total = sum(spent)
    return 100.0 * spent[7] / total if total > 0 and spent[7] >= 0 else None


def _times(stat: str | None) -> list[int] | None:
    """user nice system idle iowait irq softirq steal of all CPUs, in ticks; guest time is part of user."""
    words = (stat or "").partition("\n")[0].split()
    if len(words) < 9 or words[0] != "cpu" or not all(re.fullmatch(r"[0-9]{1,20}", w) for w in words[1:9]):
        return None
    return [int(w) for w in words[1:9]]
