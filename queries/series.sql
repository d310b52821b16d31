-- SPDX-License-Identifier: GPL-2.0-or-later
-- The histories of a store: one row per suite, machine, policy, metric and end, its points in the order of time. An end
-- hi that never differs from lo is no series of its own. Points of one time are ordered by revision, then by file.
WITH named AS (
    SELECT suite, machine, policy, metric, side, made, revision, kernel, run, recording, shard, value
    FROM figure
    WHERE metric NOT IN ('latency', 'report')
),

ends AS (
    SELECT suite, machine, policy, metric, count(*) FILTER (WHERE lo IS DISTINCT FROM hi) > 0 AS apart
    FROM (
        SELECT
            suite, machine, policy, metric, shard,
            max(value) FILTER (WHERE side = 'lo') AS lo,
            max(value) FILTER (WHERE side = 'hi') AS hi,
            bool_or(side = 'hi') AS two_ended
        FROM named
        GROUP BY ALL
    )
    WHERE two_ended
    GROUP BY ALL
)

SELECT
    named.suite,
    named.machine,
    named.policy,
    named.metric,
    CASE WHEN coalesce(ends.apart, false) THEN named.side END AS side,
    list(
        struct_pack(
            made := named.made, revision := named.revision, kernel := named.kernel, run := named.run,
            shard := named.shard, value := named.value
        )
        ORDER BY named.made, named.revision, named.shard
    ) AS points
FROM named
LEFT JOIN ends
    ON ends.suite = named.suite AND ends.machine = named.machine AND ends.policy = named.policy
    AND ends.metric = named.metric
WHERE named.side = 'lo' OR coalesce(ends.apart, false)
GROUP BY ALL
ORDER BY ALL
