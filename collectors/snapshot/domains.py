# SPDX-License-Identifier: GPL-2.0-or-later
"""Scheduler domains: as the kernel reports them, or the default stack that it would build from the hardware.

Spans come from /proc/schedstat (versions 15 to 17), names, flags and imbalance_pct from debugfs (until 5.12 /proc/sys).
Without them the stack is SMT, MC (last-level cache), PKG (node), then one NUMA level per distance; levels that add no
CPU are dropped, as the kernel does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rewake.collectors.snapshot.cpulist import parse_mask
from rewake.collectors.snapshot.files import Files
from rewake.collectors.snapshot.hwloc import Hardware, Pu

DOMAINS = "sys/kernel/debug/sched/domains"
UNTIL_5_12 = "proc/sys/kernel/sched_domain"
"""Where kernels before 5.13 have them; flags are a number there before 5.10, whose bits differ by version."""
SHARE_LLC = frozenset({"SD_SHARE_LLC", "SD_SHARE_PKG_RESOURCES"})
"""The flag's name since 6.9, and before."""
RECLAIM_DISTANCE = 30
_MAX_LEVELS = 64
"""Far more than SMT, cluster, LLC, package and a level per distance of nodes."""
_COMMON = ("SD_BALANCE_NEWIDLE", "SD_BALANCE_EXEC", "SD_BALANCE_FORK", "SD_WAKE_AFFINE")
_NUMA = ("SD_SERIALIZE", "SD_OVERLAP", "SD_NUMA")
_LINE = re.compile(r"domain\d+ ()([0-9a-fA-F,]+)(?: |$)")
_NAMED_LINE = re.compile(r"domain\d+ (\S+) ([0-9a-fA-F,]+)(?: |$)")


@dataclass(frozen=True)
class Domain:
    """One level of one CPU; an empty name, no flags or None: not reported."""

    name: str
    span: frozenset[int]
    flags: tuple[str, ...] = ()
    imbalance_pct: int | None = None

    def completed(self, other: Domain) -> Domain:
        pct = other.imbalance_pct if self.imbalance_pct is None else self.imbalance_pct
        return Domain(self.name or other.name, self.span, self.flags or other.flags, pct)

    @property
    def shares_llc(self) -> bool:
        return not SHARE_LLC.isdisjoint(self.flags)


Stacks = dict[int, list[Domain]]
"""Domains of each CPU, bottom up."""


def llc_of(hardware: Hardware) -> dict[int, int]:
    """Lowest CPU that shares the last-level cache, as hwloc has it: L3, else L2, else package, else the CPU itself."""
    packages: dict[int, int] = {}
    for pu in sorted(hardware.pus.values(), key=lambda p: p.cpu):
        if pu.package is not None:
            packages.setdefault(pu.package, pu.cpu)

    def llc(pu: Pu) -> int:
        if pu.l3 is not None:
            return pu.l3
        if pu.l2 is not None:
            return pu.l2
        return packages[pu.package] if pu.package is not None else pu.cpu

    return {cpu: llc(pu) for cpu, pu in hardware.pus.items()}


def from_schedstat(files: Files) -> Stacks | None:
    """Spans (and from version 17 names) of /proc/schedstat; None without domains there."""
    stacks: Stacks = {}
    cpu = None
    text = files.text("proc/schedstat") or ""
    version = re.match(r"version (\d+)\n", text)
    # The version decides, not the look of the line: `ffff` may be a mask or a name.
    domain_line = _NAMED_LINE if version and int(version[1]) >= 17 else _LINE
    for line in text.splitlines():
        if match := re.match(r"cpu(\d+) ", line):
            cpu = int(match[1])
            stacks[cpu] = []
        elif cpu is not None and (match := domain_line.match(line)):
            span = parse_mask(match[2])
            if not span or len(stacks[cpu]) == _MAX_LEVELS:
                raise ValueError(f"proc/schedstat: no kernel has {line[:60]!r}, CPU {cpu}")
            stacks[cpu].append(Domain(match[1], span))
    return stacks if any(stacks.values()) else None


def add_names(files: Files, stacks: Stacks) -> bool:
    """Fills name, flags and imbalance_pct in place, from debugfs or, until 5.12, /proc/sys; False where some are
    missing or there are other levels."""
    complete = True
    for cpu, stack in stacks.items():
        places = (f"{tree}/cpu{cpu}" for tree in (DOMAINS, UNTIL_5_12))
        where, levels = next(((p, found) for p in places if (found := files.children(p, directories=True))), ("", []))
        if len(levels) != len(stack):
            complete = False
            continue
        for i, domain in enumerate(stack):
            at = f"{where}/domain{i}"
            name, flags = files.line(f"{at}/name"), files.line(f"{at}/flags")
            if flags is not None and flags.strip().isdigit():
                flags = None
            pct = files.number(f"{at}/imbalance_pct")
            complete &= name is not None and flags is not None
            stack[i] = replace(domain, name=name or domain.name, flags=tuple((flags or "").split()),
                               imbalance_pct=pct if pct is None or pct <= 0xFFFF else None)  # fmt: skip
    return complete


def default_stack(
    hardware: Hardware, capacity: dict[int, int], active: frozenset[int], kernel: tuple[int, int]
) -> Stacks:
    """What the kernel builds for the CPUs in `active` (online, not isolated) on this hardware."""
    llc = llc_of(hardware)
    upper_pct = 117 if kernel >= (5, 10) else 125
    share = "SD_SHARE_LLC" if kernel >= (6, 9) else "SD_SHARE_PKG_RESOURCES"
    package = "PKG" if kernel >= (6, 7) else "DIE"
    pus = {c: p for c, p in hardware.pus.items() if c in active}
    nodes = {c: p.node for c, p in pus.items()}
    by_core, by_llc = _groups({c: p.core for c, p in pus.items()}), _groups({c: llc[c] for c in pus})
    by_node = _groups(nodes)
    stacks: Stacks = {}
    for cpu in sorted(pus):
        node, number = by_node[cpu], nodes[cpu]
        levels = [
            Domain("SMT", by_core[cpu], (*_COMMON, "SD_SHARE_CPUCAPACITY", share, "SD_PREFER_SIBLING"), 110),
            Domain("MC", by_llc[cpu], (*_COMMON, share, "SD_PREFER_SIBLING"), 117),
            Domain(package, node, (*_COMMON, "SD_PREFER_SIBLING"), upper_pct),
        ]
        distances = hardware.distance.get(number, {}) if number is not None else {}
        local = distances.get(number, 0) if number is not None else 0
        for limit in sorted({d for row in hardware.distance.values() for d in row.values() if d > local}):
            span = frozenset(c for c, n in nodes.items() if n is not None and distances.get(n, limit + 1) <= limit)
            common = _COMMON if limit <= RECLAIM_DISTANCE else _COMMON[:1]
            levels.append(Domain("NUMA", span | node, (*common, *_NUMA), upper_pct))
        stacks[cpu] = _mark_asymmetric(_distinct(levels), capacity)
    return stacks


def _groups(key: Mapping[int, int | None]) -> dict[int, frozenset[int]]:
    """CPUs with the same key, for each CPU; without key: all CPUs that have none."""
    members: dict[int | None, set[int]] = {}
    for cpu, k in key.items():
        members.setdefault(k, set()).add(cpu)
    frozen = {k: frozenset(v) for k, v in members.items()}
    return {cpu: frozen[k] for cpu, k in key.items()}


def _distinct(levels: list[Domain]) -> list[Domain]:
    """Drops single CPUs and levels that add nothing to the one below."""
    kept: list[Domain] = []
    below: frozenset[int] = frozenset()
    for level in levels:
        if len(level.span) > 1 and level.span > below:
            kept.append(level)
            below = level.span
    return kept


def _mark_asymmetric(stack: list[Domain], capacity: dict[int, int]) -> list[Domain]:
    """SD_ASYM_CPUCAPACITY where capacities differ below, _FULL where all of the machine's are visible."""
    machine = set(capacity.values())
    if len(machine) < 2:
        return stack
    marked = []
    for domain in stack:
        seen = {capacity[c] for c in domain.span if c in capacity}
        flags = domain.flags
        if len(seen) > 1:
            flags = (*flags, "SD_ASYM_CPUCAPACITY")
            if seen == machine:
                flags = (*flags, "SD_ASYM_CPUCAPACITY_FULL")
        marked.append(replace(domain, flags=flags))
    return marked
