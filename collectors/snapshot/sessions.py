# SPDX-License-Identifier: GPL-2.0-or-later
"""Groups that the kernel makes of sessions: sched_autogroup_enabled, sched(7), kernel/sched/autogroup.c (to 7.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rewake.collectors.snapshot.tasks import Cgroup, Thread

SWITCH = "kernel.sched_autogroup_enabled"
_NICE_0 = 100
"""cpu.weight of a group of nice 0."""


def with_sessions(
    threads: list[Thread], cgroups: list[Cgroup], sysctl: Mapping[str, str]
) -> tuple[list[Thread], list[Cgroup]]:
    """Threads that no cgroup takes out of the root task group are in that of their session, where the kernel makes such
    groups: a cgroup `autogroup-N` below their own."""
    if sysctl.get(SWITCH) != "1" or not any(t.autogroup and t.autogroup[0] for t in threads):
        return threads, cgroups
    cgroups = cgroups or [Cgroup(0, "/", None, None, None, None, None)]
    found, by_path = list(cgroups), {g.path: g for g in cgroups}
    group: dict[int, Cgroup] = {}

    def in_root_group(at: Cgroup) -> bool:
        while at.parent is not None:
            if at.weight is not None:
                return False
            at = cgroups[at.parent]
        return True

    def placed(thread: Thread) -> Thread:
        own = by_path.get(thread.cgroup or "/", cgroups[0])
        number, nice = thread.autogroup or (0, 0)
        if number == 0 or not in_root_group(own):
            return thread
        if number not in group:
            path = f"{own.path.rstrip('/')}/autogroup-{number}"
            group[number] = Cgroup(len(found), path, own.cgroup_id, _weight(nice), None, None, None)
            found.append(group[number])
        return replace(thread, cgroup=group[number].path)

    return [placed(t) for t in threads], found


def untold(threads: list[Thread], sysctl: Mapping[str, str]) -> bool:
    """Whether the kernel makes groups of sessions of which the snapshot does not tell."""
    return sysctl.get(SWITCH) == "1" and all(t.autogroup is None for t in threads)


def _weight(nice: int) -> int:
    """As cpu.weight.nice has it: a quarter more for each step, to a few percent."""
    return min(max(round(_NICE_0 / 1.25**nice), 1), 10_000)
