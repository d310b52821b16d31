-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How many moved wakeups does each candidate get right in each block of time?
-- Definition: As fidelity/candidates, by block. Blocks without a telling wakeup are there too: resampling draws blocks.
-- Units: wakeups; ns.
-- Requires: trial
-- Columns:
--   policy: candidate
--   sync: WF_SYNC taken as 0, as 1 or inferred for this candidate (auto)
--   from_ns: start of the block
--   telling: wakeups that the kernel or some candidate moves
--   agreed: those at which the candidate chose the recorded CPU
SELECT
    policy,
    sync,
    from_ns,
    telling,
    agreed - (decisions - telling) AS agreed
FROM trial
ORDER BY sync, policy, from_ns
