-- SPDX-License-Identifier: GPL-2.0-or-later
-- Per CPU: how long the idle task had it, of the time between the recording's first and last switch, and how much of that
-- went to interrupts (between two records of handlers lies an interrupt, but not from an exit to an entry).
WITH recorded AS (
    SELECT min(ts_ns) AS begins, max(ts_ns) AS ends FROM switch
),

held AS (
    SELECT
        switch.cpu,
        switch.next_task AS task,
        coalesce(lead(switch.ts_ns) OVER (PARTITION BY switch.cpu ORDER BY switch.id), recorded.ends) - switch.ts_ns AS ns
    FROM switch, recorded
    UNION ALL
    SELECT switch.cpu, arg_min(switch.prev_task, switch.id), min(switch.ts_ns) - any_value(recorded.begins)
    FROM switch, recorded
    GROUP BY switch.cpu
),

running AS (
    SELECT cpu, task < (SELECT count(*) FROM cpu) AS idle, ns FROM held
),

handlers AS (
    SELECT id, cpu, ts_ns, curr_task, entry FROM irq
    UNION ALL
    SELECT id, cpu, ts_ns, curr_task, softirq_phase_of(phase) = 'entry' FROM softirq
    WHERE softirq_phase_of(phase) <> 'raise'
),

handled AS (
    SELECT
        cpu,
        curr_task,
        entry OR NOT lead(entry) OVER following AS inside,
        lead(ts_ns) OVER following - ts_ns AS ns
    FROM handlers
    WINDOW following AS (PARTITION BY cpu ORDER BY id)
)

SELECT
    cpu,
    coalesce(sum(ns) FILTER (WHERE idle), 0)::BIGINT AS idle_ns,
    coalesce((
        SELECT sum(ns) FROM handled
        WHERE handled.cpu = running.cpu AND inside AND curr_task < (SELECT count(*) FROM cpu)
    ), 0)::BIGINT AS interrupts_ns,
    sum(ns)::BIGINT AS span_ns
FROM running
GROUP BY cpu
ORDER BY cpu
