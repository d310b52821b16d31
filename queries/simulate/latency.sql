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
--   p99_worst_ns: p99 if every censored wakeup waited for ever; NULL: unbounded
--   biased_from: lowest percentile that censoring may bias; NULL: none
WITH per_window AS (
    SELECT
        arm.policy,
        count(latency_ns) AS n,
        quantile_disc(latency_ns, [0.5, 0.99]) AS q
    FROM woken JOIN arm ON arm.arm = woken.arm
    GROUP BY arm.policy, arm.arm, woken.window_id
),

spread AS (
    SELECT
        policy,
        min(q[1]) FILTER (WHERE enough(n, 0.5)) AS p50_low,
        max(q[1]) FILTER (WHERE enough(n, 0.5)) AS p50_high,
        min(q[2]) FILTER (WHERE enough(n, 0.99)) AS p99_low,
        max(q[2]) FILTER (WHERE enough(n, 0.99)) AS p99_high
    FROM per_window
    GROUP BY policy
),

ranked AS (
    SELECT
        arm.policy,
        any_value(arm.kind) AS kind,
        min(arm.arm) AS first,
        count(latency_ns) AS n,
        count(*) FILTER (WHERE latency_ns IS NULL) AS censored,
        quantile_disc(latency_ns, [0.5, 0.9, 0.99, 0.999]) AS q,
        quantile_disc(coalesce(latency_ns, 9223372036854775807), 0.99) AS worst
    FROM woken JOIN arm ON arm.arm = woken.arm
    GROUP BY arm.policy
)

SELECT
    ranked.policy,
    kind,
    n,
    censored,
    CASE WHEN enough(n, 0.5) THEN q[1] END AS p50_ns,
    CASE WHEN enough(n, 0.9) THEN q[2] END AS p90_ns,
    CASE WHEN enough(n, 0.99) THEN q[3] END AS p99_ns,
    CASE WHEN enough(n, 0.999) THEN q[4] END AS p999_ns,
    p50_low AS p50_low_ns,
    p50_high AS p50_high_ns,
    p99_low AS p99_low_ns,
    p99_high AS p99_high_ns,
    CASE WHEN enough(n + censored, 0.99) AND worst < 9223372036854775807 THEN worst END AS p99_worst_ns,
    biased_from(censored, n) AS biased_from
FROM ranked JOIN spread ON spread.policy = ranked.policy
ORDER BY first
