-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which rule of a policy agrees with the kernel, and where did the kernel go when it does not?
-- Definition: Decisions by the rule that decided (branch), and what was recorded: the confusion of each rule.
--   Among disagreements the recorded CPU is the previous one, else the waker's, else one in the LLC of the policy's
--   choice, else another. Population: fair wakeups of class moved or stayed that the policy decided.
-- Units: decisions; agreement between 0 and 1.
-- Requires: ledger decision cpu branch
-- Columns:
--   policy: policy instance
--   branch: which rule decided
--   decisions: decisions by that rule
--   agreement: share with the recorded CPU
--   moves: decisions of that rule that leave the previous CPU
--   agreed: recorded CPU is the same
--   recorded_prev: kernel stayed on the previous CPU instead
--   recorded_waker: kernel chose the waker's CPU instead
--   recorded_same_llc: kernel chose another CPU in the same LLC as the policy
--   recorded_elsewhere: kernel chose a CPU in another LLC (or the LLC is unknown)
WITH sorted AS (
    SELECT
        tallied.policy,
        coalesce(branch.name, 'unnamed ' || tallied.branch, 'none') AS branch,
        tallied.n,
        tallied.moves,
        CASE
            WHEN agrees THEN 'agreed'
            WHEN NOT recorded_moves THEN 'prev'
            WHEN recorded_to_waker THEN 'waker'
            WHEN agrees_llc THEN 'same_llc'
            ELSE 'elsewhere'
        END AS recorded
    FROM tallied
    LEFT JOIN branch ON branch.policy = tallied.policy AND branch.code = tallied.branch
)

SELECT
    policy,
    branch,
    total(n) AS decisions,
    cases(n, recorded = 'agreed') / total(n) AS agreement,
    cases(n, moves) AS moves,
    cases(n, recorded = 'agreed') AS agreed,
    cases(n, recorded = 'prev') AS recorded_prev,
    cases(n, recorded = 'waker') AS recorded_waker,
    cases(n, recorded = 'same_llc') AS recorded_same_llc,
    cases(n, recorded = 'elsewhere') AS recorded_elsewhere
FROM sorted
GROUP BY policy, branch
ORDER BY policy, decisions DESC, branch
