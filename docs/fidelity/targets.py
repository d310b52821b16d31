# SPDX-License-Identifier: GPL-2.0-or-later
"""The targets that docs/fidelity.md holds its recordings against, and which hold. Shares between 0 and 1."""

from __future__ import annotations

import functools
import math
from typing import Any

from measure import Idle, Measured

AGREEMENT, SKILL, MOVED = 0.96, 0.88, 0.92
BUSY = 0.9
"""Agreement of prev above which a recording is quiet: misses count there, not skill."""
QUIET_SKILL = 0.5
"""Least skill of a quiet recording: half of prev's misses are allowed."""
OF_PROBED = 0.9
"""Least share of the probed skill without probes."""
AIMS = {"schbench": 0.80, "hackbench": 0.75, "messaging": 0.75}
"""Skill without probes to aim at, by workload."""
WARM = 500
"""Fewest decisions past the warm-up of an input that say whether it is exact."""
INPUT_EXACT = {"recent_cpu": 0.99, "flips": 0.99, "recent_carried": 0.99, "flips_carried": 0.99}
UTIL_CLOSE, UTIL_R2 = 0.90, 0.95
UTIL_SPAN_NS = 160_000_000
"""PELT halves in 33.6 ms: of what a CPU or task had before a recording a 27th is left after so long."""
IDLE = 0.005
"""Most difference of a CPU's idle share."""
FEW = 10
"""Of fewer moved wakeups one miss alone is more than a skill may fall short by (1 - OF_PROBED)."""
TOO_SHORT, INPUT = "too short", "input"
"""Verdicts that are neither yes nor no. INPUT: no, for an input that no event tells."""


def quiet(fidelity: dict[str, Any]) -> bool:
    return bool(fidelity["prev_agreement"] > BUSY)


def least(fidelity: dict[str, Any]) -> float:
    """Skill that is asked of a recording with its probes."""
    return QUIET_SKILL if quiet(fidelity) else SKILL


def with_probes(fidelity: dict[str, Any]) -> list[str]:
    """What a probed recording with its probes fails of the target; empty: it holds."""
    limits = [("agreement", "agreement", AGREEMENT), ("skill", "skill", least(fidelity))]
    if not quiet(fidelity):
        limits += [("moved_agreement", "recall", MOVED), ("moved_precision", "precision", MOVED)]
    return [word for key, word, limit in limits if fidelity[key] is None or fidelity[key] < limit]


def probed_target(fidelity: dict[str, Any]) -> bool | str:
    """Whether a probed recording with its probes holds the target, or TOO_SHORT."""
    failed = with_probes(fidelity)
    return not failed if "agreement" in failed or tells(fidelity, least(fidelity)) else TOO_SHORT


def aimed(fidelity: dict[str, Any], aim: float) -> bool | str:
    """Whether a skill reaches what it aims at, or TOO_SHORT."""
    return bool(fidelity["skill"] >= aim) if tells(fidelity, aim) else TOO_SHORT


def missed(fidelity: dict[str, Any]) -> int:
    """How many wakeups."""
    misses: int = round((1 - fidelity["agreement"]) * fidelity["decisions"])
    return misses


def _share(k: int, n: int, tail: float) -> float:
    """With which share of misses at most k of n binomial draws miss in a `tail` of all cases."""
    ways = [math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) for i in range(k + 1)]
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        yes, no = math.log(middle), math.log1p(-middle)
        if sum(math.exp(w + i * yes + (n - i) * no) for i, w in enumerate(ways)) > tail:
            low = middle
        else:
            high = middle
    return low


@functools.cache
def interval(misses: int, moved: int) -> tuple[float, float] | None:
    """95 % interval of the skill 1 - misses / moved wakeups. None without moved wakeups.

    The exact one (Clopper and Pearson's), for the share of the misses in both counts together, as if wakeups missed
    independently of each other.
    """
    if not moved:
        return None
    shares = _share(misses, misses + moved, 0.025), _share(misses - 1, misses + moved, 0.975) if misses else 0.0
    low, high = (1 - s / (1 - s) for s in shares)
    return low, high


def skill_interval(fidelity: dict[str, Any]) -> tuple[float, float] | None:
    return interval(missed(fidelity), fidelity["moved"])


def tells(fidelity: dict[str, Any], limit: float) -> bool:
    """Whether enough wakeups moved to say on which side of `limit` a skill is: FEW, or so clear a case that even the
    interval of fewer lies on one side."""
    span = skill_interval(fidelity)
    return span is not None and (fidelity["moved"] >= FEW or not span[0] <= limit <= span[1])


def command(found: Measured) -> str:
    """The command line that made the load."""
    return str(found.meta.get("workload", "")).removeprefix("begin ")  # the lab's way to start it in the recording


def workload(found: Measured) -> str:
    """What made the load: the program where it is a benchmark of AIMS, else the whole command line."""
    line = command(found)
    return line.split(" ")[0] if line.startswith(tuple(AIMS)) else line


def idle_target(idle: Idle) -> bool | str:
    """Whether the idle shares hold their target. A recording over which /proc/stat is coarser can only hold it by luck
    and not fail it: too short."""
    if all(abs(x) <= IDLE for x in idle.stat):
        return True
    return TOO_SHORT if idle.resolution > IDLE else False


def input_target(row: dict[str, Any]) -> bool | str | None:
    """Whether an audited input holds its target; None: it has none."""
    if limit := INPUT_EXACT.get(row["input"]):
        if row["warm"] is None:
            return bool(row["exact"] >= limit)
        return TOO_SHORT if row["warm"] < WARM else bool(row["warm_exact"] >= limit)
    if row["input"] == "util":
        if row["close"] >= UTIL_CLOSE and row["r2"] is not None and row["r2"] >= UTIL_R2:
            return True
        return TOO_SHORT if row["span_ns"] < UTIL_SPAN_NS else False  # what was before it lasts to its end
    return None
