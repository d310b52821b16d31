-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which fair decisions did a policy not decide, because it has no path for that kind?
-- Definition: Fair decisions (class moved or stayed) by kind, split into those the policy decided and those it did not.
-- Units: decisions.
-- Requires: ledger decision
-- Columns:
--   policy: policy instance
--   kind: wake, fork or exec
--   decided: decisions with a choice of that policy
--   undecided: decisions without one
SELECT
    ledger.policy,
    decision_kind_of(decision.kind) AS kind,
    count(ledger.cpu) AS decided,
    count(*) - count(ledger.cpu) AS undecided
FROM ledger
JOIN decision ON decision.decision_id = ledger.decision_id
WHERE is_fair(decision.class)
GROUP BY ledger.policy, decision.kind
ORDER BY ledger.policy, decision.kind
