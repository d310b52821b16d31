-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How long would woken tasks have waited with each policy in charge?
-- Definition: Modelled (closed loop). Wakeup to the first switch-in, over all simulated wakeups of all windows and
--   replicas; nearest rank, NULL below 10/(1-q) samples. Low and high: smallest and largest median and p99 of a single
--   window of a single replica (at least 1,000 wakeups for p99). Wakeups that had not run when their window stopped are
--   censored: counted, not ranked; with the worst-case reading they rank above all others.
-- Units: ns.
-- Requires: woken arm sim_window
-- Columns:
--   policy: policy instance in charge, or what was forced
--   kind: policy, factual, pinned or null
--   n: wakeups ranked
--   censored: wakeups without a switch-in
--   p50_ns: median
--   p90_ns: 90th percentile
--   p99_ns: 99th percentile
--   p999_ns: 99.9th percentile
--   p50_low_ns: smallest median of a window
--   p50_high_ns: largest
--   p99_low_ns: smallest p99 of a window
--   p99_high_ns: largest
--   p99_windows: windows that have one
--   p99_worst_ns: p99 if every censored wakeup waited for ever; NULL: unbounded
--   biased_from: lowest percentile that censoring may bias; NULL: none
WITH placed AS (
    -- By places, which DuckDB may spill. quantile_disc holds the values of all windows at once.
    SELECT
        arm,
        latency_ns,
        row_number() OVER (PARTITION BY arm, window_id ORDER BY latency_ns NULLS LAST) AS place,
        count(latency_ns) OVER (PARTITION BY arm, window_id) AS n
    FROM woken
),

spread AS (
    SELECT
        policy,
        min(latency_ns) FILTER (WHERE place = nearest(0.5, n) AND enough(n, 0.5)) AS p50_low,
        max(latency_ns) FILTER (WHERE place = nearest(0.5, n) AND enough(n, 0.5)) AS p50_high,
        min(latency_ns) FILTER (WHERE place = nearest(0.99, n) AND enough(n, 0.99)) AS p99_low,
        max(latency_ns) FILTER (WHERE place = nearest(0.99, n) AND enough(n, 0.99)) AS p99_high,
        count(*) FILTER (WHERE place = nearest(0.99, n) AND enough(n, 0.99)) AS p99_windows
    FROM placed JOIN arm ON arm.arm = placed.arm
    GROUP BY policy
),

named AS (
    SELECT arm, min(arm) OVER (PARTITION BY policy) AS first FROM arm
),

counted AS (
    SELECT first, latency_ns, count(*) AS times
    FROM woken JOIN named ON named.arm = woken.arm
    GROUP BY first, latency_ns
),

added AS (
    SELECT
        first,
        latency_ns,
        sum(times) OVER (PARTITION BY first ORDER BY latency_ns NULLS LAST) AS upto,
        coalesce(sum(times) FILTER (WHERE latency_ns IS NOT NULL) OVER (PARTITION BY first), 0) AS n,
        sum(times) OVER (PARTITION BY first) AS all_n
    FROM counted
),

ranked AS (
    SELECT
        first,
        any_value(n)::BIGINT AS n,
        any_value(all_n - n)::BIGINT AS censored,
        min(latency_ns) FILTER (WHERE upto >= nearest(0.5, n)) AS p50,
        min(latency_ns) FILTER (WHERE upto >= nearest(0.9, n)) AS p90,
        min(latency_ns) FILTER (WHERE upto >= nearest(0.99, n)) AS p99,
        min(latency_ns) FILTER (WHERE upto >= nearest(0.999, n)) AS p999,
        min(coalesce(latency_ns, 9223372036854775807)) FILTER (WHERE upto >= nearest(0.99, all_n)) AS worst
    FROM added
    GROUP BY first
)

SELECT
    arm.policy,
    arm.kind,
    coalesce(n, 0) AS n,
    coalesce(censored, 0) AS censored,
    CASE WHEN enough(n, 0.5) THEN p50 END AS p50_ns,
    CASE WHEN enough(n, 0.9) THEN p90 END AS p90_ns,
    CASE WHEN enough(n, 0.99) THEN p99 END AS p99_ns,
    CASE WHEN enough(n, 0.999) THEN p999 END AS p999_ns,
    p50_low AS p50_low_ns,
    p50_high AS p50_high_ns,
    p99_low AS p99_low_ns,
    p99_high AS p99_high_ns,
    coalesce(p99_windows, 0) AS p99_windows,
    CASE WHEN enough(n + censored, 0.99) AND worst < 9223372036854775807 THEN worst END AS p99_worst_ns,
    biased_from(censored, n) AS biased_from
FROM arm
JOIN (SELECT DISTINCT first FROM named) AS one ON one.first = arm.arm
LEFT JOIN ranked ON ranked.first = arm.arm
LEFT JOIN spread ON spread.policy = arm.policy
ORDER BY arm.arm
