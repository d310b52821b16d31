-- SPDX-License-Identifier: GPL-2.0-or-later
-- A run's ledgers again, cut into blocks of block_ns() from the first decision: every query with one row per policy
-- then answers with one row per policy and block, `policy` being the policy, chr(31) and the block's number. The block
-- that the decisions do not fill is left out: it would count as much as the others.
CREATE OR REPLACE TEMP TABLE blocked AS
SELECT
    ledger.* EXCLUDE (policy),
    ledger.policy || chr(31) || (decision.ts_ns - first_ns) // block_ns() AS policy
FROM ledger
JOIN decision ON decision.decision_id = ledger.decision_id
CROSS JOIN (SELECT min(ts_ns) AS first_ns, max(ts_ns) AS last_ns FROM decision)
WHERE (decision.ts_ns - first_ns) // block_ns() < (last_ns - first_ns) // block_ns();

CREATE OR REPLACE TEMP VIEW ledger AS FROM blocked;
