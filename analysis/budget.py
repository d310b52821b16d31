# SPDX-License-Identifier: GPL-2.0-or-later
"""The error budget: what the misses of the recorded kernel's own column are due to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Cause:
    """One input: misses that become the recorded choice with its probed value (proven) or another one (possible).

    `*_placebo`: the same with a random other allowed CPU in place of the recorded one. A miss may have several causes.
    """

    input: str
    proven: int
    proven_placebo: int
    possible: int
    possible_placebo: int


@dataclass(frozen=True)
class Miss:
    """One decision that came out otherwise. Names of inputs; `open_order`, `equivalent`: as counted in Budget."""

    decision_id: int
    branch: str
    proven: tuple[str, ...]
    possible: tuple[str, ...]
    equivalent: bool
    open_order: bool


@dataclass(frozen=True)
class Budget:
    """The budget of one column over the fair class's own wakeups. Shares between 0 and 1."""

    policy: str
    probed: bool
    """Replay took the recorded inputs, so that none is left to prove."""
    window_ns: int
    decisions: int
    agreement: float
    misses: int
    skill: float | None
    causes: tuple[Cause, ...]
    proven: int
    """Misses with a proven cause."""
    possible: int
    """Misses with a possible cause but no proven one."""
    unexplained: int
    """Misses with neither."""
    equivalent: int
    """Misses that chose another CPU, as idle, in the same LLC, in a core as idle. No agreement."""
    open_order: int
    """Misses that are an answer of another order of the events within the window."""
    order_agreement: float
    """Share of decisions whose recorded CPU is among the answers over all orders."""
    order_answers: float | None
    """Mean number of these answers."""
    by_branch: tuple[tuple[str, int, int], ...]
    """Branch, misses, of them open in their order."""
    listed: tuple[Miss, ...]
    """Every miss, in order of the decisions."""

    def plain(self) -> dict[str, Any]:
        """As plain data, for the writers."""
        rows = [{"branch": b, "misses": n, "open_order": o} for b, n, o in self.by_branch]
        causes, listed = [asdict(c) for c in self.causes], [asdict(m) for m in self.listed]
        return asdict(self) | {"causes": causes, "by_branch": rows, "listed": listed}


def settle(
    policy: str,
    agrees: Array,
    stays: Array,
    branch: Array,
    blame: Mapping[str, Array],
    decision: Array,
    *,
    suspects: Sequence[str],
    branches: Sequence[str],
    window_ns: int,
    probed: bool,
) -> Budget:
    """Counts of replay's accounts, arrays over the same decisions. `suspects`: names of the bits, lowest first."""
    n, miss = len(agrees), ~agrees
    agreed, stayed = int(agrees.sum()), int(stays.sum())
    proven, possible = (blame[name][miss] for name in ("proven", "possible"))
    causes = []
    for bit, name in enumerate(suspects):
        counts = [
            int(((blame[column][miss] >> bit) & 1).sum())
            for column in ("proven", "placebo_proven", "possible", "placebo_possible")
        ]
        causes.append(Cause(name, *counts))
    among = blame["among"]
    by_branch = [
        (branches[code], int((miss & (branch == code)).sum()), int((miss & among & (branch == code)).sum()))
        for code in np.unique(branch[miss]).tolist()
    ]
    return Budget(
        policy=policy,
        probed=probed,
        window_ns=window_ns,
        decisions=n,
        agreement=agreed / n if n else 0.0,
        misses=int(miss.sum()),
        skill=(agreed - stayed) / (n - stayed) if n > stayed else None,  # as macro skill() of the queries has it
        causes=tuple(causes),
        proven=int((proven != 0).sum()),
        possible=int(((proven == 0) & (possible != 0)).sum()),
        unexplained=int(((proven | possible) == 0).sum()),
        equivalent=int(blame["equivalent"][miss].sum()),
        open_order=int((miss & among).sum()),
        order_agreement=float((agrees | among).mean()) if n else 0.0,
        order_answers=float(blame["answers"].mean()) if n else None,
        listed=tuple(_misses(np.flatnonzero(miss), decision, branch, blame, suspects, branches)),
        by_branch=tuple(sorted(by_branch, key=lambda row: (-row[1], row[0]))),
    )


def _misses(
    rows: Array, decision: Array, branch: Array, blame: Mapping[str, Array], suspects: Sequence[str],
    branches: Sequence[str],
) -> Iterator[Miss]:  # fmt: skip
    def names(bits: int) -> tuple[str, ...]:
        return tuple(name for bit, name in enumerate(suspects) if bits >> bit & 1)

    for i in rows.tolist():
        yield Miss(
            decision_id=int(decision[i]),
            branch=branches[int(branch[i])],
            proven=names(int(blame["proven"][i])),
            possible=names(int(blame["possible"][i])),
            equivalent=bool(blame["equivalent"][i]),
            open_order=bool(blame["among"][i]),
        )
