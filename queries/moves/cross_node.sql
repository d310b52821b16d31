-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Where does each policy put the wakee relative to the NUMA nodes of its previous CPU and of its waker?
-- Definition: The 2x2 of "leaves the NUMA node of the previous CPU" and "leaves the NUMA node of the waker's CPU",
--   one-step. Population: fair wakeups of class moved or stayed that the policy decided.
-- Units: decisions.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   decisions: decisions in the population
--   near_both: chosen CPU shares the node with the previous and with the waker's CPU; NULL, as the next: no topology
--   leaves_prev: shares it with the waker's CPU only
--   leaves_waker: shares it with the previous CPU only
--   leaves_both: shares it with neither
--   unknown: the NUMA node of one of the three CPUs is unknown
SELECT
    policy,
    total(n) AS decisions,
    tally(n, NOT cross_node_prev AND NOT cross_node_waker) AS near_both,
    tally(n, cross_node_prev AND NOT cross_node_waker) AS leaves_prev,
    tally(n, NOT cross_node_prev AND cross_node_waker) AS leaves_waker,
    tally(n, cross_node_prev AND cross_node_waker) AS leaves_both,
    cases(n, cross_node_prev IS NULL OR cross_node_waker IS NULL) AS unknown
FROM tallied
GROUP BY policy
ORDER BY policy
