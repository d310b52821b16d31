-- SPDX-License-Identifier: GPL-2.0-or-later
-- Where does each policy of a run start new tasks? A fork leaves the LLC (node) of its parent when the chosen CPU is in
-- another one than the CPU that the parent forked on. Forks that the fair class placed and the policy decided.
SELECT
    ledger.policy,
    count(*) AS decisions,
    count(*) FILTER (WHERE at_chosen.llc <> at_parent.llc) AS fork_cross_llc,
    count(*) FILTER (WHERE at_chosen.node <> at_parent.node) AS fork_cross_node
FROM ledger
JOIN decision ON decision.decision_id = ledger.decision_id
JOIN cpu AS at_parent ON at_parent.cpu = decision.prev_cpu
JOIN cpu AS at_chosen ON at_chosen.cpu = ledger.cpu
WHERE is_fair(decision.class) AND decision.kind = code_decision_kind('fork')
GROUP BY ledger.policy
ORDER BY ledger.policy
