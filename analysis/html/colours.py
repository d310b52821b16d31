# SPDX-License-Identifier: GPL-2.0-or-later
"""One look per policy, the same in every chart and table, and as far as it goes in every report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_NEUTRAL = {"recorded": "recorded", "prev": "prev", "waker": "waker"}
_PREFERRED = {
    "idle-thread-scan": 2, "wakeup-buddy": 3, "irq-aware": 4, "asym-prefer-prev": 5, "userspace-hints": 6,
    "oracle-idle": 7, "random-idle": 8,
}  # fmt: skip
"""Slots of the policies that ship; the recorded kernel's column has the first. style.css has a colour for each."""
SLOTS = 8
_DASHES: tuple[tuple[int, ...], ...] = ((), (7, 3), (2, 2), (9, 3, 2, 3))
"""A second carrier beside the colour: neighbours differ in both."""


@dataclass(frozen=True)
class Look:
    """`name` is a class and a variable of style.css; `dash` a stroke-dasharray."""

    name: str
    dash: tuple[int, ...]

    @property
    def colour(self) -> str:
        return f"var(--p-{self.name})"


def looks(policies: Sequence[str], auto: str | None) -> dict[str, Look]:
    """The look of every policy instance; beyond the slots colours come again with other dashes."""
    out: dict[str, Look] = {}
    used: dict[str, int] = {}
    rest = []

    def take(policy: str, name: str) -> None:
        shift = int(name) - 1 if name.isdecimal() else 0
        out[policy] = Look(name, _DASHES[(shift + used.get(name, 0)) % len(_DASHES)])
        used[name] = used.get(name, 0) + 1

    for policy in policies:
        base = policy.partition(":")[0].partition("@")[0]
        wanted = _NEUTRAL.get(policy) or ("1" if policy == auto else str(_PREFERRED.get(base, "")))
        if wanted and wanted not in used:
            take(policy, wanted)
        else:
            rest.append(policy)
    for policy in rest:
        free = min(range(1, SLOTS + 1), key=lambda slot: (used.get(str(slot), 0), slot))
        take(policy, str(free))
    return {policy: out[policy] for policy in policies}
