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

KERNELS: dict[tuple[int, int], str] = {(6, 1): "linux-6.1", (4, 5): "linux-4.5", (4, 6): "linux-4.5"}
"""Kernel release (major, minor) -> policy. Anything else has no column."""

PLACEMENT_FEATURES = ("SIS_UTIL", "SIS_PROP", "WA_IDLE", "WA_WEIGHT", "WA_BIAS")
"""Scheduler features that placement reads."""

_RELEASE = re.compile(r"(\d+)\.(\d+)")
_TRUE = ("1", "true", "on", "yes")


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
    exist = sorted({name for name in KERNELS.values() if name in parameters})
    listed = ", ".join(exist) or "none"
    match = _RELEASE.match(kernel or "")
    if match is None:
        raise FidelityError(
            f"the recording does not say which kernel made it; columns that exist: {listed} (--as COLUMN)"
        )
    name = KERNELS.get((int(match[1]), int(match[2])))
    if name is None or name not in parameters:
        raise FidelityError(f"no column for kernel {match[0]}; columns that exist: {listed} (--as COLUMN)")
    carried, notes = [], []
    known = parameters[name]
    for feature in PLACEMENT_FEATURES:
        recorded = features.get(feature)
        if recorded is None:
            continue
        if feature in known:
            if recorded != (known[feature].lower() in _TRUE):
                carried.append(f"{feature}={int(recorded)}")
        elif not recorded and feature != "SIS_PROP":
            notes.append(f"recorded with NO_{feature}, for which {name} has no parameter")
    # Parameters in the order in which an instance is named (replay/spec.py).
    return Column(name + (":" + ",".join(sorted(carried)) if carried else ""), tuple(notes))
