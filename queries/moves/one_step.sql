-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How many wakeups would each policy move, and across which boundaries?
-- Definition: One-step, that is against the state that the kernel saw: would_move counts choices other than the
--   previous CPU; cross_* counts choices in another LLC or node than the previous CPU (data left behind) or than the
--   waker's CPU (data of the waker). Population: fair wakeups of class moved or stayed that the policy decided.
-- Units: counts; _per_1k per 1,000 decisions of the population, of those of which it is known.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   decisions: decisions in the population
--   would_move: choices other than the previous CPU
--   would_move_per_1k: the same per 1,000 decisions
--   cross_llc_prev: choices in another LLC than the previous CPU; NULL without topology
--   cross_llc_prev_per_1k: the same per 1,000 decisions
--   cross_llc_waker: choices in another LLC than the waker's CPU; NULL without topology
--   cross_llc_waker_per_1k: the same per 1,000 decisions
--   cross_node_prev: choices in another NUMA node than the previous CPU; NULL without topology
--   cross_node_prev_per_1k: the same per 1,000 decisions
--   cross_node_waker: choices in another NUMA node than the waker's CPU; NULL without topology
--   cross_node_waker_per_1k: the same per 1,000 decisions
SELECT
    policy,
    total(n) AS decisions,
    tally(n, moves) AS would_move,
    tally_per_1k(n, moves) AS would_move_per_1k,
    tally(n, cross_llc_prev) AS cross_llc_prev,
    tally_per_1k(n, cross_llc_prev) AS cross_llc_prev_per_1k,
    tally(n, cross_llc_waker) AS cross_llc_waker,
    tally_per_1k(n, cross_llc_waker) AS cross_llc_waker_per_1k,
    tally(n, cross_node_prev) AS cross_node_prev,
    tally_per_1k(n, cross_node_prev) AS cross_node_prev_per_1k,
    tally(n, cross_node_waker) AS cross_node_waker,
    tally_per_1k(n, cross_node_waker) AS cross_node_waker_per_1k
FROM tallied
GROUP BY policy
ORDER BY policy
