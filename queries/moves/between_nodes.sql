-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: From which NUMA node to which would each policy move wakeups, and what did the kernel do?
-- Definition: One-step moves by the NUMA node of the previous CPU and of the chosen one; difference is the policy's
--   moves minus the kernel's at the same decisions. Pairs without any move are left out, and so are moves inside
--   one NUMA node and those where it is unknown. Population: fair wakeups of class moved or stayed that the policy
--   decided.
-- Units: decisions.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   from_node: NUMA node, by the number that the kernel gives it: where the wakee was
--   to_node: NUMA node, by the number that the kernel gives it: where it would go
--   moves: decisions that the policy moves that way
--   recorded: decisions that the kernel moved that way
--   difference: moves - recorded
SELECT
    relocated.policy,
    origin.node AS from_node,
    destination.node AS to_node,
    sum(relocated.n)::BIGINT AS moves,
    sum(relocated.recorded)::BIGINT AS recorded,
    sum(relocated.n - relocated.recorded)::BIGINT AS difference
FROM relocated
JOIN cpu AS origin ON origin.cpu = relocated.from_cpu
JOIN cpu AS destination ON destination.cpu = relocated.to_cpu
WHERE origin.node <> destination.node
GROUP BY relocated.policy, origin.node, destination.node
ORDER BY relocated.policy, origin.node, destination.node
