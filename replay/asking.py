# SPDX-License-Identifier: GPL-2.0-or-later
"""Which tasks ask devices, and are woken when those are done. Inferred."""

from __future__ import annotations

from rewake.forms import Recording

_ASKS = """
WITH cycles AS (
    SELECT
        d.task, d.irq_ctx, lag(d.irq_ctx) OVER wakeups AS woken_by,
        d.ts_ns - lag(d.ts_ns) OVER wakeups AS cycle,
        d.ts_ns - o.ts_ns AS slept
    FROM (SELECT task, irq_ctx, ts_ns FROM decision WHERE kind = 0 AND prio >= 100) AS d
    ASOF JOIN (SELECT prev_task, ts_ns FROM switch WHERE prev_state >= 2) AS o
        ON o.prev_task = d.task AND o.ts_ns <= d.ts_ns
    WINDOW wakeups AS (PARTITION BY d.task ORDER BY d.ts_ns)
),

outside AS (
    SELECT *, cycle - slept AS before, before > median(before) OVER (PARTITION BY task, irq_ctx) AS late
    FROM cycles WHERE irq_ctx IN (1, 2) AND cycle > slept
),

halves AS (
    SELECT task, irq_ctx, late, count(*) AS n, median(before) AS before, median(slept) AS slept
    FROM outside GROUP BY ALL
),

steady AS (
    SELECT
        task, irq_ctx,
        count(*) >= {fewest} AND quantile_disc(cycle, 0.75) - quantile_disc(cycle, 0.25) < median(cycle) / 2 AS yes
    FROM outside WHERE woken_by <> irq_ctx GROUP BY ALL
)

SELECT a.task
FROM halves AS a JOIN halves AS b USING (task, irq_ctx) LEFT JOIN steady USING (task, irq_ctx)
WHERE NOT a.late AND b.late AND a.n + b.n >= {fewest}
GROUP BY ALL HAVING bool_and(abs(b.slept - a.slept) < (b.before - a.before) / 2 OR coalesce(yes, false))
"""
"""Late: it went to sleep later than as a rule. Steady: where something else had woken it before, it is woken about so
long after that, wherever in between it went to sleep: it asks on its way."""

FEWEST_ASKED = 50


def askers(recording: Recording) -> list[bool]:
    """By task: where it goes to sleep later, it is woken from outside as much later, or it is always woken so long
    after something else had woken it. What comes when it comes is there the sooner after the sleep began, and any time
    after another wakeup."""
    con = recording.connect(("decision", "switch"))
    try:
        found = con.execute(_ASKS.format(fewest=FEWEST_ASKED)).fetchall()
    finally:
        con.close()
    asks = [False] * len(recording.read("task", ("task_id",))["task_id"])
    for (task,) in found:
        asks[task] = True
    return asks
