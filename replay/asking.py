# SPDX-License-Identifier: GPL-2.0-or-later
"""Which tasks ask devices, and are woken when those are done. Inferred."""

from __future__ import annotations

from rewake.forms import Recording

_ASKS = """
WITH cycles AS (
    SELECT
        d.task, d.irq_ctx,
        o.ts_ns - lag(d.ts_ns) OVER (PARTITION BY d.task ORDER BY d.ts_ns) AS before,
        d.ts_ns - o.ts_ns AS slept
    FROM (SELECT task, irq_ctx, ts_ns FROM decision WHERE kind = 0 AND prio >= 100) AS d
    ASOF JOIN (SELECT prev_task, ts_ns FROM switch WHERE prev_state >= 2) AS o
        ON o.prev_task = d.task AND o.ts_ns <= d.ts_ns
),

outside AS (
    SELECT *, before > median(before) OVER (PARTITION BY task, irq_ctx) AS late
    FROM cycles WHERE irq_ctx IN (1, 2) AND before > 0
),

halves AS (
    SELECT task, irq_ctx, late, count(*) AS n, median(before) AS before, median(slept) AS slept
    FROM outside GROUP BY ALL
)

SELECT a.task FROM halves AS a JOIN halves AS b USING (task, irq_ctx)
WHERE NOT a.late AND b.late AND a.n + b.n >= {fewest}
GROUP BY ALL HAVING bool_and(abs(b.slept - a.slept) < (b.before - a.before) / 2)
"""

FEWEST_ASKED = 50


def askers(recording: Recording) -> list[bool]:
    """By task: where it goes to sleep later, it is woken from outside as much later. What comes when it comes is there
    the sooner after the sleep began."""
    con = recording.connect(("decision", "switch"))
    try:
        found = con.execute(_ASKS.format(fewest=FEWEST_ASKED)).fetchall()
    finally:
        con.close()
    asks = [False] * len(recording.read("task", ("task_id",))["task_id"])
    for (task,) in found:
        asks[task] = True
    return asks
