-- SPDX-License-Identifier: GPL-2.0-or-later
-- Per CPU: how long it was idle, of the time between the recording's first and last switch, and how much of that went to
-- interrupts (between two records of handlers lies an interrupt, but not from an exit to an entry). Idle as /proc/stat
-- counts it: in an idle state (cpu_idle), which the way into it and out of it, some microseconds each time, is no part of;
-- on a CPU without such events as long as the idle task had it.
WITH recorded AS (
    SELECT min(ts_ns) AS begins, max(ts_ns) AS ends FROM switch
),

change AS (
    SELECT cpu, id, ts_ns, 'state' AS kind, state IS NOT NULL AS idle, state IS NULL AS was_idle FROM idle
    UNION ALL
    SELECT cpu, id, ts_ns, 'task', next_task < cpus.n, prev_task < cpus.n
    FROM switch, (SELECT count(*) AS n FROM cpu) AS cpus
),

held AS (
    SELECT
        change.cpu,
        change.kind,
        change.idle,
        coalesce(lead(change.ts_ns) OVER (PARTITION BY change.cpu, change.kind ORDER BY change.id), recorded.ends)
        - change.ts_ns AS ns
    FROM change, recorded
    UNION ALL
    SELECT change.cpu, change.kind, arg_min(change.was_idle, change.id), min(change.ts_ns) - any_value(recorded.begins)
    FROM change, recorded
    GROUP BY change.cpu, change.kind
),

running AS (
    FROM held
    QUALIFY kind = min(kind) OVER (PARTITION BY cpu)  -- 'state' before 'task'
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
