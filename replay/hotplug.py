# SPDX-License-Identifier: GPL-2.0-or-later
"""CPUs that go offline and come back during a recording, which no event says: seen by what their own kernel threads do.

cpuhp/N runs on CPU N while it goes down and while it comes up, and never else. In its longest stint it rebuilds the
scheduling domains (cpuset_cpu_inactive, cpuset_cpu_active): the old ones go at its beginning. The last that runs there
is its stopper, migration/N, which otherwise runs for microseconds (kernel/sched/core.c sched_cpu_deactivate,
kernel/cpu.c take_cpu_down; 5.10 - 7.2).
"""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from rewake.forms import Recording

STOPPED_NS = 10_000_000
"""A stopper that runs for so long does not run: its CPU is off."""
NEAR_NS = 500_000_000
"""What cpuhp does within this before and after belongs to it."""
NEVER = 1 << 62

Shape = tuple[int, list[int], list[int], bool, bool]
"""From when; CPUs that take no more tasks, yet are in the domains; CPUs that are in none; these do not run; there are
no domains (engine/open_loop.hpp, Shape)."""

_STINTS = """
WITH named AS (
    SELECT DISTINCT a.task_id, c.name FROM task_attr a JOIN comm c ON c.id = a.comm
    WHERE c.name LIKE 'cpuhp/%' OR c.name LIKE 'migration/%'
), ran AS (
    SELECT s.cpu, s.ts_ns, n.name LIKE 'migration/%' AS stopper,
        coalesce((SELECT min(e.ts_ns) FROM switch e WHERE e.cpu = s.cpu AND e.id > s.id), ?) AS ends
    FROM switch s JOIN named n ON n.task_id = s.next_task
    WHERE n.name IN ('cpuhp/' || s.cpu, 'migration/' || s.cpu)
        AND s.cpu IN (
            SELECT t.cpu FROM switch t JOIN named m ON m.task_id = t.next_task WHERE m.name = 'cpuhp/' || t.cpu
        )
)
SELECT cpu, ts_ns, ends, stopper FROM ran ORDER BY cpu, ts_ns
"""


class Away(NamedTuple):
    """One CPU's way out and back; times in ns, NEVER where the recording ends before."""

    cpu: int
    inactive: int
    """It takes no more tasks."""
    leaves: tuple[int, int]
    """The rebuild of the domains without it."""
    off: int
    returns: tuple[int, int]
    """The rebuild with it."""


def away(recording: Recording) -> list[Away]:
    """Every CPU that goes offline."""
    con = recording.connect(("switch", "task_attr", "comm"))
    try:
        rows = con.execute(_STINTS, [NEVER]).fetchall()
    finally:
        con.close()
    out: list[Away] = []
    offs = [(cpu, off, back) for cpu, off, back, stopper in rows if stopper and back - off >= STOPPED_NS]
    for (cpu, off, back), following in zip_longest(offs, offs[1:], fillvalue=(-1, NEVER, NEVER)):
        stints = [(a, b) for c, a, b, other in rows if c == cpu and not other]
        returned = out[-1].returns[1] if out and out[-1].cpu == cpu else 0
        down = [(a, b) for a, b in stints if max(off - NEAR_NS, returned) <= a < off]
        # Where it goes again soon, the rebuild without it comes behind the one with it.
        again = following[1] if following[0] == cpu else NEVER
        soon = again < back + 2 * NEAR_NS
        up = [(a, b) for a, b in stints if back <= a < (again if soon else back + NEAR_NS)]
        if down:
            returns = _longest(up, 2 if soon else 1) if up else (NEVER, NEVER)
            out.append(Away(cpu, down[0][0], _longest(down), off, returns))
    return out


def _longest(stints: list[tuple[int, int]], n: int = 1) -> tuple[int, int]:
    """The first of the `n` longest."""
    return min(sorted(stints, key=lambda s: (s[1] - s[0], -s[0]))[-n:])


def shapes(gone: list[Away]) -> list[Shape]:
    """What the machine is like, from each time on at which that changes."""
    times = {t for g in gone for t in (g.inactive, *g.leaves, g.off, *g.returns)} - {NEVER}
    return [_at(t, gone) for t in sorted(times)]


def _at(t: int, gone: list[Away]) -> Shape:
    inactive = [g.cpu for g in gone if g.inactive <= t < g.leaves[1]]
    outside = [g.cpu for g in gone if g.leaves[1] <= t < g.returns[1]]
    off = any(g.off <= t < g.returns[1] for g in gone)
    rebuilds = any(a <= t < b for g in gone for a, b in (g.leaves, g.returns))
    return t, inactive, outside, off, rebuilds
