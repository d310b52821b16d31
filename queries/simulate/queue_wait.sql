-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How long would tasks have waited on the run queues of busy CPUs?
-- Definition: Modelled (closed loop). Arrival on the run queue to the first switch-in, of simulated wakeups whose
--   chosen CPU was not idle. Nearest rank, NULL below 10/(1-q) samples.
-- Units: ns; share of all wakeups in per cent.
-- Requires: woken arm
-- Columns:
--   policy: policy instance in charge, or what was forced
--   queued: wakeups onto a CPU that was not idle
--   queued_pct: their share of all wakeups
--   p50_ns: median wait
--   p90_ns: 90th percentile
--   p99_ns: 99th percentile
WITH ranked AS (
    SELECT
        arm.policy,
        min(arm.arm) AS first,
        count(*) FILTER (WHERE NOT idle_target) AS queued,
        count(*) AS n,
        count(wait_ns) FILTER (WHERE NOT idle_target) AS waited,
        quantile_disc(wait_ns, [0.5, 0.9, 0.99]) FILTER (WHERE NOT idle_target) AS q
    FROM woken JOIN arm ON arm.arm = woken.arm
    GROUP BY arm.policy
)

SELECT
    policy,
    queued,
    pct(queued, n) AS queued_pct,
    CASE WHEN enough(waited, 0.5) THEN q[1] END AS p50_ns,
    CASE WHEN enough(waited, 0.9) THEN q[2] END AS p90_ns,
    CASE WHEN enough(waited, 0.99) THEN q[3] END AS p99_ns
FROM ranked
ORDER BY first
