# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine as a tree: node, package, LLC, core, CPU. As lines, levels that say nothing new are left out and siblings
of the same shape are folded, so that a machine of hundreds of CPUs fits on a screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rewake.analysis.grid import counted
from rewake.forms import Columns, values_of

LEVELS = ("node", "package", "llc", "core")
_WORDS = {"node": "node", "package": "package", "llc": "LLC", "core": "core"}
_SCREEN = 40
"""Lines above which siblings of the same shape are folded."""


@dataclass(frozen=True)
class Cpu:
    """One CPU; `where` holds its node, package, llc and core, None where not known."""

    cpu: int
    online: bool
    isolated: bool
    capacity: int | None
    where: tuple[int | None, ...]


def cpus_of(cpu: Columns, cpu_state: Columns) -> list[Cpu]:
    """From the tables `cpu` and `cpu_state`; of the states each CPU's first."""
    state: dict[int, tuple[bool, bool]] = {}
    rows = zip(*(values_of(cpu_state[name]) for name in ("cpu", "online", "isolated")), strict=True)
    for number, online, isolated in rows:
        state.setdefault(number, (online, isolated))
    columns = [values_of(cpu[name]) for name in ("cpu", "capacity", *LEVELS)]
    return [
        Cpu(number, *state.get(number, (True, False)), capacity, tuple(where))
        for number, capacity, *where in zip(*columns, strict=True)
    ]


def document(cpus: list[Cpu]) -> dict[str, Any]:
    """The tree and its counts; offline CPUs have no place in it."""
    online = [c for c in cpus if c.online]
    return {
        "cpus": len(cpus), "online": len(online),
        **{f"{level}s": _count(online, i) for i, level in enumerate(LEVELS)},
        "offline": [c.cpu for c in cpus if not c.online],
        "isolated": [c.cpu for c in online if c.isolated],
        "tree": _branches(online, 0),
    }  # fmt: skip


def lines(cpus: list[Cpu]) -> list[str]:
    """The tree for people."""
    online = [c for c in cpus if c.online]
    counts = (
        (len(online), "CPU"),
        *((_count(online, i), _WORDS[level]) for i, level in reversed([*enumerate(LEVELS)])),
    )
    out = [", ".join(counted(n, word) for n, word in counts if n)]
    levels = [i for i in range(len(LEVELS) - 1) if _count(online, i)]
    # A level that only repeats the one above it is named on the same line.
    tree = list(_drawn(online, levels, 1, fold=False))
    if len(tree) > _SCREEN:
        tree = list(_drawn(online, levels, 1, fold=True))
    out += tree
    if offline := [c.cpu for c in cpus if not c.online]:
        out.append(f"offline: CPU{'s' if len(offline) > 1 else ''} {cpu_list(offline)}")
    if isolated := [c.cpu for c in online if c.isolated]:
        out.append(f"isolated: CPU{'s' if len(isolated) > 1 else ''} {cpu_list(isolated)}")
    return out


def cpu_list(numbers: Sequence[int]) -> str:
    """Kernel list form; of more than 8 ranges the first three and the last, and how many CPUs they are."""
    runs: list[list[int]] = []
    for n in sorted(numbers):
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    return ",".join(shown) if len(shown) <= 8 else ",".join([*shown[:3], "…", shown[-1]]) + f" ({len(numbers)})"


def _drawn(cpus: list[Cpu], levels: list[int], depth: int, *, fold: bool) -> Iterator[str]:
    pad = "  " * depth
    if not levels:
        yield from (pad + text for text in _cores(cpus))
        return
    groups = _groups(cpus, levels[0])
    word = _WORDS[LEVELS[levels[0]]]
    at = 0
    while at < len(groups):
        number, members = groups[at]
        same = at + 1
        while fold and same < len(groups) and _shape(groups[same][1], levels[1:]) == _shape(members, levels[1:]):
            same += 1
        same = same if same - at > 2 else at + 1
        name = f"{word} {number}" if number is not None else f"no {word}"
        rest = levels[1:]
        while rest and len(inner := _groups(members, rest[0])) == 1:  # nothing branches here
            if inner[0][0] is not None:
                name += f", {_WORDS[LEVELS[rest[0]]]} {inner[0][0]}"
            rest = rest[1:]
        if rest:
            yield f"{pad}{name}: CPUs {cpu_list([c.cpu for c in members])}"
            yield from _drawn(members, rest, depth + 1, fold=fold)
        else:
            yield from (f"{pad}{name}: {text}" for text in _cores(members))
        if same > at + 1:
            more = [c.cpu for _, group in groups[at + 1 : same] for c in group]
            yield f"{pad}… and {same - at - 1} {word}s like it: CPUs {cpu_list(more)}"
        at = same


def _cores(cpus: list[Cpu]) -> Iterator[str]:
    """The cores of an LLC, one line for all that are alike; the capacity where it is not the biggest there can be."""
    kinds: dict[tuple[int, int | None], list[list[Cpu]]] = {}
    for _, members in _groups(cpus, LEVELS.index("core")):
        kinds.setdefault((len(members), members[0].capacity), []).append(members)
    for (threads, capacity), cores in kinds.items():
        text = counted(len(cores), "core") + (f" of {threads} CPUs" if threads > 1 else "")
        text += f", CPU{'' if len(cores) * threads == 1 else 's'} {cpu_list([c.cpu for core in cores for c in core])}"
        yield text + (f", capacity {capacity}" if capacity not in (None, 1024) else "")


def _shape(cpus: list[Cpu], levels: list[int]) -> tuple[Any, ...]:
    """Equal for subtrees that differ in their numbers only."""
    if not levels:
        by_core = _groups(cpus, LEVELS.index("core"))
        return tuple(sorted(((len(m), m[0].capacity or 0) for _, m in by_core)))
    return tuple(_shape(members, levels[1:]) for _, members in _groups(cpus, levels[0]))


def _branches(cpus: list[Cpu], level: int) -> list[dict[str, Any]]:
    if level == len(LEVELS):
        return [{"cpu": c.cpu, "capacity": c.capacity} for c in cpus]
    inner = f"{LEVELS[level + 1]}s" if level + 1 < len(LEVELS) else "cpus"
    return [{LEVELS[level]: n, inner: _branches(members, level + 1)} for n, members in _groups(cpus, level)]


def _groups(cpus: list[Cpu], level: int) -> list[tuple[int | None, list[Cpu]]]:
    """CPUs by their number at a level, in the order of the lowest CPU."""
    found: dict[int | None, list[Cpu]] = {}
    for cpu in sorted(cpus, key=lambda c: c.cpu):
        found.setdefault(cpu.where[level], []).append(cpu)
    return list(found.items())


def _count(cpus: list[Cpu], level: int) -> int | None:
    """How many; None where not known."""
    return len({c.where[level] for c in cpus if c.where[level] is not None}) or None
