-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How often would a policy queue the wakee on a busy CPU although an idle one that it may use was there?
-- Definition: One-step: the chosen CPU is not usably idle at the decision and another allowed CPU is, in the LLC
--   of the chosen CPU (llc) or anywhere online (machine). Population: fair wakeups of class moved or stayed that the
--   policy decided.
-- Units: decisions; _per_1k per 1,000 decisions of the population, of those of which it is known.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   decisions: decisions in the population
--   target_idle: chosen CPU was idle
--   idle_missed_llc: busy chosen although its LLC had an idle allowed CPU; NULL without topology
--   idle_missed_llc_per_1k: the same per 1,000 decisions
--   idle_missed_machine: busy chosen although the machine had an idle allowed CPU
--   idle_missed_machine_per_1k: the same per 1,000 decisions
SELECT
    policy,
    total(n) AS decisions,
    tally(n, target_idle) AS target_idle,
    tally(n, idle_missed_llc) AS idle_missed_llc,
    tally_per_1k(n, idle_missed_llc) AS idle_missed_llc_per_1k,
    tally(n, idle_missed_machine) AS idle_missed_machine,
    tally_per_1k(n, idle_missed_machine) AS idle_missed_machine_per_1k
FROM tallied
GROUP BY policy
ORDER BY policy
