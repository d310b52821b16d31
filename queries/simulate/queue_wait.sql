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
WITH named AS (
    SELECT arm, min(arm) OVER (PARTITION BY policy) AS first FROM arm
),

sent AS (
    SELECT
        first,
        count(woken.arm) AS n,
        count(woken.arm) FILTER (WHERE NOT idle_target) AS queued
    FROM named LEFT JOIN woken ON woken.arm = named.arm
    GROUP BY first
),

counted AS (
    SELECT first, wait_ns, count(*) AS times
    FROM woken JOIN named ON named.arm = woken.arm
    WHERE NOT idle_target AND wait_ns IS NOT NULL
    GROUP BY first, wait_ns
),

added AS (
    SELECT
        counted.*,
        sum(times) OVER (PARTITION BY first ORDER BY wait_ns) AS upto,
        sum(times) OVER (PARTITION BY first) AS waited
    FROM counted
),

ranked AS (
    SELECT
        first,
        any_value(waited) AS waited,
        min(wait_ns) FILTER (WHERE upto >= nearest(0.5, waited)) AS p50,
        min(wait_ns) FILTER (WHERE upto >= nearest(0.9, waited)) AS p90,
        min(wait_ns) FILTER (WHERE upto >= nearest(0.99, waited)) AS p99
    FROM added
    GROUP BY first
)

SELECT
    arm.policy,
    queued,
    pct(queued, n) AS queued_pct,
    CASE WHEN enough(waited, 0.5) THEN p50 END AS p50_ns,
    CASE WHEN enough(waited, 0.9) THEN p90 END AS p90_ns,
    CASE WHEN enough(waited, 0.99) THEN p99 END AS p99_ns
FROM sent
JOIN arm ON arm.arm = sent.first
LEFT JOIN ranked ON ranked.first = sent.first
ORDER BY sent.first
