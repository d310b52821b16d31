-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which programs would have got how much done, and how long would they have waited?
-- Definition: Modelled (closed loop). Simulated wakeups in the counted parts of all windows and replicas, by the name
--   that the wakee had last; tasks of one name together. Each wakeup is an iteration (wake cycle) of its task.
--   Deviation: of the rates of single windows that were not stopped; a window in which none of them woke counts as 0.
--   Latency: wakeup to switch-in, nearest rank, NULL below 10/(1-q) samples. Names with fewer than 20 wakeups are left
--   out.
-- Units: per second; ns.
-- Requires: woken arm sim_window task_attr comm
-- Columns:
--   policy: policy instance in charge, or what was forced
--   name: of the wakees; NULL: none known
--   tasks: that woke at all
--   cycles: wakeups
--   cycles_per_s: per second
--   cycles_sd_per_s: standard deviation over windows
--   p50_ns: median latency
--   p99_ns: 99th percentile
WITH named AS (
    SELECT
        task_id,
        arg_max(comm.name, coalesce(from_ns, 0)) AS name
    FROM task_attr JOIN comm ON comm.id = task_attr.comm
    GROUP BY task_id
),

each AS (
    SELECT
        woken.*,
        named.name
    FROM woken LEFT JOIN named ON named.task_id = woken.task
),

span AS (
    SELECT
        arm,
        window_id,
        diverged,
        (to_ns - from_ns) / 1e9 AS seconds
    FROM sim_window
    WHERE to_ns > from_ns
),

whole AS (
    SELECT
        arm.policy,
        sum(seconds) AS seconds
    FROM span JOIN arm ON arm.arm = span.arm
    GROUP BY arm.policy
),

counted AS (
    SELECT
        arm,
        window_id,
        name,
        count(*) AS n
    FROM each
    GROUP BY arm, window_id, name
),

names AS (SELECT DISTINCT name FROM each),

rates AS (
    SELECT
        arm.policy,
        names.name,
        stddev_samp(coalesce(counted.n, 0) / span.seconds) AS sd
    FROM span
    CROSS JOIN names
    JOIN arm ON arm.arm = span.arm
    LEFT JOIN counted
        ON
            counted.arm = span.arm
            AND counted.window_id = span.window_id
            AND counted.name IS NOT DISTINCT FROM names.name
    WHERE NOT span.diverged
    GROUP BY arm.policy, names.name
),

ranked AS (
    SELECT
        arm.policy,
        min(arm.arm) AS first,
        each.name,
        count(DISTINCT each.task) AS tasks,
        count(*) AS cycles,
        count(latency_ns) AS n,
        quantile_disc(latency_ns, [0.5, 0.99]) AS q
    FROM each JOIN arm ON arm.arm = each.arm
    GROUP BY arm.policy, each.name
)

SELECT
    ranked.policy,
    ranked.name,
    tasks,
    cycles,
    cycles / whole.seconds AS cycles_per_s,
    rates.sd AS cycles_sd_per_s,
    CASE WHEN enough(n, 0.5) THEN q[1] END AS p50_ns,
    CASE WHEN enough(n, 0.99) THEN q[2] END AS p99_ns
FROM ranked
JOIN whole ON whole.policy = ranked.policy
LEFT JOIN rates ON rates.policy = ranked.policy AND rates.name IS NOT DISTINCT FROM ranked.name
WHERE cycles >= 20
ORDER BY first, cycles DESC, ranked.name
