-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How many decisions of each policy rest on inputs that the recording does not contain?
-- Definition: A decision rests on an assumed input when the policy looked at it and it was inferred or modelled.
--   One row per input that occurs, and one named "any". Population: fair wakeups of class moved or stayed that the
--   policy decided.
-- Units: decisions; share in per cent of the policy's decisions.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   input: assumed input, or "any"
--   decisions: decisions that rest on it
--   share_pct: share of the policy's decisions
WITH bits AS (
    SELECT policy, inputs_assumed AS bits, total(n) AS decisions FROM tallied GROUP BY ALL
),

total AS (
    SELECT policy, sum(decisions) AS decisions FROM bits GROUP BY policy
),

resting AS (
    SELECT bits.policy, 'any' AS input, bits.decisions FROM bits WHERE bits.bits > 0
    UNION ALL
    SELECT bits.policy, named.input, bits.decisions
    FROM bits
    CROSS JOIN (SELECT unnest(all_inputs()) AS input) AS named
    WHERE has_input(bits.bits, named.input)
)

SELECT
    resting.policy,
    resting.input,
    sum(resting.decisions)::BIGINT AS decisions,
    pct(sum(resting.decisions), any_value(total.decisions)) AS share_pct
FROM resting
JOIN total ON total.policy = resting.policy
GROUP BY resting.policy, resting.input
ORDER BY resting.policy, resting.input <> 'any', decisions DESC, resting.input
