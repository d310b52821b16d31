# SPDX-License-Identifier: GPL-2.0-or-later
"""Which policy stands for the recorded kernel.

The one table of kernel releases. Features come first, the version second (policies.md A12): recorded scheduler features
that the column has as parameters are carried over, so a recording made with NO_SIS_UTIL is compared with that kernel.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rewake.errors import FidelityError
from rewake.forms import TRUE

COLUMNS = tuple(
    f"linux-{v}"
    for v in "3.8 3.10 4.5 4.12 4.12.3 4.19 5.4 5.9 5.10 5.15 6.0 6.1 6.8 6.12 7.2".split()
)  # fmt: skip
"""The columns, in order of their kernels."""

KERNELS: dict[tuple[int, int], str] = {
    (3, 8): "linux-3.8", (3, 10): "linux-3.10", (4, 5): "linux-4.5", (4, 6): "linux-4.5", (4, 11): "linux-4.12",
    (4, 12): "linux-4.12", (4, 19): "linux-4.19", (5, 4): "linux-5.4", (5, 9): "linux-5.9", (5, 10): "linux-5.10",
    (5, 15): "linux-5.15", (6, 0): "linux-6.0", (6, 1): "linux-6.1", (6, 8): "linux-6.8", (6, 12): "linux-6.12",
    (7, 2): "linux-7.2",
}  # fmt: skip
"""Kernel release (major, minor) -> column that was read from it. 4.12.3 and later of 4.12 are linux-4.12.3."""

_UNREAD = "its placement code was not read"
NEAREST: tuple[tuple[tuple[int, int], tuple[int, int], str, str], ...] = (
    ((3, 9), (3, 9), "linux-3.10", _UNREAD),
    ((3, 11), (4, 2), "linux-3.10", "from 3.12 on, wakeups between tasks with many partners (wake_wide) stay at prev"),
    ((4, 3), (4, 4), "linux-4.5", _UNREAD),
    ((4, 7), (4, 7), "linux-4.5", _UNREAD),
    ((4, 8), (4, 10), "linux-4.12", "its CPU scan may be skipped when it costs more than the CPU idles (SIS_AVG_CPU)"),
    ((4, 13), (4, 13), "linux-4.12.3", "4.12.3 carries its changes; 4.13 itself was not read"),
    ((4, 14), (4, 18), "linux-4.19", "it has no recently used CPU before 4.16, and does not look for preempted vCPUs"),
    ((4, 20), (5, 3), "linux-4.19", _UNREAD),
    ((5, 5), (5, 8), "linux-5.9", "rules for per-CPU kthreads and asymmetric capacities came in between"),
    ((5, 11), (5, 14), "linux-5.15", "its idle scan is bounded by SIS_PROP, and until 5.11 has three passes"),
    ((5, 16), (5, 18), "linux-5.15", "its idle scan is bounded by SIS_PROP"),
    ((5, 19), (5, 19), "linux-6.0", _UNREAD),
    ((6, 2), (6, 5), "linux-6.1", _UNREAD),
    ((6, 6), (6, 7), "linux-6.1", "its sibling scan may leave the LLC domain, which differs for isolated CPUs"),
    ((6, 9), (6, 11), "linux-6.8", _UNREAD),
    ((6, 13), (7, 1), "linux-6.12", "some rules of 7.2 (idle-policy tasks, asymmetric SMT machines) may already hold"),
    ((7, 3), (99, 99), "linux-7.2", "it is newer than every kernel that was read"),
)
"""First and last release -> the nearest column and what is known to differ. Never used silently."""

PLACEMENT_FEATURES = ("SIS_UTIL", "SIS_PROP", "WA_IDLE", "WA_WEIGHT", "WA_BIAS")
"""Scheduler features that placement reads."""

_RELEASE = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
_ABSENT_IS_OFF = ("SIS_UTIL", "SIS_PROP")


@dataclass(frozen=True)
class Column:
    """The policy instance that stands for a kernel, and what it does not cover."""

    instance: str
    notes: tuple[str, ...] = ()


def column_of(
    kernel: str | None,
    features: Mapping[str, bool],
    parameters: Mapping[str, Mapping[str, str]],
    *,
    sched_ext: bool = False,
) -> Column:
    """Column for a recorded kernel; `parameters`: policy -> {parameter: default} of the policies that exist.

    FidelityError when sched_ext was placing tasks or no policy stands for that kernel; it lists what exists.
    """
    if sched_ext:
        raise FidelityError("a sched_ext scheduler was placing tasks in this recording: no kernel column stands for it")
    listed = ", ".join(name for name in COLUMNS if name in parameters) or "none"
    match = _RELEASE.match(kernel or "")
    if match is None:
        raise FidelityError(f"the recording does not say which kernel made it; columns that exist: {listed}")
    name, notes = _by_version(int(match[1]), int(match[2]), int(match[3] or 0))
    if name is not None:
        name, more = _by_features(name, features)
        notes += more
    if name is None or name not in parameters:
        raise FidelityError(f"no column for kernel {match[0]}; columns that exist: {listed}")
    carried = []
    known = parameters[name]
    if _x3_in_task((int(match[1]), int(match[2])), int(match[3] or 0)) and "X3_IN_TASK" in known:
        carried.append("X3_IN_TASK=1")
    for feature in PLACEMENT_FEATURES:
        recorded = features.get(feature)
        if feature in known:
            if recorded is None and features and feature in _ABSENT_IS_OFF:
                recorded = False  # the kernel lists its features, and does not have this one
                notes.append(f"recorded without the feature {feature}: {name} is taken without it")
            if recorded is not None and recorded != (known[feature].lower() in TRUE):
                carried.append(f"{feature}={int(recorded)}")
        elif recorded is False and feature not in _ABSENT_IS_OFF:
            notes.append(f"recorded with NO_{feature}, for which {name} has no parameter")
        elif recorded and feature == "SIS_PROP":
            notes.append(f"recorded with SIS_PROP, for which {name} has no parameter")
    # Parameters in the order in which an instance is named (replay/spec.py).
    return Column(name + (":" + ",".join(sorted(carried)) if carried else ""), tuple(notes))


def _x3_in_task(release: tuple[int, int], patch: int) -> bool:
    """Stable 5.10.84 took it over from 5.16; distributions, which count .0, came later."""
    return release == (5, 10) and (patch == 0 or patch >= 84)


def _by_version(major: int, minor: int, patch: int) -> tuple[str | None, list[str]]:
    """Column of a release and what is to be said of it; None before the first kernel that was read."""
    release = (major, minor)
    if release == (4, 12) and patch >= 3:
        return "linux-4.12.3", []
    if release in KERNELS:
        notes = []
        if release == (5, 15) and 0 < patch < 100:  # distributions count .0 whatever they carry
            notes.append(f"linux-5.15 was read from 5.15.100; 5.15.{patch} may lack changes that came to 5.15 later")
        return KERNELS[release], notes
    for first, last, name, difference in NEAREST:
        if first <= release <= last:
            return name, [f"no column was read from {major}.{minor}: {name} is the nearest; {difference}"]
    return None, []


def _by_features(name: str, features: Mapping[str, bool]) -> tuple[str, list[str]]:
    """A kernel that has a later kernel's feature carries that kernel's placement: vendors and stable trees backport."""
    for feature, first in (("DELAY_DEQUEUE", "linux-6.12"), ("SIS_UTIL", "linux-5.15")):
        if feature in features and COLUMNS.index(name) < COLUMNS.index(first):
            return first, [f"recorded with the feature {feature}, which {name} does not have: {first} stands for it"]
    return name, []
