-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How often would tasks have moved between CPUs, and why?
-- Definition: Modelled (closed loop). Migrations in the counted parts of all windows and replicas, per second of them.
-- Units: migrations per second.
-- Requires: sim_window arm cpu
-- Columns:
--   policy: policy instance in charge, or what was forced
--   wake_per_s: by wakeups
--   fork_per_s: by forks
--   exec_per_s: by execs
--   newidle_per_s: by CPUs that went idle
--   periodic_per_s: by periodic balancing
--   forced_per_s: recorded balancing moves, forced
--   missed_per_s: recorded balancing moves that found the task running or asleep
--   cross_llc_per_s: of all, those that left the LLC; NULL, as the next: no topology
--   cross_node_per_s: of all, those that left the NUMA node
SELECT
    arm.policy,
    sum(wake_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS wake_per_s,
    sum(fork_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS fork_per_s,
    sum(exec_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS exec_per_s,
    sum(newidle_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS newidle_per_s,
    sum(periodic_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS periodic_per_s,
    sum(forced_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS forced_per_s,
    sum(missed_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS missed_per_s,
    sum(cross_llc) FILTER (WHERE known) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS cross_llc_per_s,
    sum(cross_node) FILTER (WHERE known) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS cross_node_per_s
FROM sim_window AS w
JOIN arm ON arm.arm = w.arm
CROSS JOIN (SELECT count(llc) > 0 AS known FROM cpu) AS topology
GROUP BY arm.policy
ORDER BY min(arm.arm)
