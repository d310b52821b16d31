-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: What wakeup latency would each policy have given, as far as that can be known?
-- Definition: Over all decisions of the population, never over the known subset: the recorded latency where the
--   policy chose what the kernel chose, a modelled [lo, hi] elsewhere (docs/metrics.md), [0, unbounded) where there
--   is no estimate. A percentile is the pair [that percentile of lo, that percentile of hi], nearest rank, NULL
--   below 10/(1-q) samples. An unbounded hi sorts last; where the rank falls on one, hi is NULL and at_least holds
--   the largest bounded hi (or lo, when larger). Known choices whose switch-in was never seen are censored: counted,
--   not ranked.
-- Units: ns; shares in per cent.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   n: samples ranked
--   censored: known choices without a recorded switch-in
--   known_pct: share of decisions at which the policy chose what was recorded
--   no_estimate: decisions without any estimate, taken as [0, unbounded)
--   p50_lo_ns: median of lo
--   p50_hi_ns: median of hi; NULL when unbounded
--   p50_at_least_ns: what an unbounded p50_hi_ns is known to exceed
--   p90_lo_ns: 90th percentile of lo
--   p90_hi_ns: 90th percentile of hi; NULL when unbounded
--   p90_at_least_ns: what an unbounded p90_hi_ns is known to exceed
--   p99_lo_ns: 99th percentile of lo
--   p99_hi_ns: 99th percentile of hi; NULL when unbounded
--   p99_at_least_ns: what an unbounded p99_hi_ns is known to exceed
--   p999_lo_ns: 99.9th percentile of lo
--   p999_hi_ns: 99.9th percentile of hi; NULL when unbounded
--   p999_at_least_ns: what an unbounded p999_hi_ns is known to exceed
--   biased_from: lowest percentile that censoring may bias (censored > (1-q) n / 10); NULL: none
WITH bounds AS (
    SELECT
        policy,
        known,
        known AND (censored OR latency_ns IS NULL) AS cut,
        -- Where the choice is known, the ledger has the recorded latency in both.
        coalesce(lo_ns, 0) AS lo,
        coalesce(hi_ns, 9223372036854775807) AS hi,
        NOT known AND lo_ns IS NULL AS no_estimate
    FROM awaited
),

ranked AS (
    SELECT
        policy,
        count(*) FILTER (WHERE NOT cut) AS n,
        count(*) FILTER (WHERE cut) AS censored,
        pct(count(*) FILTER (WHERE known), count(*)) AS known_pct,
        count(*) FILTER (WHERE no_estimate) AS no_estimate,
        quantile_disc(lo, [0.5, 0.9, 0.99, 0.999]) FILTER (WHERE NOT cut) AS lo,
        quantile_disc(hi, [0.5, 0.9, 0.99, 0.999]) FILTER (WHERE NOT cut) AS hi,
        max(hi) FILTER (WHERE NOT cut AND hi < 9223372036854775807) AS top
    FROM bounds
    GROUP BY policy
)

SELECT
    policy,
    n,
    censored,
    known_pct,
    no_estimate,
    CASE WHEN enough(n, 0.5) THEN lo[1] END AS p50_lo_ns,
    CASE WHEN enough(n, 0.5) THEN nullif(hi[1], 9223372036854775807) END AS p50_hi_ns,
    CASE WHEN enough(n, 0.5) AND hi[1] = 9223372036854775807 THEN greatest(lo[1], top) END AS p50_at_least_ns,
    CASE WHEN enough(n, 0.9) THEN lo[2] END AS p90_lo_ns,
    CASE WHEN enough(n, 0.9) THEN nullif(hi[2], 9223372036854775807) END AS p90_hi_ns,
    CASE WHEN enough(n, 0.9) AND hi[2] = 9223372036854775807 THEN greatest(lo[2], top) END AS p90_at_least_ns,
    CASE WHEN enough(n, 0.99) THEN lo[3] END AS p99_lo_ns,
    CASE WHEN enough(n, 0.99) THEN nullif(hi[3], 9223372036854775807) END AS p99_hi_ns,
    CASE WHEN enough(n, 0.99) AND hi[3] = 9223372036854775807 THEN greatest(lo[3], top) END AS p99_at_least_ns,
    CASE WHEN enough(n, 0.999) THEN lo[4] END AS p999_lo_ns,
    CASE WHEN enough(n, 0.999) THEN nullif(hi[4], 9223372036854775807) END AS p999_hi_ns,
    CASE WHEN enough(n, 0.999) AND hi[4] = 9223372036854775807 THEN greatest(lo[4], top) END AS p999_at_least_ns,
    biased_from(censored, n) AS biased_from
FROM ranked
ORDER BY policy
