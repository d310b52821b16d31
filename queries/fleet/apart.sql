-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which recordings do not count, and why?
-- Definition: As fleet/standing, one row per recording and reason, failed tasks left out (fleet/failures).
-- Units: tasks; skill and agreement between 0 and 1.
-- Requires: shard
-- Columns:
--   standing: refused, unfaithful or no column
--   uri: the recording
--   machine: machine class
--   kernel: release of the recorded kernel
--   tasks: tasks that do not count
--   agreement: of the column of its own kernel; NULL: none
--   skill: of that column over prev
--   why: what the quality card says of the first window, why there is no column, or what the closed loop misses
SELECT
    fleet_standing.standing,
    min(fleet_task.uri) AS uri,
    min(fleet_task.machine) AS machine,
    min(fleet_task.kernel) AS kernel,
    count(*) AS tasks,
    any_value(fleet_fidelity.agreement) AS agreement,
    any_value(fleet_fidelity.skill) AS skill,
    arg_min(
        coalesce(
            fleet_task.refused,
            if(fleet_standing.standing = 'refused', 'too few decisions in all its windows', NULL),
            fleet_task.no_column,
            fleet_task.missed
        ),
        coalesce(fleet_task.from_ns, 0)
    ) AS why
FROM fleet_standing
JOIN fleet_task ON fleet_task.task = fleet_standing.task
LEFT JOIN fleet_fidelity ON fleet_fidelity.content = fleet_standing.content
WHERE fleet_standing.standing NOT IN ('counted', 'failed')
GROUP BY fleet_standing.standing, fleet_standing.content
ORDER BY list_position(['refused', 'unfaithful', 'no column'], standing), uri
