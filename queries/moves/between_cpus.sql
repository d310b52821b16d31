-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: From which CPU to which would each policy move wakeups, and where did the kernel move them?
-- Definition: One-step moves by the CPU of the previous CPU and of the chosen one; difference is the policy's moves
--   minus the kernel's at the same decisions. Pairs without any move are left out. Population: fair wakeups of
--   class moved or stayed that the policy decided.
-- Units: decisions.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   from_cpu: CPU: where the wakee was
--   to_cpu: CPU: where it would go
--   moves: decisions that the policy moves that way
--   recorded: decisions that the kernel moved that way
--   difference: moves - recorded
SELECT
    relocated.policy,
    relocated.from_cpu AS from_cpu,
    relocated.to_cpu AS to_cpu,
    sum(relocated.n)::BIGINT AS moves,
    sum(relocated.recorded)::BIGINT AS recorded,
    sum(relocated.n - relocated.recorded)::BIGINT AS difference
FROM relocated
WHERE relocated.from_cpu <> relocated.to_cpu
GROUP BY relocated.policy, relocated.from_cpu, relocated.to_cpu
ORDER BY relocated.policy, relocated.from_cpu, relocated.to_cpu
