-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: From which LLC to which would each policy move wakeups, and where did the kernel move them?
-- Definition: One-step moves by the LLC of the previous CPU and of the chosen one; difference is the policy's moves
--   minus the kernel's at the same decisions. Pairs without any move are left out, and so are moves inside one LLC
--   and those where it is unknown. Population: fair wakeups of class moved or stayed that the policy decided.
-- Units: decisions.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   from_llc: LLC, by its lowest CPU number: where the wakee was
--   to_llc: LLC, by its lowest CPU number: where it would go
--   moves: decisions that the policy moves that way
--   recorded: decisions that the kernel moved that way
--   difference: moves - recorded
SELECT
    relocated.policy,
    origin.llc AS from_llc,
    destination.llc AS to_llc,
    sum(relocated.n)::BIGINT AS moves,
    sum(relocated.recorded)::BIGINT AS recorded,
    sum(relocated.n - relocated.recorded)::BIGINT AS difference
FROM relocated
JOIN cpu AS origin ON origin.cpu = relocated.from_cpu
JOIN cpu AS destination ON destination.cpu = relocated.to_cpu
WHERE origin.llc <> destination.llc
GROUP BY relocated.policy, origin.llc, destination.llc
ORDER BY relocated.policy, origin.llc, destination.llc
