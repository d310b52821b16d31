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
    SELECT unnest([
        0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.84, 0.87, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97,
        0.975, 0.98, 0.984, 0.987, 0.99, 0.992, 0.994, 0.995, 0.996, 0.997, 0.9975, 0.998, 0.9984, 0.9987, 0.999,
        0.9992, 0.9994, 0.9995, 0.9996, 0.9997, 0.9998, 0.9999, 0.99995, 0.99998, 0.99999
    ]) AS q
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
