-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Does a policy prefer some CPUs?
-- Definition: Histogram of the chosen CPU over the population (fair wakeups of class moved or stayed that the policy
--   decided). Shows a bias to low CPU numbers or to last siblings. CPUs that were never chosen are listed with 0.
-- Units: decisions; share in per cent of the policy's decisions.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   cpu: chosen CPU
--   llc: its LLC (lowest CPU number that shares it); NULL without topology
--   decisions: times chosen
--   share_pct: share of the policy's decisions
WITH chosen AS (
    SELECT policy, cpu, count(*) AS decisions FROM placed GROUP BY policy, cpu
),

grid AS (
    SELECT totals.policy, totals.decisions AS total, cpu.cpu, cpu.llc
    FROM (SELECT policy, sum(decisions)::BIGINT AS decisions FROM chosen GROUP BY policy) AS totals
    CROSS JOIN cpu
)

SELECT
    grid.policy,
    grid.cpu,
    grid.llc,
    coalesce(chosen.decisions, 0) AS decisions,
    pct(coalesce(chosen.decisions, 0), grid.total) AS share_pct
FROM grid
LEFT JOIN chosen ON chosen.policy = grid.policy AND chosen.cpu = grid.cpu
ORDER BY grid.policy, grid.cpu
