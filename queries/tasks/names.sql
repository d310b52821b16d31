-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which programs were placed how often?
-- Definition: Wakeups, and forks and execs, that the fair class placed, by the name that the task had then. Kernel
--   threads, which no prctl reaches, and the collector's own tasks are left out, and so are tasks without a name. A
--   forked child has the name of its parent.
-- Units: count.
-- Requires: decision task task_attr comm
-- Columns:
--   name: of the task
--   wakeups: wakeups placed
--   forks: forks and execs placed
SELECT
    comm.name,
    count(*) FILTER (WHERE d.kind = code_decision_kind('wake')) AS wakeups,
    count(*) FILTER (WHERE d.kind <> code_decision_kind('wake')) AS forks
FROM decision AS d
JOIN task ON task.task_id = d.task
JOIN task_attr AS a
    ON
        a.task_id = d.task
        AND coalesce(a.from_ns <= d.ts_ns, true)
        AND coalesce(d.ts_ns < a.to_ns, true)
JOIN comm ON comm.id = a.comm
WHERE is_fair(d.class) AND NOT coalesce(task.kthread, false) AND NOT coalesce(task.observer, false)
GROUP BY comm.name
ORDER BY count(*) DESC, comm.name
