-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How would the wakeup latency be distributed with each policy in charge, up to its tail?
-- Definition: Modelled (closed loop). As simulate/latency, at more percentiles: nearest rank over all simulated wakeups
--   of all windows and replicas. A percentile with fewer than 10/(1-q) samples is left out.
-- Units: ns; quantile between 0 and 1.
-- Requires: woken arm
-- Columns:
--   policy: policy instance in charge, or what was forced
--   kind: policy, factual, pinned or null
--   quantile: q
--   latency_ns: that percentile
WITH placed AS (
    SELECT
        arm.policy,
        woken.latency_ns,
        row_number() OVER (PARTITION BY arm.policy ORDER BY woken.latency_ns) AS place
    FROM woken JOIN arm ON arm.arm = woken.arm
    WHERE woken.latency_ns IS NOT NULL
),

counted AS (
    SELECT policy, count(*) AS n FROM placed GROUP BY policy
),

named AS (
    SELECT policy, any_value(kind) AS kind, min(arm) AS first FROM arm GROUP BY policy
),

points AS (
    SELECT unnest(curve_quantiles()) AS q
)

SELECT
    named.policy,
    named.kind,
    points.q::DOUBLE AS quantile,
    placed.latency_ns
FROM named
JOIN counted ON counted.policy = named.policy
JOIN points ON enough(counted.n, points.q)
JOIN placed ON placed.policy = named.policy AND placed.place = ceil(points.q * counted.n)::BIGINT
ORDER BY named.first, points.q
