-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How is the wakeup latency of each policy distributed, up to its tail?
-- Definition: As latency/policy, at more percentiles and from the run's logarithmic buckets: each value is within 1
--   % of the nearest-rank one. Over all decisions of the population: lo and hi are the percentiles of the lower and
--   of the upper bounds, equal where everything is known. Decisions without any estimate count as [0, unbounded). A
--   percentile with fewer than 10/(1-q) samples is left out.
-- Units: ns; quantile between 0 and 1.
-- Requires: ledger decision cpu bucket
-- Columns:
--   policy: policy instance
--   quantile: q
--   lo_ns: that percentile of the lower bounds
--   hi_ns: that percentile of the upper bounds; NULL when unbounded
WITH ranked AS (
    SELECT
        policy,
        count(*) FILTER (WHERE NOT (known AND (censored OR latency_ns IS NULL))) AS n,
        count(*) FILTER (WHERE NOT known AND lo_ns IS NULL) AS no_estimate
    FROM awaited
    GROUP BY policy
),

points AS (
    SELECT unnest(curve_quantiles()) AS q
),

wanted AS (
    SELECT ranked.policy, points.q, ceil(points.q * ranked.n)::BIGINT AS place
    FROM ranked
    CROSS JOIN points
    WHERE enough(ranked.n, points.q)
),

held AS (
    SELECT
        policy,
        metric,
        n,
        bucket_ns(bucket) AS ns
    FROM bucket
    UNION ALL
    SELECT policy, 'lo', no_estimate, 0 FROM ranked WHERE no_estimate > 0
),

heaped AS (
    SELECT policy, metric, ns, sum(n) OVER (PARTITION BY policy, metric ORDER BY ns)::BIGINT AS up_to
    FROM held
)

SELECT
    wanted.policy,
    wanted.q::DOUBLE AS quantile,
    (min(heaped.ns) FILTER (WHERE heaped.metric = 'lo'))::BIGINT AS lo_ns,
    (min(heaped.ns) FILTER (WHERE heaped.metric = 'hi'))::BIGINT AS hi_ns
FROM wanted
JOIN heaped ON heaped.policy = wanted.policy AND heaped.up_to >= wanted.place
GROUP BY wanted.policy, wanted.q
ORDER BY wanted.policy, wanted.q
