-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which part of the kernel moved tasks in this recording, and how far?
-- Definition: Recorded sched_migrate_task events whose destination differs from the origin, by the cause worked out at
--   import. These are the migrations that happened, of all tasks and classes.
-- Units: migrations; share of all migrations in per cent.
-- Requires: migrate cpu
-- Columns:
--   cause: wake, fork, exec, newidle, periodic, active, numa, affinity, hotplug or unknown
--   migrations: recorded migrations of that cause
--   share_pct: their share of all recorded migrations
--   cross_llc: those that left the LLC; NULL without topology
--   cross_node: those that left the NUMA node; NULL without topology
WITH moved AS (
    SELECT
        coalesce(migrate_cause_of(migrate.cause), 'unknown') AS cause,
        at_orig.llc <> at_dest.llc AS leaves_llc,
        at_orig.node <> at_dest.node AS leaves_node
    FROM migrate
    LEFT JOIN cpu AS at_orig ON at_orig.cpu = migrate.orig_cpu
    LEFT JOIN cpu AS at_dest ON at_dest.cpu = migrate.dest_cpu
    WHERE migrate.orig_cpu <> migrate.dest_cpu
)

SELECT
    cause,
    count(*) AS migrations,
    pct(count(*), sum(count(*)) OVER ()) AS share_pct,
    tally(1, leaves_llc) AS cross_llc,
    tally(1, leaves_node) AS cross_node
FROM moved
GROUP BY cause
ORDER BY migrations DESC, cause
