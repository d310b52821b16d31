# SPDX-License-Identifier: GPL-2.0-or-later
"""Which tasks seldom come into the kernel. Inferred, where preemption is lazy."""

from __future__ import annotations

from rewake.forms import Recording

LAZILY = 50_000
"""Who is told to go by another CPU goes when it next comes into the kernel (TIF_NEED_RESCHED_LAZY, 6.13): within so
long, where it makes calls all the time, ns."""

FEWEST_TOLD = 5
"""Times that a task was told, before it is judged by itself."""

_TOLD = """
SELECT s.prev_task, count(*), count(*) FILTER (WHERE d.latency_ns - d.wakeup_ns > {lazily})
FROM decision AS d
JOIN cpu AS w ON w.cpu = d.waker_cpu
JOIN cpu AS c ON c.cpu = d.chosen_cpu
JOIN switch AS s ON s.next_task = d.task AND s.ts_ns = d.ts_ns + d.latency_ns AND s.cpu = d.chosen_cpu
WHERE
    d.kind = 0 AND NOT d.censored AND d.wakeup_ns >= 0 AND d.prio >= 100 AND NOT d.chosen_idle
    AND d.waker_cpu <> d.chosen_cpu AND w.llc = c.llc AND s.prev_state < 2 AND s.prev_task >= {cpus}
GROUP BY s.prev_task
"""
"""By who had to go: how often a wakee that a CPU of its LLC queued took its CPU, and how often late."""


def computing(recording: Recording, n_cpus: int) -> list[bool]:
    """By task: a fifth of those that were to take its CPU waited until a tick or an interrupt brought it into the
    kernel. A task that was told too rarely is taken to be as all together are."""
    con = recording.connect(("decision", "switch", "cpu"))
    try:
        told = con.execute(_TOLD.format(lazily=LAZILY, cpus=n_cpus)).fetchall()
    finally:
        con.close()
    every, late = (sum(row[k] for row in told) for k in (1, 2))
    computes = [5 * late >= every > 0] * len(recording.read("task", ("task_id",))["task_id"])
    for task, times, of_these in told:
        if times >= FEWEST_TOLD:
            computes[task] = 5 * of_these >= times
    return computes
