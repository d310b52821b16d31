# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine as a trace file tells it itself: CPU lists of cores, packages, nodes and caches (perf.data's header)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rewake.collectors.snapshot.cpulist import MAX_CPUS, parse_list
from rewake.collectors.snapshot.hwloc import Hardware, Pu

_DATA_CACHES = ("Unified", "Data")


def hardware(machine: Mapping[str, Any], notes: list[str]) -> Hardware:
    """Hardware from `available` (number of CPUs), the lists `threads` (siblings of a core), `dies` and `packages`,
    `cpus` [(core, package)] by CPU number, `nodes` [(number, CPUs)] and `caches` [(level, type, CPUs)].

    CPU lists are as the kernel prints them; one that cannot be read is left out and noted. Distances of nodes are not
    told. CPUs that no list names are unknown.
    """
    threads = _groups(machine["threads"], notes)
    packages = _groups(machine["packages"], notes)
    caches = {
        level: _groups((cpus for lv, kind, cpus in machine["caches"] if lv == level and kind in _DATA_CACHES), notes)
        for level in (2, 3)
    }
    nodes = {c: number for number, cpus in machine["nodes"] for c in _list(cpus, notes)}
    told: list[tuple[int, int]] = machine["cpus"]
    known = sorted(threads.keys() | packages.keys() | nodes.keys() | caches[2].keys() | caches[3].keys())
    ids = {cpu: told[cpu][1] for cpu in known if cpu < len(told)}
    firsts = sorted(set(packages.values()))
    rank = {first: number for number, first in enumerate(firsts)}
    return Hardware({
        cpu: Pu(
            cpu, threads.get(cpu), caches[3].get(cpu), caches[2].get(cpu),
            ids.get(cpu, rank[packages[cpu]] if cpu in packages else None), nodes.get(cpu),
        )
        for cpu in known
    })  # fmt: skip


def _list(text: str, notes: list[str]) -> frozenset[int]:
    try:
        cpus = parse_list(text)
    except ValueError:
        cpus = frozenset()
    if not cpus or max(cpus) >= MAX_CPUS:
        notes.append(f"the trace's own header has the CPU list {text[:40]!r}, which cannot be")
        return frozenset()
    return cpus


def _groups(lists: Iterable[str], notes: list[str]) -> dict[int, int]:
    """Lowest CPU of its list, for each CPU."""
    return {cpu: min(group) for group in (_list(text, notes) for text in lists) if group for cpu in group}
