-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How many CPUs does each policy examine to find an idle one?
-- Definition: CPUs examined by the idle search per decision; early exits examine none. Nearest rank, NULL below
--   10/(1-q) samples. Population: fair wakeups of class moved or stayed that the policy decided.
--   What the recorded kernel examined is not recorded.
-- Units: CPUs.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   scans: decisions with a known count
--   mean_cpus: mean CPUs examined
--   p50_cpus: median
--   p99_cpus: 99th percentile
--   max_cpus: largest
WITH counted AS (
    SELECT policy, cpus_scanned AS cpus, total(n) AS n
    FROM tallied
    WHERE cpus_scanned IS NOT NULL AND NOT is_recorded(policy)
    GROUP BY ALL
),

ranked AS (
    SELECT
        policy,
        cpus,
        n,
        sum(n) OVER (PARTITION BY policy ORDER BY cpus) AS up_to,
        sum(n) OVER (PARTITION BY policy) AS scans
    FROM counted
)

SELECT
    policy,
    sum(n)::BIGINT AS scans,
    sum(n * cpus) / sum(n) AS mean_cpus,
    CASE WHEN enough(sum(n), 0.5) THEN min(cpus) FILTER (WHERE up_to >= 0.5 * scans) END AS p50_cpus,
    CASE WHEN enough(sum(n), 0.99) THEN min(cpus) FILTER (WHERE up_to >= 0.99 * scans) END AS p99_cpus,
    max(cpus) AS max_cpus
FROM ranked
GROUP BY policy
ORDER BY policy
