-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Where does each policy put the wakee relative to the LLCs of its previous CPU and of its waker?
-- Definition: The 2x2 of "leaves the LLC of the previous CPU" and "leaves the LLC of the waker's CPU", one-step.
--   Population: fair wakeups of class moved or stayed that the policy decided.
-- Units: decisions.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   decisions: decisions in the population
--   near_both: chosen CPU shares the LLC with the previous and with the waker's CPU; NULL, as the next: no topology
--   leaves_prev: shares it with the waker's CPU only
--   leaves_waker: shares it with the previous CPU only
--   leaves_both: shares it with neither
--   unknown: the LLC of one of the three CPUs is unknown
SELECT
    policy,
    total(n) AS decisions,
    if((SELECT count(llc) > 0 FROM cpu), cases(n, NOT cross_llc_prev AND NOT cross_llc_waker), NULL) AS near_both,
    if((SELECT count(llc) > 0 FROM cpu), cases(n, cross_llc_prev AND NOT cross_llc_waker), NULL) AS leaves_prev,
    if((SELECT count(llc) > 0 FROM cpu), cases(n, NOT cross_llc_prev AND cross_llc_waker), NULL) AS leaves_waker,
    if((SELECT count(llc) > 0 FROM cpu), cases(n, cross_llc_prev AND cross_llc_waker), NULL) AS leaves_both,
    cases(n, cross_llc_prev IS NULL OR cross_llc_waker IS NULL) AS unknown
FROM tallied
GROUP BY policy
ORDER BY policy
