-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How many CPUs does each policy examine to find an idle one?
-- Definition: CPUs examined by the idle search per decision; early exits examine none. Nearest rank, NULL below
--   10/(1-q) samples. Population: fair wakeups of class moved or stayed that the policy decided.
-- Units: CPUs.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   scans: decisions with a known count
--   mean_cpus: mean CPUs examined
--   p50_cpus: median
--   p99_cpus: 99th percentile
--   max_cpus: largest
SELECT
    policy,
    count(cpus_scanned) AS scans,
    avg(cpus_scanned) AS mean_cpus,
    CASE WHEN enough(count(cpus_scanned), 0.5) THEN quantile_disc(cpus_scanned, 0.5) END AS p50_cpus,
    CASE WHEN enough(count(cpus_scanned), 0.99) THEN quantile_disc(cpus_scanned, 0.99) END AS p99_cpus,
    max(cpus_scanned) AS max_cpus
FROM placed
GROUP BY policy
ORDER BY policy
