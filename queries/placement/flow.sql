-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Where does each policy send the wakees?
-- Definition: Every decision falls under the first that holds. prev: it stays on its previous CPU, busy or not.
--   waker: the waker's CPU, busy or not. busy: another CPU that is not usably idle. same_llc: an idle CPU in the
--   LLC of the previous one. other_llc: an idle CPU in another LLC. any_llc: an idle CPU, its LLC or the previous
--   CPU's is unknown. Population: fair wakeups of class moved or stayed that the policy decided.
-- Units: decisions; share in per cent of the policy's decisions.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   target: prev, waker, same_llc, other_llc, any_llc or busy
--   decisions: decisions that go there
--   share_pct: share of the policy's decisions
WITH sorted AS (
    SELECT
        policy,
        n,
        CASE
            WHEN NOT moves THEN 'prev'
            WHEN to_waker THEN 'waker'
            WHEN NOT target_idle THEN 'busy'
            WHEN cross_llc_prev THEN 'other_llc'
            WHEN NOT cross_llc_prev THEN 'same_llc'
            ELSE 'any_llc'
        END AS target
    FROM tallied
)

SELECT
    policy,
    target,
    total(n) AS decisions,
    pct(total(n), sum(total(n)) OVER (PARTITION BY policy)) AS share_pct
FROM sorted
GROUP BY policy, target
ORDER BY policy, list_position(['prev', 'waker', 'same_llc', 'other_llc', 'any_llc', 'busy'], target)
