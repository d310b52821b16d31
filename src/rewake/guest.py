# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the recorded machine was a guest, and how much time its host took from it while the trace ran."""

from __future__ import annotations

import tarfile
from pathlib import Path

_BEFORE, _AFTER, _CPUINFO = "before/proc/stat", "after/proc/stat", "proc/cpuinfo"
_MAX_BYTES = 16 << 20


def read(snapshot: Path | str | None) -> tuple[bool | None, float | None]:
    """(is a guest, per cent of CPU time stolen) from a snapshot that could be loaded; None: it does not say."""
    files = _files(Path(snapshot)) if snapshot is not None else {}
    return _is_guest(files.get(_CPUINFO)), _steal_pct(files.get(_BEFORE), files.get(_AFTER))


def _files(path: Path) -> dict[str, str]:
    wanted = (_BEFORE, _AFTER, _CPUINFO)
    found: dict[str, str] = {}
    if path.is_dir():
        for name in wanted:
            file = path / name
            if file.is_file() and file.resolve().is_relative_to(path.resolve()):
                with file.open("rb") as stream:
                    found[name] = stream.read(_MAX_BYTES).decode("utf-8", "replace")
        return found
    if not path.is_file() or not tarfile.is_tarfile(path):
        return found
    with tarfile.open(path) as archive:
        for member in archive:
            name = "/".join(p for p in member.name.split("/") if p != ".")
            if member.isreg() and name in wanted and (content := archive.extractfile(member)) is not None:
                found[name] = content.read(_MAX_BYTES).decode("utf-8", "replace")
                if len(found) == len(wanted):
                    break
    return found


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
    if len(words) < 9 or words[0] != "cpu" or not all(w.isascii() and w.isdigit() for w in words[1:9]):
        return None
    return [int(w) for w in words[1:9]]
