-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How often does each policy choose what the kernel chose, and how much of that is more than staying put?
-- Definition: agreement A: same CPU as recorded. skill: (A - A_prev) / (1 - A_prev), where A_prev is the agreement
--   of always staying on the previous CPU; NULL when that alone agrees everywhere. moved_agreement (recall):
--   agreement on the wakeups that the kernel moved. moved_precision: agreement on the wakeups that the policy moves.
--   llc_agreement: same LLC; llc_skill: skill in that alone. Population: fair wakeups of class moved or stayed that
--   the policy decided.
-- Units: shares between 0 and 1.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   decisions: decisions in the population
--   agreement: share with the recorded CPU
--   prev_agreement: the same for the null policy prev
--   skill: agreement beyond prev, 1 is perfect, 0 is no better than prev
--   moved: wakeups that the kernel moved
--   moved_agreement: recall, share of those for which the policy chose the same CPU; NULL when none moved
--   policy_moved: wakeups that the policy moves
--   moved_precision: share of those that went where the kernel put them; NULL when none
--   llc_agreement: share with the recorded LLC; NULL without topology
--   llc_skill: LLC agreement beyond prev; NULL where the kernel left no LLC, as with one LLC
WITH counted AS (
    SELECT
        policy,
        total(n) AS decisions,
        cases(n, agrees) AS agreed,
        cases(n, NOT recorded_moves) AS prev_agreed,
        cases(n, recorded_moves) AS moved,
        cases(n, recorded_moves AND agrees) AS moved_agreed,
        cases(n, moves) AS policy_moved,
        cases(n, moves AND agrees) AS policy_moved_agreed,
        tally(n, agrees_llc) AS llc_agreed,
        tally(n, NOT recorded_cross_llc) AS llc_prev_agreed
    FROM tallied
    GROUP BY policy
)

SELECT
    policy,
    decisions,
    agreed / decisions AS agreement,
    prev_agreed / decisions AS prev_agreement,
    skill(agreed, prev_agreed, decisions) AS skill,
    moved,
    moved_agreed / nullif(moved, 0) AS moved_agreement,
    policy_moved,
    policy_moved_agreed / nullif(policy_moved, 0) AS moved_precision,
    llc_agreed / decisions AS llc_agreement,
    skill(llc_agreed, llc_prev_agreed, decisions) AS llc_skill
FROM counted
ORDER BY policy
