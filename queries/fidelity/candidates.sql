-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which candidate column, with which settings, does what the recorded kernel did on moved wakeups?
-- Definition: agreement: same CPU as recorded, over the telling wakeups: those that the kernel moved or that some
--   candidate moves. At all others every candidate agrees, so they say nothing; a population that only the kernel
--   chooses would reward a candidate for moving what the kernel left. recall and precision: the same over the wakeups
--   that the kernel moved, and over those that the candidate moves. skill: agreement beyond the null policy prev, over
--   all decisions. Population: fair wakeups of class moved or stayed that every candidate decided.
-- Units: shares between 0 and 1.
-- Requires: trial
-- Columns:
--   policy: candidate
--   sync: WF_SYNC taken as 0, as 1 or inferred for this candidate (auto)
--   decisions: decisions in the population
--   telling: wakeups that the kernel or some candidate moves
--   moved: wakeups that the kernel moved
--   agreed: telling wakeups at which the candidate chose the recorded CPU
--   agreement: share of the telling wakeups; NULL when there are none
--   recall: share of the wakeups that the kernel moved; NULL when none
--   precision: share of the wakeups that the candidate moves; NULL when none
--   skill: agreement on all decisions beyond prev; NULL when the kernel moved nothing
WITH counted AS (
    SELECT
        policy,
        sync,
        total(decisions) AS decisions,
        total(telling) AS telling,
        total(moved) AS moved,
        total(agreed) AS all_agreed,
        total(moved_agreed) AS moved_agreed,
        total(policy_moved) AS policy_moved
    FROM trial
    GROUP BY policy, sync
)

SELECT
    policy,
    sync,
    decisions,
    telling,
    moved,
    all_agreed - (decisions - telling) AS agreed,
    agreed / nullif(telling, 0) AS agreement,
    moved_agreed / nullif(moved, 0) AS recall,
    moved_agreed / nullif(policy_moved, 0) AS precision,
    skill(all_agreed, decisions - moved, decisions) AS skill
FROM counted
ORDER BY sync, agreed DESC, policy
